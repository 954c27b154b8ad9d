"""Changes tried on copies of a cluster that has come to rest: does the job get its nodes then?"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from scheduler.api.kinds import find_kind
from scheduler.api.task import TaskStatus
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.simulation import MAX_CYCLES
from scheduler.explain.changes.documents import documents
from scheduler.explain.target import Goal
from scheduler.explain.witness import Witness
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome
from scheduler.framework.remedies.adjustments import Raw, Step

MOST_TRIALS: Final = 120
"""After so many trials the best that was found has to do."""
_KEEPING: Final = frozenset({"enqueue", "allocate", "backfill"})
"""Actions that take no node from anybody."""
Arguments = Mapping[str, Mapping[str, Any]]


class OutOfTrialsError(Exception):
    """Enough was tried."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of one trial."""

    reached: bool
    evicted: tuple[str, ...]


class Laboratory:
    """For one goal."""

    def __init__(self, settled: Simulation, goal: Goal, pod: str) -> None:
        """``settled`` is not touched."""
        self._settled = settled.fork()
        self._goal = goal
        self._pod = pod
        self._known: dict[str, _Outcome] = {}
        self._last: tuple[str, Simulation | None] = ("", None)
        """The trial that was made last."""

    def works(self, steps: Sequence[Step]) -> bool:
        """Whether the goal is reached, and kept, when the cluster has come to rest after the change. Raises
        OutOfTrialsError."""
        return self._try(steps).reached

    def fails(self, steps: Sequence[Step]) -> bool:
        """Whether the goal is not reached after the change, which makes sense. Raises OutOfTrialsError."""
        return not self.works(steps) and self.after(steps) is not None

    def evicted(self, steps: Sequence[Step]) -> tuple[str, ...]:
        """The Pods (``namespace/name``) that are evicted after the change. Raises OutOfTrialsError."""
        return self._try(steps).evicted

    def _try(self, steps: Sequence[Step]) -> "_Outcome":
        key = self._key(steps)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST_TRIALS:
                raise OutOfTrialsError
            known = self._known[key] = self._outcome(self.after(steps))
        return known

    def _key(self, steps: Sequence[Step]) -> str:
        return json.dumps([self.documents(steps), merged(steps)], sort_keys=True)

    def _outcome(self, trial: Simulation | None) -> "_Outcome":
        if trial is None or trial.last is None:
            return _Outcome(False, ())
        evictions = trial.evictions[len(self._settled.evictions) :]
        evicted = dict.fromkeys(eviction.task.key for eviction in evictions)
        return _Outcome(self._goal.reached(trial.last.session), tuple(evicted))

    def after(self, steps: Sequence[Step]) -> Simulation | None:
        """The cluster at rest after a change; its last session is a Witness. None: the change makes no sense."""
        key = self._key(steps)
        if key == self._last[0]:
            return self._last[1]
        trial = self._changed(steps)
        self._last = key, trial
        if trial is not None:
            witness = partial(Witness, about=self._goal.job, pod=self._pod)
            enough = partial(self._is_final, trial)
            for _ in range(MAX_CYCLES):
                if not trial.cycle(witness, stop_when=enough):
                    break
                if not (trial.cluster_changed or trial.cluster.has_pending_work or trial.run_controllers()):
                    break  # a reason was recorded; the next session would decide the same
        return trial

    def _is_final(self, trial: Simulation, outcome: Outcome) -> bool:
        """Whether the goal is reached for good: no action evicts, no binding waits for other objects, and no Pod of the
        job is on its way out."""
        binds, job = outcome.decisions.binds, outcome.session.jobs.get(self._goal.job)
        waits = any(bind.together for bind in binds) or trial.cluster.has_preparations
        leaves = job is not None and bool(job.of(TaskStatus.RELEASING))
        keeps = _KEEPING.issuperset(trial.configuration.actions)
        return keeps and not waits and not leaves and self._goal.reached(outcome.session)

    def documents(self, steps: Sequence[Step]) -> list[Raw]:
        """The change as a what-if file."""
        return documents(self._settled.cluster, (edit for step in steps for edit in step.edits))

    def _changed(self, steps: Sequence[Step]) -> Simulation | None:
        """A copy of the cluster with the change made; None if that makes no sense."""
        written = self.documents(steps)
        trial = self._settled.branch()
        trial.configuration = with_arguments(trial.configuration, merged(steps))
        kinds = [find_kind(raw["apiVersion"], raw["kind"]) for raw in written]
        try:
            trial.change([Manifest("a change", kind, raw) for kind, raw in zip(kinds, written, strict=True)])
        except ManifestError:
            return None
        if trial.cluster.has_pending_work:
            trial.cluster.run_kubelet()  # Pods that were deleted begin to terminate: no session is needed to see that
        return trial


def merged(steps: Sequence[Step]) -> dict[str, dict[str, Any]]:
    """The arguments of all steps."""
    result: dict[str, dict[str, Any]] = {}
    for step in steps:
        result = _united(result, step.arguments)
    return result


def with_arguments(configuration: Configuration, arguments: Arguments) -> Configuration:
    """The configuration with other arguments of some plugins."""
    tiers = tuple(
        tuple(
            replace(option, arguments=_united(option.arguments, arguments.get(option.name, {}))) for option in tier
        )
        for tier in configuration.tiers
    )  # fmt: skip
    return replace(configuration, tiers=tiers)


def _united(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The old with what the new says otherwise, mapping by mapping."""
    inner = {
        k: _united(old[k], v) for k, v in new.items() if isinstance(v, Mapping) and isinstance(old.get(k), Mapping)
    }
    return {**old, **new, **inner}
