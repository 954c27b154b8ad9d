"""The smallest amounts are found in few trials, which start with the estimates."""

from functools import partial
from operator import le

import pytest

from scheduler.explain.smallest_amounts import smallest_amount
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Step


def adjustment(estimate: int, most: int, shared: int = 0, grain: int = 1) -> Adjustment:
    return Adjustment(ChangeKind.NODES, estimate, most, lambda amount: Step(str(amount)), grain=grain, shared=shared)


@pytest.mark.parametrize(
    "shape", [adjustment(1, 64), adjustment(9, 64), adjustment(3, 64, 40), adjustment(5, 64, 9, 4), adjustment(64, 64)]
)
def test_the_smallest_amount_is_found_for_any_estimate(shape: Adjustment) -> None:
    for needed in range(1, 65):
        assert smallest_amount(partial(le, needed), shape.most, shape, droppable=False) == needed


def test_a_correct_estimate_takes_one_further_trial_with_one_unit_less() -> None:
    tried: list[int] = []

    def works(amount: int) -> bool:
        tried.append(amount)
        return amount >= 101

    assert smallest_amount(works, 101, adjustment(1, 189, 101), droppable=False) == 101
    assert tried == [100]
