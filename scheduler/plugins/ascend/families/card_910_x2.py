"""Atlas 300T training cards, and every other ``accelerator-type`` that is called a card, such as inference cards with
910B chips: servers of up to eight independent chips."""

from typing import Final

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, up_to
from scheduler.plugins.ascend.selection import any_chips

FAMILIES: Final = (
    ChipFamily(
        name="card_910_x2",
        title="Ascend910 cards",
        resources=(ASCEND_910, NPU),
        chips=8,
        sizes=up_to(8),
        selection=any_chips(8),
        policies=frozenset({"chip1-node2"}),
        traits={ACCELERATOR_TYPE: ("*card*",)},
        avoids_network_faults=False,
        broken_cost=100,
    ),
)
