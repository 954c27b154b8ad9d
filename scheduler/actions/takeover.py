"""One gang and one domain: who is evicted to bring them together, and no more than is needed.

Bundles are added in the order in which they are to go, until there is a nomination for the gang. Then those stay that
the nomination does not need. A gang that is broken by what it needs goes with all that it has in the domain: what would
be left of it could do nothing with its nodes.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from scheduler.actions.bundles import Bundle, can_spare
from scheduler.actions.nomination import Nomination, Nominator
from scheduler.actions.openings import compared
from scheduler.actions.slots import Slots
from scheduler.actions.trial import Terms, named
from scheduler.api.job import Job
from scheduler.api.resource import Vector
from scheduler.api.task import Task
from scheduler.framework.statement import AllocationError, Statement

Left = dict[int, tuple[Vector, NDArray[np.intp]]]
"""Row -> what is left there of all resources, and the positions of those that matter."""


class Takeover:
    """Evictions and placements that are worked out on the session, and undone unless they come to something."""

    def __init__(self, terms: Terms, job: Job, nominator: Nominator, slots: Slots) -> None:
        self._terms = terms
        self._session = terms.session
        self._job = job
        self._nominator = nominator
        self._slots = slots

    def work_out(self, bundles: Iterable[Bundle]) -> Statement | None:
        """Who of the bundles goes, and where the gang is placed; None, and all is as before, where it cannot be."""
        gone: list[Bundle] = []
        due = 0
        for bundle in chain(bundles, (None,)):
            last = bundle is None or (bundle.whole and not (gone and gone[-1].whole))
            if self._slots.enough() and (len(gone) >= due or last):
                statement = self._attempt(gone)
                if statement is not None:
                    return statement
                due = 2 * len(gone)  # it is not amounts that lack, and there is no telling whom it takes
            if bundle is not None:
                gone.append(bundle)
                for task in bundle.tasks:
                    self._slots.free(self._row(task), task.cls.request)
        return None

    def _attempt(self, gone: Sequence[Bundle]) -> Statement | None:
        evictions = self._session.statement()
        for bundle in gone:
            for task in bundle.tasks:
                evictions.evict(bundle.job, task, self._terms.reason)
        nomination = self._nominator.nominate((t, self._row(t)) for bundle in gone for t in bundle.tasks)
        left = self._left_over(nomination or ())
        evictions.discard()
        if nomination is None:
            return None
        return _Settlement(self._terms, self._job, nomination).settle(*self._sorted_out(gone, left))

    def _sorted_out(self, gone: Sequence[Bundle], left: Left) -> tuple[list[Bundle], list[Bundle]]:
        """Who goes and who stays, as far as amounts tell. ``left``: with all gone."""
        needed = self._needed(gone, left)
        broken = {bundle.job for bundle in gone if bundle.whole}
        broken = {job for job in broken if not can_spare(job, [task for task in needed if task.job == job.key])}
        if broken:
            needed = self._needed([bundle for bundle in gone if bundle.job not in broken], left)
        going, staying = [], []
        for bundle in gone:
            if bundle.job in broken:
                going.append(bundle)
                continue
            going += [Bundle(bundle.job, (task,)) for task in bundle.tasks if task in needed]
            rest = tuple(task for task in bundle.tasks if task not in needed)
            if rest:
                staying.append(Bundle(bundle.job, rest, bundle.whole))
        return going, staying

    def _needed(self, bundles: Sequence[Bundle], left: Left) -> dict[Task, None]:
        """The tasks that cannot stay on their nodes, as an ordered set. Who was to go last is the first to stay."""
        left = dict(left)
        tasks = [task for bundle in bundles for task in bundle.tasks]
        return dict.fromkeys(task for task in reversed(tasks) if not self._stays(task, left))

    def _left_over(self, nomination: Iterable[tuple[Task, int]]) -> Left:
        """What the nomination leaves of its nodes."""
        left: Left = {}
        for task, row in nomination:
            dims = compared(task.cls.request)
            amounts, matter = left.get(row) or (self._session.nodes.future_idle_of(row), dims)
            left[row] = (amounts - task.cls.request, np.union1d(matter, dims))
        return left

    def _stays(self, task: Task, left: Left) -> bool:
        """Whether a task can stay on its node with what is left there, which is then less."""
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


class _Settlement:
    """A nomination that is carried out, with the fewest evictions."""

    def __init__(self, terms: Terms, job: Job, nomination: Nomination) -> None:
        self._terms = terms
        self._session = terms.session
        self._job = job
        self._nomination = nomination
        self._statement = terms.session.statement()
        self._placed: dict[int, list[Task]] = {}
        """Row -> tasks to be placed there."""
        for task, row in nomination:
            self._placed.setdefault(row, []).append(task)

    def settle(self, going: Sequence[Bundle], staying: Sequence[Bundle]) -> Statement | None:
        """``staying``: some of these may have to go after all."""
        self._all = [*going, *staying]
        self._spared = set(staying)
        for bundle in going:
            self._evict(bundle)
        done = not any(map(self._taken_back, going)) and all(
            (self._admitted(task, row) or self._clear(task, row)) and self._place(task, row)
            for task, row in self._nomination
        )
        if not done:
            self._statement.discard()
            return None
        broken = {bundle.job for bundle in self._all if bundle.whole and bundle not in self._spared}
        for bundle in [bundle for bundle in self._spared if bundle.job in broken]:
            self._evict(bundle)
        return self._statement

    def _taken_back(self, bundle: Bundle) -> bool:
        """Whether some of the places, now that they are free, would be taken right back: Pods like those evicted would
        be evicted for ever."""
        terms = self._terms
        return terms.across_queues and any(terms.taken_back(self._job, task) for task in bundle.tasks)

    def _clear(self, task: Task, row: int) -> bool:
        """A quota or a condition is in the way, and there is no telling whose: of those spared some go after all, the
        ones on the node before others, gangs last; those who prove to have gone for nothing stay."""
        name = self._session.nodes.names[row]
        guessed: list[Bundle] = []
        for bundle in sorted(self._all, key=lambda b: (b.whole, all(task.node != name for task in b.tasks))):
            if bundle not in self._spared:
                continue
            self._evict(bundle)
            if self._taken_back(bundle):
                self._spare(bundle)
                continue
            guessed.append(bundle)
            if self._admitted(task, row):
                break
        else:
            return False
        for bundle in reversed(guessed[:-1]):
            self._spare_if(bundle, task, row)
        if self._placed[row][0] is task:  # nobody yet relies on those who went for the amounts
            for bundle in reversed(self._all):
                if bundle not in self._spared and bundle not in guessed and {t.node for t in bundle.tasks} == {name}:
                    self._spare_if(bundle, task, row)
        return True

    def _spare_if(self, bundle: Bundle, task: Task, row: int) -> None:
        """A bundle that was evicted stays after all if the task may have the node all the same."""
        self._spare(bundle)
        if not self._admitted(task, row):
            self._evict(bundle)

    def _spare(self, bundle: Bundle) -> None:
        for victim in bundle.tasks:
            self._statement.spare(victim)
        self._spared.add(bundle)

    def _admitted(self, task: Task, row: int) -> bool:
        later = self._session.view(task.cls, self._job).admits_later(row)
        return later and self._terms.permitted(self._job, task)

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
            if placed:
                whom = f"Pod {placed[0].key}" if len(placed) == 1 else f"{len(placed)} Pods"
                words = f"Makes room on node {victim.node} for {whom} of {named(self._job)}"
            else:
                words = f"{'Goes with its gang, which makes' if bundle.whole else 'Makes'} room for {named(self._job)}"
            self._terms.evict(self._statement, victim, words)
