"""Plays a scenario: creates its objects, takes its steps, and records the result.

``meta.yaml`` of a scenario contains, apart from its description:

- ``components``: which of the roles scheduler, controllers and webhooks run;
- ``steps``, in order: ``apply`` creates objects, ``delete`` and ``patch`` name one, ``pod`` lets a Pod end, ``command``
  creates a Command for a Job or Queue, ``observe`` records the facts under a label;
- ``outcomes``: which Pods end by themselves (``match``, a pattern of names), how long after they began to run
  (``after``, seconds), and with which exit code (``exit``);
- ``settle``: before the first step, and after each, nothing must have changed for ``quiet`` seconds, at least ``min``
  and at most ``max`` seconds must have passed; a step may have its own figures, or continue at once (``nowait``);
- ``admissions``, ``admission_conf``: the webhooks' paths and resource groups, if they are not the usual ones;
- ``kubelet``: false if no Pod shall run; without a scheduler, no Pod runs.
"""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from controlplane.client import ApiError
from scheduler.api.kinds import COMMAND, KINDS, POD, POD_GROUP, QUEUE, VCJOB, Kind, object_path
from tests.conformance.facts import facts, key_of
from tests.conformance.stage import Stage

Raw = dict[str, Any]

TIMEOUT = 15.0
"""The time limit for facts to come true, in seconds."""
_SETTLE = {"min": 0.8, "quiet": 1.0, "max": 20.0}
_KINDS = {(kind.api_version, kind.name): kind for kind in KINDS}


class Play:
    """One scenario on a stage that is prepared for it."""

    def __init__(self, stage: Stage, scenario: Path, meta: Raw, agrees: Callable[[str, Raw], bool]) -> None:
        """``agrees``: returns whether facts equal the facts recorded under a label; the facts at the end have the label
        ""."""
        self._stage = stage
        self._scenario = scenario
        self._meta = meta
        self._agrees = agrees
        self._results: list[Raw] = []
        self._observations: Raw = {}
        self._running_since: dict[str, float] = {}

    def perform(self) -> Raw:
        """The facts at the end, the facts of observations, and the responses to all steps."""
        manifests = self._scenario / "input.yaml"
        for body in yaml.safe_load_all(manifests.read_text(encoding="utf-8")):
            if body:
                self._create("input", body)
        self._settle({})
        for i, step in enumerate(self._meta.get("steps", [])):
            if label := step.get("observe"):
                self._observations[label] = self._facts(label)
            else:
                self._take(i, step)
                if not step.get("nowait"):
                    self._settle(step)
        return {**self._facts(""), "results": self._results, "observations": self._observations}

    # --- steps --------------------------------------------------------------------------------------------------------
    def _take(self, i: int, step: Raw) -> None:
        match step:
            case {"apply": bodies}:
                for body in bodies:
                    self._create(i, body)
            case {"delete": it}:
                self._ask(i, "delete", it, "DELETE", f"{_path(it)}?propagationPolicy=Background")
            case {"patch": it}:
                it = {"apiVersion": "v1", **it}
                path = "/".join(filter(None, (_path(it), it.get("subresource"))))
                self._ask(i, "patch", it, "PATCH", path, it["body"], "application/merge-patch+json")
            case {"pod": it}:
                it = {"apiVersion": "v1", "kind": "Pod", **it}
                path = _path(it)
                running = self._stage.api.wait(path, lambda pod: pod["status"].get("phase") == "Running")
                status = ended(running, it["exit"])
                self._ask(i, "pod", it, "PATCH", f"{path}/status", {"status": status}, "application/merge-patch+json")
            case {"command": it}:
                kind = QUEUE if it.get("kind") == "Queue" else VCJOB
                it = {"apiVersion": kind.api_version, "kind": kind.name, **it}
                target = {name: it[name] for name in ("apiVersion", "kind", "name")}
                target |= {"uid": self._stage.api.get(_path(it))["metadata"]["uid"], "controller": True}
                body = {"apiVersion": COMMAND.api_version, "kind": COMMAND.name, "metadata": {"name": f"cmd-{i}"}}
                path = object_path(COMMAND, "default", "").rstrip("/")
                self._ask(i, "command", it, "POST", path, {**body, "target": target, "action": it["action"]})
            case _:
                raise AssertionError(f"no step is known that has {sorted(step)}")

    def _create(self, step: int | str, body: Raw) -> None:
        """Only refusals count as results of the input; admitted objects are recorded if webhooks run."""
        it = {"apiVersion": body["apiVersion"], "kind": body["kind"], **body["metadata"]}
        stored = self._ask(step, "create", it, "POST", _path({**it, "name": ""}).rstrip("/"), body)
        if stored is not None and step == "input":
            self._results.pop()
        if stored is not None and "webhooks" in self._meta["components"]:
            stored_metadata = {
                name: stored["metadata"][name] for name in ("labels", "annotations") if name in stored["metadata"]
            }
            admitted = self._observations.setdefault("admitted", {})
            admitted[f"{stored['kind']}/{key_of(stored)}"] = {"metadata": stored_metadata, "spec": stored["spec"]}

    def _ask(self, step: int | str, verb: str, it: Raw, method: str, path: str, *body: Any) -> Raw | None:
        """The response, which is recorded in the results; None if it is a refusal."""
        result = {"step": step, "verb": verb, "kind": it["kind"], "name": it["name"]}
        try:
            answer: Raw = self._stage.api.request(method, path, *body)
        except ApiError as error:
            self._results.append({**result, "code": error.status, "message": error.body["message"]})
            return None
        self._results.append({**result, "code": 201 if method == "POST" else 200, "message": None})
        return answer

    # --- time ---------------------------------------------------------------------------------------------------------
    def _facts(self, label: str) -> Raw:
        """The facts as soon as they agree with the record, or the last ones after a time-out."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            self._end_pods()
            found = facts(self._stage.listed)
            if self._agrees(label, found) or time.monotonic() > deadline:
                return found
            time.sleep(0.1)

    def _settle(self, step: Raw) -> None:
        figures = _SETTLE | self._meta.get("settle", {}) | {name: step[name] for name in _SETTLE if name in step}
        start = last = time.monotonic()
        seen = None
        while (now := time.monotonic()) - start < figures["max"]:
            self._end_pods()
            versions = {
                item["metadata"]["uid"]: item["metadata"]["resourceVersion"]
                for kind in (POD, POD_GROUP, VCJOB, QUEUE)
                for item in self._stage.listed(kind)
            }
            if versions != seen:
                seen, last = versions, now
            elif now - last >= figures["quiet"] and now - start >= figures["min"]:
                return
            time.sleep(0.1)

    def _end_pods(self) -> None:
        """Ends Pods as ``outcomes`` says."""
        outcomes = self._meta.get("outcomes", [])
        for pod in self._stage.listed(POD) if outcomes else []:
            meta = pod["metadata"]
            if pod["status"].get("phase") != "Running" or meta.get("deletionTimestamp"):
                continue
            since = self._running_since.setdefault(meta["uid"], time.monotonic())
            for outcome in outcomes:
                due = time.monotonic() - since >= outcome["after"]
                if due and re.fullmatch(outcome["match"], meta["name"]):
                    path = object_path(POD, meta["namespace"], meta["name"])
                    self._stage.api.patch(f"{path}/status", {"status": ended(pod, outcome["exit"])})


def ended(pod: Raw, code: int) -> Raw:
    """The status of a Pod whose containers have all ended with an exit code."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    terminated = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": now, "finishedAt": now}
    containers = [
        {
            **{name: container[name] for name in ("name", "image")},
            **{"imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": terminated}},
        }
        for container in pod["spec"]["containers"]
    ]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}


def _path(it: Raw) -> str:
    kind: Kind = _KINDS[it["apiVersion"], it["kind"]]
    return object_path(kind, it.get("namespace", "default"), it["name"])
