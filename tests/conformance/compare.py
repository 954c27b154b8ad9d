"""Compares facts with a record of Volcano, returns the differences in words, and names the facts that it leaves out and
why.

Facts on which three runs of Volcano did not agree are not in the record (``disagreed`` has their paths), and are not
compared.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from textwrap import shorten
from typing import Any

from scheduler.api.queue import QUEUE_PHASES
from tests.conformance.facts import SECTIONS

Raw = dict[str, Any]

_DELIBERATE = {
    # The job's version, see below, when the Pods were made.
    "230-command-abort-resume": r"pods/.*/volcano\.sh/job-version",
    # The names of claims are random, and so are the keys of controlledResources that have them: Volcano's runs did not
    # agree on either.
    "242-volumes": r"pvcs/default/j-pvc-\w+|jobs/default/j/status/controlledResources",
    # Ours says in an Event why the job waits.
    "244-job-missing-queue": r"events/.*QueueNotFound.*",
    # Our scheduler gives the reason to every Pod that fits on no node; Volcano gives it to one Pod, and the reason of
    # the gang to the other Pods. In addition, the status of the job says what the job waits for.
    "262-jobunknown-policy": r"scheduling/j-<uid:j>/Pending, False Unschedulable .*|jobs/default/j/message",
    # On the recorded cluster, Nodes get this taint at admission, until a controller has seen them Ready.
    "309-wh-full-flow": r"admitted/Node/n\d/spec/taints",
}


def differences(scenario: str, expected: Raw, found: Raw, label: str = "") -> list[str]:
    """The differences between facts and the record; ``label``: of the observation to which the facts belong."""
    disagreed = _disagreed(expected, f"observations/{label}/" if label else "")
    left = _comparable(expected["observations"][label] if label else expected)
    right = _comparable(found)
    if "events" in disagreed:
        # The record has only the values that all runs have.
        right["events"] = {event: 1 for event in right["events"] if event in left["events"]}
        disagreed.discard("events")
    return _unexpected(scenario, (each for name in left for each in _walk(left[name], right[name], name, disagreed)))


def answers(scenario: str, expected: Raw, found: Raw) -> list[str]:
    """The differences between responses to steps, and between stored objects."""
    left, right = (
        {
            "results": {str(i): result for i, result in enumerate(facts.get("results", []))},
            "admitted": facts.get("observations", {}).get("admitted", {}),
        }
        for facts in (expected, found)
    )
    disagreed = _disagreed(expected, "")
    return _unexpected(scenario, (each for name in left for each in _walk(left[name], right[name], name, disagreed)))


def _unexpected(scenario: str, differing: Iterable[tuple[str, str]]) -> list[str]:
    deliberate = re.compile(_DELIBERATE.get(scenario, r"(?!)"))
    return [text for path, text in differing if not deliberate.fullmatch(path)]


def _disagreed(expected: Raw, prefix: str) -> set[str]:
    return {path.removeprefix(prefix) for path in expected["disagreed"] if path.startswith(prefix)}


def _comparable(facts: Raw) -> Raw:
    """The facts, with Pods of a group interchangeable, and without values that persist from one session to the next."""
    comparable: Raw = {section: facts.get(section, {}) for section in SECTIONS}
    pods = comparable["pods"]
    names = "|".join(sorted((re.escape(key.partition("/")[2]) for key in pods), key=len, reverse=True)) or r"(?!)"
    general = re.compile(rf"(?<![\w-])({names})(?![\w-])")
    # Which of equal Pods is placed on which node, and which one carries the message of its gang, is random.
    comparable["scheduling"] = _scheduling(pods, general)
    comparable["pods"] = {
        key: {n: v for n, v in pod.items() if n not in ("node", "scheduled")} for key, pod in pods.items()
    }
    comparable["podgroups"] = {key: _group(group, general) for key, group in comparable["podgroups"].items()}
    # Which phases a job went through is in its conditions. Events about PodGroups that wait, and those of Pods and
    # PodGroups themselves, are about single scheduling sessions.
    comparable["events"] = {
        " ".join(event): 1
        for event in facts.get("events", [])
        if event[0] in ("Job", "Queue") and event[3] != "PodGroupPending"
    }
    # In the status of a queue, ours counts PodGroups by phase and says what it deserves, which Volcano does in metrics
    # only, and what Pods hold that count in no queue.
    comparable["queues"] = {key: _queue(queue) for key, queue in comparable["queues"].items()}
    comparable["jobs"] = {key: _job(job) for key, job in comparable["jobs"].items()}
    return comparable


def _queue(queue: Raw) -> Raw:
    ours = {*QUEUE_PHASES, "deserved", "withoutQueue"}
    status = {name: value for name, value in (queue.get("status") or {}).items() if name not in ours}
    return {**queue, "status": status} if "status" in queue else queue


def _job(job: Raw) -> Raw:
    # Volcano increments the version in each reconciliation of a job that ends, ours once per action. The spec is
    # compared where it can change, together with the admitted object. Only ours says which restarts are no retries.
    ours = {"version", "uncountedRestarts"}
    status = {name: value for name, value in job["status"].items() if name not in ours}
    return {name: value for name, value in job.items() if name != "spec"} | {"status": status}


def _scheduling(pods: Raw, general: re.Pattern[str]) -> Raw:
    """The number of Pods of a group by phase and scheduling message."""
    counts: dict[str, Counter[str]] = {}
    for pod in pods.values():
        scheduled = pod.get("scheduled") or {}
        message = general.sub("<pod>", scheduled.get("message") or "")
        comparable = f"{pod.get('phase')}, {scheduled.get('status')} {scheduled.get('reason')} {message}"
        counts.setdefault(str(pod.get("group")), Counter())[comparable] += 1
    return {group: dict(count) for group, count in counts.items()}


def _group(group: Raw, general: re.Pattern[str]) -> Raw:
    conditions = group.get("conditions")
    if conditions is None:
        return group
    kept = [
        {**each, "message": each["message"] and general.sub("<pod>", each["message"])}
        for each in conditions
        # A running group may have this condition from a session in which one of its Pods had just been deleted.
        if not (each["type"] == "Unschedulable" and group.get("phase") == "Running")
    ]
    return {**group, "conditions": kept}


_ABSENT = object()


def _walk(expected: Any, found: Any, path: str, disagreed: set[str]) -> Iterator[tuple[str, str]]:
    if path in disagreed:
        return
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted({*expected, *found}):
            yield from _walk(expected.get(key, _ABSENT), found.get(key, _ABSENT), f"{path}/{key}", disagreed)
    elif expected != found:
        yield path, f"{path}:\n    Volcano: {_shown(expected)}\n    here:    {_shown(found)}"


def _shown(value: Any) -> str:
    return "(absent)" if value is _ABSENT else shorten(json.dumps(value, sort_keys=True), 400)
