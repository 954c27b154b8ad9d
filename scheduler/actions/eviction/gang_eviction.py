"""The evictions that make room for one gang in one domain, and no more than are needed.

Bundles are added in the order of eviction until there is a nomination for the gang. Then the bundles that the
nomination does not need are restored. If the remaining evictions break a gang, all of its tasks in the domain are
evicted, because the gang could not use its nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from scheduler.actions.eviction.bundles import Bundle, SpareTasks
from scheduler.actions.eviction.feasibility import compared_resources
from scheduler.actions.eviction.gang_room import Nomination, Nominator, Slots
from scheduler.actions.eviction.policy import EvictionRules, describe
from scheduler.api.job import Job
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.statement import AllocationError, Statement

Remaining = dict[int, tuple[Vector, NDArray[np.intp]]]
"""Row -> the remaining amounts of all resources there, and the indices of the compared resources."""


class GangEviction:
    """Plans evictions and placements on the session, and undoes them unless the gang can be placed."""

    def __init__(self, rules: EvictionRules, job: Job, nominator: Nominator, slots: Slots) -> None:
        self._rules = rules
        self._session = rules.session
        self._job = job
        self._nominator = nominator
        self._slots = slots

    def plan(self, bundles: Iterable[Bundle]) -> Statement | None:
        """Returns a statement that evicts some of the bundles and pipelines the gang, or None if there is no such plan;
        the session is then unchanged."""
        chosen: list[Bundle] = []
        due = 0
        for bundle in chain(bundles, (None,)):
            last = bundle is None or (bundle.whole and not (chosen and chosen[-1].whole))
            if self._slots.enough() and (len(chosen) >= due or last):
                statement = self._attempt(chosen)
                if statement is not None:
                    return statement
                due = 2 * len(chosen)  # amounts suffice, and it is not known which evictions would help
            if bundle is not None:
                chosen.append(bundle)
                for task in bundle.tasks:
                    self._slots.add_freed(self._row(task), task.cls.request)
        return None

    def _attempt(self, chosen: Sequence[Bundle]) -> Statement | None:
        evictions = self._session.statement()
        for bundle in chosen:
            for task in bundle.tasks:
                evictions.evict(bundle.job, task, self._rules.policy.action)
        nomination = self._nominator.nominate((t, self._row(t)) for bundle in chosen for t in bundle.tasks)
        left = self._remaining_amounts(nomination or ())
        evictions.discard()
        if nomination is None:
            return None
        return _Plan(self._rules, self._job, nomination).carry_out(*self._split(chosen, left))

    def _split(self, chosen: Sequence[Bundle], left: Remaining) -> tuple[list[Bundle], list[Bundle]]:
        """Divides bundles into those to be evicted and those to be restored, by amounts only.

        ``left``: the amounts that remain if all are evicted.
        """
        needed = self._needed(chosen, left)
        broken = {bundle.job for bundle in chosen if bundle.whole}
        broken = {
            job for job in broken if not SpareTasks(job).can_lose([task for task in needed if task.job == job.key])
        }
        if broken:
            needed = self._needed([bundle for bundle in chosen if bundle.job not in broken], left)
        evicted, restored = [], []
        for bundle in chosen:
            if bundle.job in broken:
                evicted.append(bundle)
                continue
            evicted += [Bundle(bundle.job, (task,)) for task in bundle.tasks if task in needed]
            rest = tuple(task for task in bundle.tasks if task not in needed)
            if rest:
                restored.append(Bundle(bundle.job, rest, bundle.whole))
        return evicted, restored

    def _needed(self, bundles: Sequence[Bundle], left: Remaining) -> dict[Task, None]:
        """Returns the tasks that cannot keep their nodes, as an ordered set. The last in eviction order is the first to
        be restored."""
        left = dict(left)
        tasks = [task for bundle in bundles for task in bundle.tasks]
        return dict.fromkeys(task for task in reversed(tasks) if not self._fits(task, left))

    def _remaining_amounts(self, nomination: Iterable[tuple[Task, int]]) -> Remaining:
        """Returns the amounts that the nomination leaves free on its nodes."""
        left: Remaining = {}
        for task, row in nomination:
            dims = compared_resources(task.cls.request)
            amounts, matter = left.get(row) or (self._session.nodes.future_idle_of(row), dims)
            left[row] = (amounts - task.cls.request, np.union1d(matter, dims))
        return left

    def _fits(self, task: Task, left: Remaining) -> bool:
        """Whether a task can keep its node; if so, its request is subtracted from ``left``."""
        row = self._row(task)
        if row in left:
            amounts, dims = left[row]
            rest = amounts - task.cls.request
            if (rest[dims] < 0).any():
                return False
            left[row] = (rest, dims)
        return True

    def _row(self, task: Task) -> int:
        return self._session.nodes.index[task.node]


class _Plan:
    """Carries out a nomination with as few evictions as possible."""

    def __init__(self, rules: EvictionRules, job: Job, nomination: Nomination) -> None:
        self._rules = rules
        self._session = rules.session
        self._job = job
        self._nomination = nomination
        self._statement = rules.session.statement()
        self._placed: dict[int, list[Task]] = {}
        """Row -> the tasks to be placed there."""
        for task, row in nomination:
            self._placed.setdefault(row, []).append(task)

    def carry_out(self, evicted: Sequence[Bundle], restored: Sequence[Bundle]) -> Statement | None:
        """Returns the statement, or None if a filter or a quota refuses the nomination.

        ``restored``: bundles that amounts do not require to be evicted; a filter or a quota may.
        """
        self._all = [*evicted, *restored]
        self._spared = set(restored)
        gangs = {bundle.job: SpareTasks(bundle.job) for bundle in self._all if bundle.whole}
        for bundle in evicted:
            self._evict(bundle)
        done = not any(map(self._would_be_reclaimed, evicted)) and all(
            (self._admitted(task, row) or self._evict_for(task, row)) and self._place(task, row)
            for task, row in self._nomination
        )
        if not done:
            self._statement.discard()
            return None
        broken = self._broken(gangs)
        for bundle in [bundle for bundle in restored if bundle in self._spared and bundle.job in broken]:
            self._evict(bundle)
        return self._statement

    def _broken(self, gangs: Mapping[Job, SpareTasks]) -> set[Job]:
        """The gangs that have lost more tasks than they can, in one bundle or in several."""
        lost = {job: [t for b in self._all if b.job is job and b not in self._spared for t in b.tasks] for job in gangs}
        return {job for job, tasks in lost.items() if not gangs[job].can_lose(tasks)}

    def _would_be_reclaimed(self, bundle: Bundle) -> bool:
        """Whether the queue of the bundle would take its resources back: replacements of the evicted Pods would be
        evicted again, for ever."""
        return self._rules.would_be_reclaimed(self._job, bundle.tasks)

    def _evict_for(self, task: Task, row: int) -> bool:
        """Evicts restored bundles until quota and filters admit a task to a node. Returns whether they do.

        It is not known which eviction helps: bundles on the node are tried before others, whole gangs last, and those
        that turn out to be unnecessary are restored.
        """
        name = self._session.nodes.names[row]
        guessed: list[Bundle] = []
        for bundle in sorted(self._all, key=lambda b: (b.whole, all(task.node != name for task in b.tasks))):
            if bundle not in self._spared:
                continue
            self._evict(bundle)
            if self._would_be_reclaimed(bundle):
                self._restore(bundle)
                continue
            guessed.append(bundle)
            if self._admitted(task, row):
                break
        else:
            return False
        for bundle in reversed(guessed[:-1]):
            self._restore_if_admitted(bundle, task, row)
        if self._placed[row][0] is task:  # no task placed so far uses the freed amounts of this node
            for bundle in reversed(self._all):
                if bundle not in self._spared and bundle not in guessed and {t.node for t in bundle.tasks} == {name}:
                    self._restore_if_admitted(bundle, task, row)
        return True

    def _restore_if_admitted(self, bundle: Bundle, task: Task, row: int) -> None:
        """Restores an evicted bundle if quota and filters admit the task nevertheless."""
        self._restore(bundle)
        if not self._admitted(task, row):
            self._evict(bundle)

    def _restore(self, bundle: Bundle) -> None:
        for victim in bundle.tasks:
            self._statement.restore(victim)
        self._spared.add(bundle)

    def _admitted(self, task: Task, row: int) -> bool:
        later = self._session.view(task.cls, self._job).admits_later(row)
        return later and self._rules.within_quota(self._job, task)

    def _place(self, task: Task, row: int) -> bool:
        try:
            self._statement.pipeline(self._job, task, row, nominate=bool(self._all))
        except AllocationError:
            return False
        return True

    def _evict(self, bundle: Bundle) -> None:
        self._spared.discard(bundle)
        nodes = self._session.nodes
        for victim in bundle.tasks:
            placed = self._placed.get(nodes.index[victim.node], [])
            job = describe(self._job)
            if len(placed) == 1:
                message = f"Makes room on node {victim.node} for Pod {placed[0].key} of {job}"
            elif placed:
                message = f"Makes room on node {victim.node} for {len(placed)} Pods of {job}"
            elif bundle.whole:
                message = f"Goes with its gang, which makes room for {job}"
            else:
                message = f"Makes room for {job}"
            self._rules.evict(self._statement, victim, message)
