"""Atlas 300I inference cards of four Ascend 310 chips: a Pod takes any chips, from the fullest cards first."""

from typing import Final

from scheduler.api.names import ASCEND_310
from scheduler.plugins.ascend.family import STRATEGY, ChipFamily, up_to
from scheduler.plugins.ascend.masks import WIDTH
from scheduler.plugins.ascend.selection import fullest_groups_first

CARD: Final = 4

FAMILIES: Final = (
    ChipFamily(
        name="chip_310_x4",
        title="Ascend310 chip x4",
        resources=(ASCEND_310,),
        chips=WIDTH,
        sizes=up_to(WIDTH),
        selection=fullest_groups_first(CARD, WIDTH),
        traits={STRATEGY: ("", "chip")},
        avoids_network_faults=False,
    ),
)
