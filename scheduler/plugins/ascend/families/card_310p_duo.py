"""Atlas 300I Duo cards of two Ascend 310P chips: a Pod stays in one card (``duo=true``, ``npu-310-strategy=card``)."""

from typing import Final

from scheduler.api.names import ASCEND_310P
from scheduler.plugins.ascend.families.chip_310p_duo import one_pod_if_distributed
from scheduler.plugins.ascend.family import DUO, STRATEGY, ChipFamily, up_to
from scheduler.plugins.ascend.selection import DIES, least_left, one_group

CHIPS: Final = 32


FAMILIES: Final = (
    ChipFamily(
        name="card_310p_duo",
        title="Ascend310P Duo card",
        resources=(ASCEND_310P,),
        chips=CHIPS,
        sizes=up_to(CHIPS),  # a request for more than a card has finds no node
        selection=one_group(DIES, CHIPS, least_left(DIES)),
        traits={DUO: ("true",), STRATEGY: ("card",)},
        check=one_pod_if_distributed,
        avoids_network_faults=False,
        group=DIES,
    ),
)
