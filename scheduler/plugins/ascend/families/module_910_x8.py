"""Atlas 800 training servers: eight Ascend 910 chips in two HCCS rings of four.

Only chips of one ring exchange data, so a Pod of up to four chips stays in one ring. The groups are table 1 of the NPU
affinity scheduling design, which ranks both rings together: all entries of group A come before those of B, and these
before C; an entry is the number of free chips of the chosen ring and of the other one.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, ChipRequest, Choice, JobRequest, Selection
from scheduler.plugins.ascend.masks import first, groups_of, ids_of

RING_SIZE: Final = 4
CHIPS: Final = 2 * RING_SIZE
RANKS: Final = 16
"""Ranks of placements that fit are 0 (best) to RANKS - 1."""


class RingGroup(msgspec.Struct, frozen=True):
    """Placements in a ring with ``chosen`` free chips; ``others``: free chips of the other ring, best first."""

    chosen: int
    others: tuple[int, ...]


GROUPS: Final[Mapping[int, Sequence[RingGroup]]] = {
    1: (
        RingGroup(1, (0, 1, 2, 3, 4)),
        RingGroup(3, (0, 2, 3, 4)),
        RingGroup(2, (0, 2, 4)),
        RingGroup(4, (0, 4)),
    ),
    2: (
        RingGroup(2, (0, 1, 2, 3, 4)),
        RingGroup(4, (0, 1, 3, 4)),
        # The table's row ends at 3~1 and no other group has 3~3. The design's policy takes a ring of three last of all,
        # whatever the other one has, so 3~3 stands at the very end: refusing would leave six chips idle.
        RingGroup(3, (0, 1, 3)),
    ),
    4: (RingGroup(4, (0, 1, 2, 3, 4)),),
}


def two_rings(groups: Mapping[int, Sequence[RingGroup]]) -> Selection:
    """Chips of the ring that matches the first entry of the request's groups; of the left ring if both match. A request
    for all chips needs a node with all chips free."""

    def choose(free: int, request: ChipRequest) -> Choice | None:
        if request.chips == CHIPS:
            return Choice(tuple(range(CHIPS)), 0) if free == first(CHIPS) else None
        left, right = groups_of(free, RING_SIZE, CHIPS)
        counts = left.bit_count(), right.bit_count()
        rank = 0
        for group in groups.get(request.chips, ()):
            for other in group.others:
                for ring, found in ((left, counts), (right, counts[::-1])):
                    if found == (group.chosen, other):
                        return Choice(tuple(ids_of(ring)[: request.chips]), rank)
                rank += 1
        return None

    return Selection(choose, RANKS)


def _check(job: JobRequest) -> str:
    """Returns why the job is invalid, or "": the design gives up to eight chips to one Pod only, and more only in Pods
    of eight."""
    asked = f"{job.total} {job.resource}"
    if job.total <= CHIPS and len(job.pods) > 1:
        return f"{len(job.pods)} Pods ask for {asked} together; up to {CHIPS} must be asked for by one Pod"
    odd = next((pod for pod, chips in job.pods.items() if job.total > CHIPS and chips != CHIPS), None)
    if odd is None:
        return ""
    return (
        f"the job asks for {asked} in {len(job.pods)} Pods, of which Pod {odd} asks for {job.pods[odd]}; "
        f"above {CHIPS} every Pod must ask for {CHIPS}"
    )


FAMILIES: Final = (
    ChipFamily(
        name="module_910_x8",
        title="Ascend910 module x8",
        resources=(ASCEND_910, NPU),
        chips=CHIPS,
        sizes=frozenset({1, 2, 4, 8}),
        selection=two_rings(GROUPS),
        traits={ACCELERATOR_TYPE: ("", "module")},
        # A job that names no type does not use servers that are labelled as another type: they have other links.
        node_labels={ACCELERATOR_TYPE: frozenset({"", "module"})},
        check=_check,
        # The design ranks nodes with eight healthy chips before nodes with seven ("the broken one counts as used").
        # Nodes with fewer follow by the same rule, so that they can be used too.
        broken_cost=RANKS,
        missing_is_broken=True,
        group=RING_SIZE,
        group_name="HCCS ring",
        no_group="node(s) had no HCCS ring with {free}",
    ),
)
