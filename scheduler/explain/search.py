"""The smallest changes that let a job run, found by trying.

Each plan of the catalogue is tried alone, at the size that should do by the numbers, then at the largest that makes
sense. What works is made smaller, lever by lever, until one unit less of any does not work. If no plan works alone,
more than one thing is in the way: all plans are tried at once, what can be left out is left out, the least welcome
first, and what holds the job after that is looked at in turn. That its Pods do with less is tried last.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from scheduler.cluster.memory import Simulation
from scheduler.explain.changes import ChangeKind, Evidence, Lever, Plan, Step, catalogue
from scheduler.explain.explanation import Change
from scheduler.explain.gates import gates
from scheduler.explain.laboratory import Laboratory, OutOfTrialsError, merged
from scheduler.explain.target import Goal
from scheduler.explain.witness import Witness

ENOUGH: Final = 3
"""So many ways to choose from are shown."""
_LAYERS: Final = 4
"""So many obstacles one behind the other are looked for."""


def smallest_changes(settled: Simulation, goal: Goal, pod: str) -> list[Change]:
    """Ways to let the job run, those to be preferred first; the last session of ``settled`` is a Witness."""
    return _Search(settled, goal, pod).run()


class _Search:
    def __init__(self, settled: Simulation, goal: Goal, pod: str) -> None:
        self._settled = settled
        self._goal = goal
        self._laboratory = Laboratory(settled, goal, pod)

    def run(self) -> list[Change]:
        found: list[Change] = []
        plans = self._plans(self._settled)
        others = [plan for plan in plans if not _for_less(plan)]
        try:
            self._alone(others, found)
            if not found:
                found += self._together(others, _for_less)
            self._alone([plan for plan in plans if _for_less(plan)], found)
            if not found:
                found += self._together(plans)
        except OutOfTrialsError:
            pass
        return found

    def _alone(self, plans: list[Plan], found: list[Change]) -> None:
        """Add to what was found the plans that do alone, one of a kind, until that is enough."""
        for plan in plans:
            if len(found) == ENOUGH:
                return
            if any(set(known.kinds) == {lever.kind.value for lever in plan} for known in found):
                continue
            change = self._minimised(plan)
            if change is not None:
                found.append(change)

    def _plans(self, simulation: Simulation) -> list[Plan]:
        """The plans for what holds the job at the end of the last session."""
        session = simulation.last.session if simulation.last is not None else None
        job = session.jobs.get(self._goal.job) if session is not None else None
        if job is None or not isinstance(session, Witness):
            return []
        held = gates(session, job, self._goal)
        return list(catalogue(Evidence(self._settled.cluster, session, job, self._goal, held)))

    def _together(self, plans: list[Plan], left_out: Callable[[Plan], bool] = lambda plan: False) -> list[Change]:
        """All plans at once, and what is in the way behind them, but for the plans ``left_out``."""
        pile: list[Plan] = []
        for _ in range(_LAYERS):
            known = {lever.key for plan in pile for lever in plan}
            fresh = [left for plan in plans if (left := tuple(lever for lever in plan if lever.key not in known))]
            if not fresh:
                return []
            pile += fresh
            levers = [lever for plan in pile for lever in plan]
            degrees = self._working(levers)
            if degrees is not None:
                guessed = degrees == [lever.guess for lever in levers]
                needed = sorted(
                    (lever for plan in self._thinned(pile, guessed) for lever in plan), key=lambda lever: lever.welcome
                )
                change = self._minimised(tuple(needed))
                return [] if change is None else [change]
            after = self._laboratory.after([lever.at(lever.most) for plan in pile for lever in plan])
            plans = [] if after is None else [plan for plan in self._plans(after) if not left_out(plan)]
        return []

    def _thinned(self, pile: list[Plan], guessed: bool) -> list[Plan]:
        """The pile without the plans that are not needed, the least welcome left out first. ``guessed``: whether it
        works with all at the degrees that should do; if not, a part of it does not either."""
        left = list(pile)
        for plan in sorted(pile, key=lambda plan: plan[0].welcome, reverse=True):
            without = [other for other in left if other is not plan]
            if without and self._working([lever for other in without for lever in other], guessed):
                left = without
        return left

    # --- sizes ---
    def _working(self, levers: Sequence[Lever], guess: bool = True) -> list[int] | None:
        """Degrees at which the levers do together: those that should (unless it is known that these do not), else the
        highest; None: they do not."""
        for degrees in ([lever.guess for lever in levers], [lever.most for lever in levers])[0 if guess else 1 :]:
            if self._works(levers, degrees):
                return degrees
        return None

    def _works(self, levers: Sequence[Lever], degrees: Sequence[int]) -> bool:
        return self._laboratory.works(_steps(levers, degrees))

    def _without_the_idle(self, levers: Plan, degrees: list[int]) -> tuple[Plan, list[int]]:
        """The levers without units that later ones of the same lever have made unnecessary."""
        for i, lever in enumerate(levers):
            if lever.apart is None or degrees[i] < 2:
                continue
            units = lever.apart(degrees[i])
            spread = (*levers[:i], *units, *levers[i + 1 :])
            moved = [*degrees[:i], *([1] * len(units)), *degrees[i + 1 :]]
            for j in range(i, i + len(units)):
                moved[j] = 0
                if not self._works(spread, moved):
                    moved[j] = 1
            if 0 in moved[i : i + len(units)]:
                return self._without_the_idle(spread, moved)
        return levers, degrees

    def _one_moved(self, levers: Plan, degrees: Sequence[int], i: int, degree: int) -> bool:
        """Whether it works with one lever at another degree."""
        return self._works(levers, [*degrees[:i], degree, *degrees[i + 1 :]])

    def _minimised(self, levers: Plan) -> Change | None:
        working = self._working(levers)
        if working is None:
            return None
        degrees, before = working, None
        while degrees != before:  # a lever may do with less once another one is smaller
            before = list(degrees)
            for i, lever in enumerate(levers):
                degrees[i] = least(partial(self._one_moved, levers, degrees, i), degrees[i], lever, len(levers) > 1)
        levers, degrees = self._without_the_idle(levers, degrees)
        steps = _steps(levers, degrees)
        kinds = dict.fromkeys(lever.kind.value for lever, degree in zip(levers, degrees, strict=True) if degree)
        text = " and ".join(step.text for step in steps)
        documents = tuple(self._laboratory.documents(steps))
        return Change(tuple(kinds), text, documents, merged(steps), self._laboratory.evicted(steps))


def _for_less(plan: Plan) -> bool:
    """Whether the job would have to do with less than it asks for, which is the last resort."""
    return any(lever.kind is ChangeKind.REQUEST for lever in plan)


def least(works: Callable[[int], bool], good: int, lever: Lever, droppable: bool) -> int:
    """The smallest degree that works, at most ``good``, which does. ``droppable``: nothing at all may do, since other
    levers are moved too."""
    if good == 0 or (droppable and works(0)):
        return 0
    guess, grain, bad = lever.guess, lever.grain, 0
    if good > guess and works(guess):
        good = guess
    if good > guess:  # further and further beyond the guess
        bad, step = guess, grain
        while bad + step < good and not works(bad + step):
            bad, step = bad + step, 4 * step
        good = min(good, bad + step)
    while good - bad > 1:
        if not works(good - 1):  # what the numbers say is nearly always right
            return good
        good -= 1
        while good - bad > grain:
            middle = (good + bad) // 2
            rounded = middle // grain * grain
            middle = rounded if rounded > bad else middle
            good, bad = (middle, bad) if works(middle) else (good, middle)
        grain = 1
    return good


def _steps(levers: Sequence[Lever], degrees: Sequence[int]) -> list[Step]:
    return [lever.at(degree) for lever, degree in zip(levers, degrees, strict=True) if degree > 0]
