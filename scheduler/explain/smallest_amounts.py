"""The smallest amounts at which adjustments let a job run, by trials.

Adjustments are tried with their estimated amounts first, then with the maximum ones. They are then reduced, one at a
time, until one unit less of any of them no longer works.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from scheduler.explain.explanation import Change
from scheduler.explain.trials import TrialRunner, merged_arguments
from scheduler.framework.remedies.adjustments import Adjustment, Key, Plan, Step

ATTEMPTS: Final = 2
"""The number of amounts at which each adjustment is tried (``Adjustment.attempts``)."""


class VerifiedChange(msgspec.Struct, frozen=True):
    """A change that works, with the amount of each adjustment."""

    change: Change
    amounts: dict[Key, int]

    def is_part_of(self, plan: Plan) -> bool:
        """Whether a plan contains this change: it has the same adjustments, with at least the same amounts."""
        return self.is_within({adjustment.key: adjustment.attempts[0] for adjustment in plan})

    def is_within(self, amounts: Mapping[Key, int]) -> bool:
        """Whether these are the adjustments of this change, with at least the same amounts, and perhaps others."""
        return all(amount <= amounts.get(key, 0) for key, amount in self.amounts.items())


class SmallestAmounts:
    """Remembers what it found: a smaller amount than the smallest one that works is not tried again."""

    def __init__(self, trials: TrialRunner) -> None:
        self._trials = trials
        self._least: dict[Key, int] = {}
        """Adjustment -> the smallest amount at which it works alone."""

    def attempt(self, adjustments: Sequence[Adjustment], first: int = 0) -> int:
        """The index of the first attempt, from ``first`` on, at which the adjustments work together; ``ATTEMPTS``: they
        work at none. Raises OutOfTrialsError."""
        for attempt in range(first, ATTEMPTS):
            if self._works(adjustments, [adjustment.attempts[attempt] for adjustment in adjustments]):
                return attempt
        return ATTEMPTS

    def minimized(self, adjustments: Plan) -> VerifiedChange | None:
        """The change by these adjustments with the smallest amounts that work together; None: they do not work at any
        attempt. Raises OutOfTrialsError."""
        attempt = self.attempt(adjustments)
        if attempt == ATTEMPTS:
            return None
        amounts, before = [adjustment.attempts[attempt] for adjustment in adjustments], None
        while amounts != before:  # a smaller adjustment may let another one shrink further
            before = list(amounts)
            for i, adjustment in enumerate(adjustments):
                amounts[i] = smallest_amount(
                    partial(self._works_with, adjustments, amounts, i), amounts[i], adjustment, len(adjustments) > 1
                )
        adjustments, amounts = self._without_unneeded_units(adjustments, amounts)
        steps = _steps(adjustments, amounts)
        kinds = dict.fromkeys(
            adjustment.kind.value for adjustment, amount in zip(adjustments, amounts, strict=True) if amount
        )
        text = " and ".join(step.text for step in steps)
        documents = tuple(
            map(copy.deepcopy, self._trials.documents(steps))
        )  # they share parts, such as images of nodes
        change = Change(tuple(kinds), text, documents, merged_arguments(steps), self._trials.evicted(steps))
        moved = {adjustment.key: amount for adjustment, amount in zip(adjustments, amounts, strict=True) if amount}
        if len(moved) == 1:
            self._least.update(moved)
        return VerifiedChange(change, moved)

    def _works(self, adjustments: Sequence[Adjustment], amounts: Sequence[int]) -> bool:
        moved = [(adjustment.key, amount) for adjustment, amount in zip(adjustments, amounts, strict=True) if amount]
        if len(moved) == 1 and moved[0][1] < self._least.get(moved[0][0], 0):
            return False
        return self._trials.works(_steps(adjustments, amounts))

    def _without_unneeded_units(self, adjustments: Plan, amounts: list[int]) -> tuple[Plan, list[int]]:
        """The adjustments without units that become unnecessary with later units of the adjustment."""
        for i, adjustment in enumerate(adjustments):
            if adjustment.split is None or amounts[i] < 2:
                continue
            units = adjustment.split(amounts[i])
            spread = (*adjustments[:i], *units, *adjustments[i + 1 :])
            moved = [*amounts[:i], *([1] * len(units)), *amounts[i + 1 :]]
            for j in range(i, i + len(units)):
                moved[j] = 0
                if not self._works(spread, moved):
                    moved[j] = 1
            if 0 in moved[i : i + len(units)]:
                return self._without_unneeded_units(spread, moved)
        return adjustments, amounts

    def _works_with(self, adjustments: Plan, amounts: Sequence[int], i: int, amount: int) -> bool:
        """Whether the adjustments work with one of them at another amount."""
        return self._works(adjustments, [*amounts[:i], amount, *amounts[i + 1 :]])


def smallest_amount(works: Callable[[int], bool], good: int, adjustment: Adjustment, droppable: bool) -> int:
    """The smallest amount that works. ``good``: an amount that works. ``droppable``: the amount may be 0, since
    there are other adjustments."""
    if good == 0 or (droppable and works(0)):
        return 0
    estimate, grain, bad = adjustment.estimate, adjustment.grain, 0
    if good in adjustment.attempts[:-1] and (good == 1 or not works(good - 1)):
        return good  # the estimates are nearly always right
    if good > estimate and works(estimate):
        good = estimate
    if good > estimate:
        bad, step = estimate, grain
        shared = adjustment.attempts[0]
        if bad < shared < good:
            good, bad = (shared, bad) if works(shared) else (good, shared)
        while bad + step < good and not works(bad + step):  # growing steps beyond the estimate
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


def _steps(adjustments: Sequence[Adjustment], amounts: Sequence[int]) -> list[Step]:
    return [adjustment.at(amount) for adjustment, amount in zip(adjustments, amounts, strict=True) if amount > 0]
