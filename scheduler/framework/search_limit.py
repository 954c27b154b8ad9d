"""How many different Pods of one namespace a session tries that fit nowhere.

Equal Pods are tried once, but a user may create thousands that all differ, and each makes the sessions of all longer.
So a session tries new classes of a namespace until those that failed have cost ``FIRST_COST``, in the order of the
actions, and after that only classes that had no turn yet, for ``TURN_COST`` more. The others keep the reason of their
last attempt. Following sessions go on where this one ended, until each class had its turn; then all begin again. What
is placed costs nothing, unless its spec is large. Costs are counted, not measured, so sessions of equal snapshots that
follow equal sessions decide the same.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api.job import Job
from scheduler.api.reasons import FitErrors, Refusal
from scheduler.api.task import TaskClass, TaskStatus
from scheduler.framework.session import Session

FIRST_COST: Final = 128
"""The cost of the classes of a namespace that are tried in the order of the actions. Each that fits nowhere costs 1."""
TURN_COST: Final = 128
"""The cost of the classes that are tried because they had no turn in the sessions before."""
SMALL_SPEC: Final = 2048
"""The size of a spec as JSON, in bytes, up to which it adds no cost. Honest specs, as far as a session reads them, are
smaller."""
BYTES: Final = 1024
"""The number of further bytes that cost 1, also if the Pod is placed."""


class _Namespace:
    """The searches for Pods of one namespace."""

    def __init__(self, turns: Collection[Hashable]) -> None:
        """``turns``: the classes that had a turn in the sessions before."""
        self.turns = turns
        self.admitted: dict[Hashable, bool] = {}
        """Class -> whether it is tried in this session."""
        self._costs = [0, 0]
        """The cost so far of the classes that are tried in order, and of those that are tried in turn."""
        self._in_turn: set[Hashable] = set()
        self._failed: set[Hashable] = set()
        """The classes whose failure was counted."""

    def admits(self, sizes: Mapping[Hashable, int]) -> bool:
        """Returns whether classes are tried, either all or none. ``sizes``: class -> bytes of its spec."""
        admitted = self.admitted
        if all(map(admitted.get, sizes)):
            return True
        in_order = self._costs[0] < FIRST_COST
        if not in_order and not (self._costs[1] < TURN_COST and any(key not in self.turns for key in sizes)):
            for key in sizes:
                admitted.setdefault(key, False)
            return False
        for key, size in sizes.items():
            if not admitted.get(key):
                admitted[key] = True
                self._costs[not in_order] += max(size - SMALL_SPEC, 0) // BYTES
                if not in_order:
                    self._in_turn.add(key)
        return True

    def failed(self, key: Hashable) -> None:
        if key not in self._failed:
            self._failed.add(key)
            self._costs[key in self._in_turn] += 1

    def placed(self, key: Hashable) -> None:
        if key in self._failed:
            self._failed.remove(key)
            self._costs[key in self._in_turn] -= 1

    def waits_for_turn(self) -> bool:
        """Returns whether a class was left out that had no turn yet."""
        return any(not tried and key not in self.turns for key, tried in self.admitted.items())


class PastReasons(NamedTuple):
    """The reasons why a job waited, as recorded on it after a session."""

    fit_errors: Mapping[int, FitErrors]
    refusals: tuple[Refusal, ...]
    transaction: Mapping[str, tuple[TaskStatus, str]]


_NONE: Final = PastReasons({}, (), {})


class PastSearches:
    """What one session keeps for the next: the state of the namespaces with classes that it left out."""

    def __init__(self) -> None:
        self.turns: dict[str, frozenset[Hashable]] = {}
        """Namespace -> the classes that had a turn since all began again."""
        self.reasons: dict[str, PastReasons] = {}
        """Key of a job -> why it waits, according to its last attempt."""
        self.sizes: dict[Hashable, int] = {}
        """Class -> bytes of its spec."""


class SearchLimit:
    """The limit in one session. All actions share it: a class that allocate leaves out does not preempt either."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._past = session.memo(PastSearches, (), lambda _: PastSearches())
        self._namespaces: dict[str, _Namespace] = {}
        self._sizes: dict[Hashable, int] = {}

    def admits(self, job: Job, classes: Iterable[TaskClass]) -> bool:
        """Returns whether tasks of the classes are tried in this session, either all or none: a part of a gang would be
        of no use."""
        admitted = self._namespace(job).admits({_key(cls): self._size(cls) for cls in classes})
        return admitted or self._session.is_traced(job)

    def failed(self, job: Job, cls: TaskClass) -> None:
        """Counts that a class was tried and that its job got nothing by that. A class counts once in a session."""
        self._namespace(job).failed(_key(cls))

    def placed(self, job: Job, cls: TaskClass) -> None:
        """Undoes the count of a class that failed, because evictions have made room for it. So another class may be
        tried, even one that an earlier action has left out."""
        self._namespace(job).placed(_key(cls))

    def leave_out(self, job: Job, cls: TaskClass) -> None:
        """Records on the job why tasks of a class are not tried: the reason of the last attempt, which is not written
        again, or that there was none yet."""
        past = self._past.reasons.get(job.key, _NONE)
        known = past.fit_errors.get(cls.id)
        if known is None and not past.refusals:
            text = f"a session tries at most {FIRST_COST + TURN_COST} different Pods of namespace {job.namespace}"
            note = f"not tried yet: {text} that fit nowhere; the next sessions try the others"
            known = FitErrors(len(self._session.nodes), note=note)
        if known is not None:
            job.fit_errors[cls.id] = known
        job.refusals += tuple(each for each in past.refusals if each not in job.refusals)

    def leave_out_job(self, job: Job, classes: Iterable[TaskClass]) -> None:
        """Records why no task of a job is tried, as ``leave_out`` does for a class. ``classes``: the classes that the
        session does not try."""
        past = self._past.reasons.get(job.key, _NONE)
        if not past.fit_errors and not past.refusals:
            for cls in classes:
                self.leave_out(job, cls)
            return
        job.fit_errors |= past.fit_errors
        job.refusals += tuple(each for each in past.refusals if each not in job.refusals)
        job.transaction |= past.transaction

    @property
    def left_out(self) -> bool:
        """Whether the session has left out classes of a namespace."""
        return any(not all(searches.admitted.values()) for searches in self._namespaces.values())

    @property
    def has_more_turns(self) -> bool:
        """Whether the next session has to try classes that had no turn yet."""
        return any(searches.waits_for_turn() for searches in self._namespaces.values())

    def close(self) -> None:
        """Keeps what the next session needs."""
        self._past.sizes = self._sizes
        limited = {name: searches for name, searches in self._namespaces.items() if not all(searches.admitted.values())}
        turns: dict[str, frozenset[Hashable]] = {}
        for name, searches in limited.items():
            tried = {key for key, admitted in searches.admitted.items() if admitted or key in searches.turns}
            turns[name] = frozenset(tried if searches.waits_for_turn() else ())
        jobs = self._session.active_jobs.values() if limited else ()
        self._past.turns = turns
        self._past.reasons = {
            job.key: PastReasons(dict(job.fit_errors), job.refusals, dict(job.transaction))
            for job in jobs
            if job.namespace in limited
        }

    def _namespace(self, job: Job) -> _Namespace:
        found = self._namespaces.get(job.namespace)
        if found is None:
            found = self._namespaces[job.namespace] = _Namespace(self._past.turns.get(job.namespace, ()))
        return found

    def _size(self, cls: TaskClass) -> int:
        key = _key(cls)
        size = self._sizes.get(key)
        if size is None:
            size = self._past.sizes.get(key)
            if size is None:
                size = len(msgspec.json.encode(cls.spec))
            self._sizes[key] = size
        return size


def _key(cls: TaskClass) -> Hashable:
    """Returns a key that is equal for classes that differ only in their node or their volume claims, as the Pods of a
    DaemonSet or a StatefulSet: these share what takes time."""
    if cls.pin_id >= 0:
        return ("pin", cls.pin_id)
    return ("claims", cls.shape_id) if cls.claims else cls.id
