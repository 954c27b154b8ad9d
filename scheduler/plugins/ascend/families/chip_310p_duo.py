"""Atlas 300I Duo cards of two Ascend 310P chips: a Pod takes any chips, or whole cards if it is distributed."""

from typing import Final

from scheduler.api.names import ASCEND_310P
from scheduler.plugins.ascend.family import DISTRIBUTED, DUO, STRATEGY, ChipFamily, JobRequest, up_to
from scheduler.plugins.ascend.selection import Penalties, half_cards_first, one_half_then_whole_cards

CHIPS: Final = 16
CARD_TYPE: Final = {"infer-card-type": frozenset({"card-300i-duo"})}
"""Label of nodes of which every card is a Duo card."""
WITH_HALF: Final[Penalties] = {
    1: {free: free for free in range(1, 8)},
    2: {free: free - 1 for free in range(2, 9)},
    3: {free: free - 2 for free in range(3, 8)},
    4: {free: free - 3 for free in range(4, 9)},
    5: {5: 1, 6: 2, 7: 3},
    6: {6: 1, 7: 2, 8: 3},
    7: {7: 1},
    8: {8: 1},
}
"""Penalties of even requests, and of odd ones that find a half-used card."""
WITHOUT_HALF: Final[Penalties] = {
    1: {2: 9, 4: 10, 6: 11, 8: 12},
    3: {4: 9, 6: 10, 8: 11},
    5: {6: 9, 8: 10},
    7: {8: 9},
}
"""Penalties of odd requests on nodes without a half-used card."""
_WORST: Final = 16


def one_pod_if_distributed(job: JobRequest) -> str:
    if job.traits.get(DISTRIBUTED) == "true" and len(job.pods) > 1:
        return (
            f"{len(job.pods)} Pods ask for {job.resource}; with the label {DISTRIBUTED}=true one Pod asks for all chips"
        )
    return ""


FAMILIES: Final = (
    ChipFamily(
        name="chip_310p_duo_distributed",
        title="Ascend310P Duo chip, distributed",
        resources=(ASCEND_310P,),
        chips=CHIPS,
        sizes=up_to(CHIPS),
        selection=one_half_then_whole_cards(CHIPS, WITH_HALF, WITHOUT_HALF, _WORST),
        traits={DUO: ("true",), STRATEGY: ("", "chip"), DISTRIBUTED: ("true",)},
        node_labels=CARD_TYPE,
        check=one_pod_if_distributed,
        avoids_network_faults=False,
    ),
    ChipFamily(
        name="chip_310p_duo",
        title="Ascend310P Duo chip",
        resources=(ASCEND_310P,),
        chips=CHIPS,
        sizes=up_to(CHIPS),
        selection=half_cards_first(CHIPS),
        traits={DUO: ("true",), STRATEGY: ("", "chip")},
        node_labels=CARD_TYPE,
        avoids_network_faults=False,
    ),
)
