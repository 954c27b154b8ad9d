"""Atlas 200T A2 Box16 servers: sixteen Ascend 910B chips in two halves of eight. A Pod gets up to eight chips of one
half, or more in pairs of both."""

from typing import Final

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, ChipRequest, Choice, Selection, up_to
from scheduler.plugins.ascend.masks import first, groups_of, ids_of
from scheduler.plugins.ascend.selection import least_left, one_group

HALF: Final = 8
CHIPS: Final = 2 * HALF
_one_half = one_group(HALF, CHIPS, least_left(HALF)).choose


def half_or_pairs(free: int, request: ChipRequest) -> Choice | None:
    """Returns up to eight chips of the half that keeps the fewest free. More chips are pairs of both halves, left chip
    first; those of a job of one Pod are the chips i and i + 8, those of a job of several Pods the n-th free chip of
    each half. The penalty is the number of chips (of pairs) that stay free, then the number of free chips of the node.
    """
    number = free.bit_count()
    if request.chips == CHIPS:
        return Choice(tuple(range(CHIPS)), 0) if free == first(CHIPS) else None
    if request.chips <= HALF:
        choice = _one_half(free, request)
        return None if choice is None else Choice(choice.chips, choice.penalty * CHIPS + number)
    left, right = groups_of(free, HALF, CHIPS)
    right >>= HALF
    if not request.several:
        left = right = left & right
    pairs = list(zip(ids_of(left), ids_of(right), strict=False))
    missing = len(pairs) - request.chips // 2
    if missing < 0:
        return None
    chips = tuple(chip for low, high in pairs for chip in (low, high + HALF))
    return Choice(chips[: request.chips], missing * CHIPS + number)


FAMILIES: Final = (
    ChipFamily(
        name="module_910b_x16",
        title="Ascend910B module x16",
        resources=(ASCEND_910, NPU),
        chips=CHIPS,
        sizes=up_to(HALF) | {10, 12, 14, 16},
        selection=Selection(half_or_pairs, HALF * CHIPS + CHIPS + 1),
        policies=frozenset({"chip8-node16"}),
        traits={ACCELERATOR_TYPE: ("module-910b-16",)},
        broken_cost=CHIPS,
        missing_is_broken=True,
        group=HALF,
        group_name="half",
        no_group="node(s) had no half with {free}",
    ),
)
