"""Atlas 300I Pro and 300V cards of one Ascend 310P chip each. Device plugins of before May 2022 call the chip
Ascend710, and count it by this name."""

from typing import Final

from scheduler.api.names import ASCEND_310P, ASCEND_710
from scheduler.plugins.ascend.family import ChipFamily, up_to
from scheduler.plugins.ascend.masks import WIDTH
from scheduler.plugins.ascend.selection import any_chips

FAMILIES: Final = (
    ChipFamily(
        name="base_310p",
        title="Ascend310P",
        resources=(ASCEND_310P, ASCEND_710),
        chips=WIDTH,
        sizes=up_to(WIDTH),
        selection=any_chips(WIDTH),
        avoids_network_faults=False,
    ),
)
