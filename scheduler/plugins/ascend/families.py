"""Families of Ascend nodes as data: the names of their chips, their topology, and the preferred rings of each request.

There is one family, the Ascend 910 training module: eight chips in two HCCS rings of four. Only chips of one ring
exchange data, so a Pod of up to four chips must stay in one ring. The groups are table 1 of the NPU affinity scheduling
design: group A is preferred to B, and B to C; within a group, nodes are ranked by the number of free chips in the other
ring.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.api.names import ASCEND_910
from scheduler.plugins.ascend.rings import CHIPS, Group, RingTable, compile_tables


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of node."""

    title: str
    resource: str
    """The extended resource that counts whole chips."""
    chip_prefix: str
    """The part of a chip's name before its number."""
    accelerator_types: frozenset[str]
    """Values of ``accelerator-type`` (in nodeSelectors and on nodes) of this family. No value means this family too."""
    tables: Mapping[int, RingTable]
    """Number of chips that a Pod may request -> the table of its placements."""

    @property
    def sizes(self) -> str:
        """The allowed requests, for messages: ``1, 2, 4 or 8``."""
        *most, last = map(str, sorted(self.tables))
        return f"{', '.join(most)} or {last}"


MODULE_910_X8_GROUPS: Final[Mapping[int, Sequence[Group]]] = {
    1: (
        Group(1, (0, 1, 2, 3, 4)),
        Group(3, (0, 2, 3, 4)),
        Group(2, (0, 2, 4)),
        Group(4, (0, 4)),
    ),
    2: (
        Group(2, (0, 1, 2, 3, 4)),
        Group(4, (0, 1, 3, 4)),
        # The table's row ends at 3~1 and no other group has 3~3. The design's policy takes a ring of three last of all,
        # whatever the other one has, so 3~3 stands at the very end: refusing would leave six chips idle.
        Group(3, (0, 1, 3)),
    ),
    4: (Group(4, (0, 1, 2, 3, 4)),),
    CHIPS: (),
}

MODULE_910_X8: Final = Family(
    title="Ascend910 module x8",
    resource=ASCEND_910,
    chip_prefix="Ascend910-",
    accelerator_types=frozenset({"module"}),
    tables=compile_tables(MODULE_910_X8_GROUPS),
)
