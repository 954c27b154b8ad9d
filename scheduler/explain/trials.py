"""Trials: sessions over a copy of the settled cluster with a change, which show whether the job gets its nodes."""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.kinds import Kind, find_kind
from scheduler.api.names import WHAT_IF
from scheduler.api.task import TaskStatus
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory import MemoryCluster, Simulation
from scheduler.cluster.memory.simulation import MAX_CYCLES
from scheduler.cluster.memory.what_if import DELETE, MERGE
from scheduler.explain.target import Goal
from scheduler.explain.traced_session import TracedSession
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome
from scheduler.framework.remedies.adjustments import Edit, Raw, Step

MAX_TRIALS: Final = 120
"""The search ends after this many trials with what it has found."""
_NON_EVICTING: Final = frozenset({"enqueue", "allocate", "backfill"})
"""Actions that never evict."""
Arguments = Mapping[str, Mapping[str, Any]]


class OutOfTrialsError(Exception):
    """The limit of trials is reached."""


class _TrialResult(msgspec.Struct, frozen=True):
    """The result of one trial."""

    reached: bool
    evicted: tuple[str, ...]


class TrialRunner:
    """Runs trials for one goal and caches their results."""

    def __init__(self, settled: Simulation, goal: Goal, pod: str) -> None:
        """``settled``: the cluster after its sessions. It is not modified, and must not be during the trials."""
        self._settled = settled
        self._goal = goal
        self._pod = pod
        self._results: dict[str, _TrialResult] = {}
        self._last: tuple[str, Simulation | None] = ("", None)
        """Key and cluster of the last trial."""
        self._written: tuple[Sequence[Step], list[Raw]] = ((), [])
        """The steps whose documents were last written, and the documents."""

    def works(self, steps: Sequence[Step]) -> bool:
        """Whether the goal is reached and still holds once nothing changes after the change. Raises
        OutOfTrialsError."""
        return self._result(steps).reached

    def fails(self, steps: Sequence[Step]) -> bool:
        """Whether the change is valid and the goal is not reached after it. Raises OutOfTrialsError."""
        return not self.works(steps) and self.after(steps) is not None

    def evicted(self, steps: Sequence[Step]) -> tuple[str, ...]:
        """The Pods (``namespace/name``) that are evicted after the change. Raises OutOfTrialsError."""
        return self._result(steps).evicted

    def _result(self, steps: Sequence[Step]) -> "_TrialResult":
        key = self._key(steps)
        known = self._results.get(key)
        if known is None:
            if len(self._results) >= MAX_TRIALS:
                raise OutOfTrialsError
            known = self._results[key] = self._outcome(self.after(steps))
        return known

    def _key(self, steps: Sequence[Step]) -> str:
        return json.dumps([self.documents(steps), merged_arguments(steps)], sort_keys=True)

    def _outcome(self, trial: Simulation | None) -> "_TrialResult":
        if trial is None or trial.last is None:
            return _TrialResult(False, ())
        evictions = trial.evictions[len(self._settled.evictions) :]
        evicted = dict.fromkeys(eviction.task.key for eviction in evictions)
        return _TrialResult(self._goal.reached(trial.last.session), tuple(evicted))

    def after(self, steps: Sequence[Step]) -> Simulation | None:
        """The cluster after a change, once nothing changes any more. Its last session is a TracedSession. None: the
        change is invalid."""
        key = self._key(steps)
        if key == self._last[0]:
            return self._last[1]
        trial = self._changed_copy(steps)
        self._last = key, trial
        if trial is not None:
            traced_session = partial(TracedSession, about=self._goal.job, pod=self._pod)
            enough = partial(self._is_final, trial)
            for _ in range(MAX_CYCLES):
                if not trial.cycle(traced_session, stop_when=enough):
                    break
                if not (trial.cluster_changed or trial.cluster.has_pending_work or trial.run_controllers()):
                    break  # only reasons were recorded: the next session decides the same
        return trial

    def _is_final(self, trial: Simulation, outcome: Outcome) -> bool:
        """Whether the goal stays reached: no action evicts, no binding waits for other objects, and no Pod of the job
        is terminating."""
        binds, job = outcome.decisions.binds, outcome.session.jobs.get(self._goal.job)
        waits = any(bind.together for bind in binds) or trial.cluster.has_preparations
        leaves = job is not None and bool(job.of(TaskStatus.RELEASING))
        keeps = _NON_EVICTING.issuperset(trial.configuration.actions)
        return keeps and not waits and not leaves and self._goal.reached(outcome.session)

    def documents(self, steps: Sequence[Step]) -> list[Raw]:
        """The change as a what-if file."""
        if steps is not self._written[0]:
            edits = (edit for step in steps for edit in step.edits)
            self._written = steps, what_if_documents(self._settled.cluster, edits)
        return self._written[1]

    def _changed_copy(self, steps: Sequence[Step]) -> Simulation | None:
        """A copy of the cluster with the change made; None: the change is invalid."""
        written = self.documents(steps)
        trial = self._settled.branch()
        trial.checks_external_plugins = False  # the sessions before did
        trial.configuration = with_arguments(trial.configuration, merged_arguments(steps))
        kinds = [find_kind(raw["apiVersion"], raw["kind"]) for raw in written]
        try:
            trial.change([Manifest("a change", kind, raw) for kind, raw in zip(kinds, written, strict=True)])
        except ManifestError:
            return None
        if trial.cluster.has_pending_work:
            trial.cluster.run_kubelet()  # deleted Pods begin to terminate, which needs no session
        return trial


def merged_arguments(steps: Sequence[Step]) -> dict[str, dict[str, Any]]:
    """The plugin arguments of all steps."""
    result: dict[str, dict[str, Any]] = {}
    for step in steps:
        result = _merged(result, step.arguments)
    return result


def with_arguments(configuration: Configuration, arguments: Arguments) -> Configuration:
    """The configuration with some arguments of plugins replaced."""
    tiers = tuple(
        tuple(
            replace(option, arguments=_merged(option.arguments, arguments.get(option.name, {}))) for option in tier
        )
        for tier in configuration.tiers
    )  # fmt: skip
    return replace(configuration, tiers=tiers)


def _merged(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """``old`` updated with ``new``; nested mappings are merged."""
    inner = {
        k: _merged(old[k], v) for k, v in new.items() if isinstance(v, Mapping) and isinstance(old.get(k), Mapping)
    }
    return {**old, **new, **inner}


def what_if_documents(cluster: MemoryCluster, edits: Iterable[Edit]) -> list[Raw]:
    """The documents of the edits, applied in order."""
    before: dict[tuple[str, str, str], tuple[Kind, Raw | None]] = {}
    after: dict[tuple[str, str, str], Raw | None] = {}
    for edit in edits:
        key = (str(edit.kind), edit.namespace, edit.name)
        if key not in before:
            before[key] = (edit.kind, cluster.server.find(edit.kind, edit.namespace, edit.name))
            after[key] = before[key][1]
        now = after[key]
        if now is not None or edit.creates:
            blank = {"metadata": {"name": edit.name, **({"namespace": edit.namespace} if edit.namespace else {})}}
            after[key] = edit.transform(copy.deepcopy(now) if now is not None else blank)
    found = []
    for (_, namespace, name), (kind, old) in before.items():
        new = after[str(kind), namespace, name]
        if new != old:
            found.append(_document(kind, namespace, name, old, new))
    return found


def _document(kind: Kind, namespace: str, name: str, old: Raw | None, new: Raw | None) -> Raw:
    head: Raw = {"apiVersion": kind.api_version, "kind": kind.name}
    meta: Raw = {"name": name, **({"namespace": namespace} if namespace else {})}
    if old is None:
        whole = new or {}
        return {**head, **whole, "metadata": {**whole["metadata"], **meta}}
    if new is None:
        return {**head, "metadata": {**meta, "annotations": {WHAT_IF: DELETE}}}
    patch = _patch(old, new)
    patched = patch.pop("metadata", {})
    annotations = {**patched.pop("annotations", {}), WHAT_IF: MERGE}
    return {**head, "metadata": {**meta, **patched, "annotations": annotations}, **patch}


def _patch(old: Raw, new: Raw) -> Raw:
    """The JSON merge patch that turns ``old`` into ``new``. Edits remove only items of lists, so it deletes no
    field."""
    result: dict[str, Any] = {}
    for key, value in new.items():
        was = old.get(key)
        if isinstance(value, dict) and isinstance(was, dict):
            inner = _patch(was, value)
            if inner:
                result[key] = inner
        elif key not in old or value != was:
            result[key] = value
    return result
