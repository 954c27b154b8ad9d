"""Atlas 300I inference cards of four Ascend 310 chips: a Pod stays in one card (``npu-310-strategy=card``)."""

from typing import Final

from scheduler.api.names import ASCEND_310
from scheduler.plugins.ascend.family import STRATEGY, ChipFamily, up_to
from scheduler.plugins.ascend.masks import WIDTH
from scheduler.plugins.ascend.selection import INFERENCE_CARD, one_group

CARD: Final = 4

FAMILIES: Final = (
    ChipFamily(
        name="card_310_x4",
        title="Ascend310 card x4",
        resources=(ASCEND_310,),
        chips=WIDTH,
        sizes=up_to(WIDTH),
        selection=one_group(CARD, WIDTH, INFERENCE_CARD),
        traits={STRATEGY: ("card",)},
        avoids_network_faults=False,
        group=CARD,
    ),
)
