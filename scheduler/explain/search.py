"""The smallest changes that let a job run, found by trying.

Each plan of the catalogue is tried alone, at the sizes that should do by the numbers, then at the largest that makes
sense. What works is made smaller, adjustment by adjustment, until one unit less of any does not work. If no plan works
alone, more than one thing is in the way: all plans are tried at once, what can be left out is left out, the least
welcome first, and what holds the job after that is looked at in turn. That its Pods do with less is tried last.

A trial takes a tenth of a second on a large cluster, so what is known to be of no use is not tried: nothing that leaves
nodes and Pods as they are helps Pods that are larger than any node, and plans that do not do all together are not tried
one by one, unless nothing else is found.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from scheduler.cluster.memory import Simulation
from scheduler.explain.changes import SHARING, Adjustment, ChangeKind, Evidence, Key, Plan, Step, catalogue
from scheduler.explain.explanation import Change
from scheduler.explain.gates import gates
from scheduler.explain.laboratory import Laboratory, OutOfTrialsError, merged
from scheduler.explain.target import Goal
from scheduler.explain.witness import Witness

ENOUGH: Final = 3
"""So many ways to choose from are shown."""
_LAYERS: Final = 4
"""So many obstacles one behind the other are looked for."""
_ATTEMPTS: Final = 2
"""At so many degrees an adjustment is tried before it is given up (``Adjustment.attempts``)."""
_FEW: Final = 2
"""Fewer plans are tried one by one without a look whether they do together."""
_EXCLUSIVE: Final = frozenset({ChangeKind.QUEUE_OF_JOB})
"""Of these only one plan can be carried out."""


def smallest_changes(settled: Simulation, goal: Goal, pod: str) -> list[Change]:
    """Ways to let the job run, those to be preferred first; the last session of ``settled`` is a Witness."""
    return _Search(settled, goal, pod).run()


@dataclass(frozen=True, slots=True)
class _Found:
    """A change that does, and how far each adjustment is moved for it."""

    change: Change
    degrees: dict[Key, int]

    def within(self, plan: Plan) -> bool:
        """Whether a plan comes to the same, with more besides: to this change, or to another that was tried."""
        own = {adjustment.key: adjustment.attempts[0] for adjustment in plan}
        return all(degree <= own.get(key, 0) for key, degree in self.degrees.items())


class _Search:
    def __init__(self, settled: Simulation, goal: Goal, pod: str) -> None:
        self._settled = settled
        self._goal = goal
        self._laboratory = Laboratory(settled, goal, pod)
        self._least: dict[Key, int] = {}
        """The degree from which an adjustment alone does: at a lower one it need not be tried."""

    def run(self) -> list[Change]:
        found: list[_Found] = []
        evidence = self._evidence(self._settled)
        plans = [] if evidence is None else list(catalogue(evidence))
        too_large = evidence is not None and evidence.too_large
        others = [plan for plan in plans if not _for_less(plan)]
        useful = [] if too_large and all(map(_only_shares, others)) else others
        try:
            self._alone(useful, found)
            if not found:
                found += self._together(useful, _for_less)
            self._alone([plan for plan in plans if _for_less(plan)], found)
            if not found:
                found += self._together(plans)
            if not found:
                self._alone(useful, found, all_at_once=False)
        except OutOfTrialsError:
            pass
        return [each.change for each in found]

    def _alone(self, plans: list[Plan], found: list[_Found], *, all_at_once: bool = True) -> None:
        """Add to what was found the plans that do alone, one of a kind, until that is enough. ``all_at_once``: where
        several plans do not do together, as much as makes sense of each, none of them is tried alone. That is first
        looked at when one plan has been tried, and again, of its kind, for each that does not do."""
        left = deque(plans)
        first = True
        while left and len(found) < ENOUGH:
            plan = left.popleft()
            if _is_known(plan, found):
                continue
            one = self._minimised(plan)
            if one is not None and not any(one.change.kinds == known.change.kinds for known in found):
                found.append(one)
            if all_at_once and first:
                left = deque(self._promising([other for other in left if not _is_known(other, found)]))
            elif all_at_once and one is None:
                alike = [other for other in left if _kinds(other) == _kinds(plan)]
                promising = self._promising(alike)
                left = deque(other for other in left if other not in alike or other in promising)
            first = False

    def _promising(self, plans: list[Plan]) -> list[Plan]:
        """Plans without those that do not even do all together."""
        joined = [plan for plan in plans if not _kinds(plan) & _EXCLUSIVE]
        if len(joined) < _FEW or not self._laboratory.fails(
            [adjustment.at(adjustment.most) for adjustment in _united(joined)]
        ):
            return plans
        return [plan for plan in plans if plan not in joined]

    def _evidence(self, simulation: Simulation) -> Evidence | None:
        """What the last session showed of what holds the job."""
        session = simulation.last.session if simulation.last is not None else None
        job = session.jobs.get(self._goal.job) if session is not None else None
        if job is None or not isinstance(session, Witness):
            return None
        return Evidence(self._settled.cluster.server, session, job, self._goal, gates(session, job, self._goal))

    def _together(self, plans: list[Plan], left_out: Callable[[Plan], bool] = lambda plan: False) -> list[_Found]:
        """All plans at once, and what is in the way behind them, but for the plans ``left_out``."""
        pile: list[Plan] = []
        for _ in range(_LAYERS):
            known = {adjustment.key for plan in pile for adjustment in plan}
            fresh = [
                left
                for plan in plans
                if (left := tuple(adjustment for adjustment in plan if adjustment.key not in known))
            ]
            if not fresh:
                return []
            pile += fresh
            adjustments = [adjustment for plan in pile for adjustment in plan]
            all_moved = [adjustment.at(adjustment.most) for adjustment in adjustments]
            if self._laboratory.works(all_moved):
                attempt = self._attempt(adjustments)
                needed = sorted(
                    (adjustment for plan in self._thinned(pile, attempt) for adjustment in plan),
                    key=lambda adjustment: adjustment.welcome,
                )
                one = self._minimised(tuple(needed))
                return [] if one is None else [one]
            after = self._laboratory.after(all_moved)
            evidence = None if after is None else self._evidence(after)
            plans = [] if evidence is None else [plan for plan in catalogue(evidence) if not left_out(plan)]
        return []

    def _thinned(self, pile: list[Plan], attempt: int) -> list[Plan]:
        """The pile without the plans that are not needed, the least welcome left out first. ``attempt``: the first at
        which it works with all; at one before it a part of it does not work either."""
        left = list(pile)
        for plan in sorted(pile, key=lambda plan: plan[0].welcome, reverse=True):
            without = [other for other in left if other is not plan]
            if (
                without
                and self._attempt([adjustment for other in without for adjustment in other], attempt) < _ATTEMPTS
            ):
                left = without
        return left

    # --- sizes ---
    def _attempt(self, adjustments: Sequence[Adjustment], first: int = 0) -> int:
        """The number of the first of the ``attempts`` at which the adjustments do together, ``first`` or later;
        ``_ATTEMPTS``: they do not."""
        for attempt in range(first, _ATTEMPTS):
            if self._works(adjustments, [adjustment.attempts[attempt] for adjustment in adjustments]):
                return attempt
        return _ATTEMPTS

    def _works(self, adjustments: Sequence[Adjustment], degrees: Sequence[int]) -> bool:
        moved = [(adjustment.key, degree) for adjustment, degree in zip(adjustments, degrees, strict=True) if degree]
        if len(moved) == 1 and moved[0][1] < self._least.get(moved[0][0], 0):
            return False
        return self._laboratory.works(_steps(adjustments, degrees))

    def _without_the_idle(self, adjustments: Plan, degrees: list[int]) -> tuple[Plan, list[int]]:
        """The adjustments without units that later ones of the same adjustment have made unnecessary."""
        for i, adjustment in enumerate(adjustments):
            if adjustment.apart is None or degrees[i] < 2:
                continue
            units = adjustment.apart(degrees[i])
            spread = (*adjustments[:i], *units, *adjustments[i + 1 :])
            moved = [*degrees[:i], *([1] * len(units)), *degrees[i + 1 :]]
            for j in range(i, i + len(units)):
                moved[j] = 0
                if not self._works(spread, moved):
                    moved[j] = 1
            if 0 in moved[i : i + len(units)]:
                return self._without_the_idle(spread, moved)
        return adjustments, degrees

    def _one_moved(self, adjustments: Plan, degrees: Sequence[int], i: int, degree: int) -> bool:
        """Whether it works with one adjustment at another degree."""
        return self._works(adjustments, [*degrees[:i], degree, *degrees[i + 1 :]])

    def _minimised(self, adjustments: Plan) -> _Found | None:
        attempt = self._attempt(adjustments)
        if attempt == _ATTEMPTS:
            return None
        degrees, before = [adjustment.attempts[attempt] for adjustment in adjustments], None
        while degrees != before:  # an adjustment may do with less once another one is smaller
            before = list(degrees)
            for i, adjustment in enumerate(adjustments):
                degrees[i] = least(
                    partial(self._one_moved, adjustments, degrees, i), degrees[i], adjustment, len(adjustments) > 1
                )
        adjustments, degrees = self._without_the_idle(adjustments, degrees)
        steps = _steps(adjustments, degrees)
        kinds = dict.fromkeys(
            adjustment.kind.value for adjustment, degree in zip(adjustments, degrees, strict=True) if degree
        )
        text = " and ".join(step.text for step in steps)
        documents = tuple(self._laboratory.documents(steps))
        change = Change(tuple(kinds), text, documents, merged(steps), self._laboratory.evicted(steps))
        moved = {adjustment.key: degree for adjustment, degree in zip(adjustments, degrees, strict=True) if degree}
        if len(moved) == 1:
            self._least.update(moved)
        return _Found(change, moved)


def _is_known(plan: Plan, found: Sequence[_Found]) -> bool:
    """Whether a plan is of the kinds of a change that was found, or comes to the same."""
    kinds = {kind.value for kind in _kinds(plan)}
    return any(set(known.change.kinds) == kinds or known.within(plan) for known in found)


def _kinds(plan: Plan) -> set[ChangeKind]:
    return {adjustment.kind for adjustment in plan}


def _united(plans: Sequence[Plan]) -> list[Adjustment]:
    """The adjustments of several plans, each once."""
    return list({adjustment.key: adjustment for plan in plans for adjustment in plan}.values())


def _only_shares(plan: Plan) -> bool:
    """Whether a plan says no more than who gets what is there."""
    return _kinds(plan) <= SHARING


def _for_less(plan: Plan) -> bool:
    """Whether the job would have to do with less than it asks for, which is the last resort."""
    return any(adjustment.kind is ChangeKind.REQUEST for adjustment in plan)


def least(works: Callable[[int], bool], good: int, adjustment: Adjustment, droppable: bool) -> int:
    """The smallest degree that works, at most ``good``, which does. ``droppable``: nothing at all may do, since other
    adjustments are moved too."""
    if good == 0 or (droppable and works(0)):
        return 0
    guess, grain, bad = adjustment.guess, adjustment.grain, 0
    if good in adjustment.attempts[:-1] and (good == 1 or not works(good - 1)):
        return good  # what the numbers say is nearly always right
    if good > guess and works(guess):
        good = guess
    if good > guess:
        bad, step = guess, grain
        shared = adjustment.attempts[0]
        if bad < shared < good:
            good, bad = (shared, bad) if works(shared) else (good, shared)
        while bad + step < good and not works(bad + step):  # further and further beyond the guess
            bad, step = bad + step, 4 * step
        good = min(good, bad + step)
    while good - bad > 1:
        if not works(good - 1):
            return good
        good -= 1
        while good - bad > grain:
            middle = (good + bad) // 2
            rounded = middle // grain * grain
            middle = rounded if rounded > bad else middle
            good, bad = (middle, bad) if works(middle) else (good, middle)
        grain = 1
    return good


def _steps(adjustments: Sequence[Adjustment], degrees: Sequence[int]) -> list[Step]:
    return [adjustment.at(degree) for adjustment, degree in zip(adjustments, degrees, strict=True) if degree > 0]
