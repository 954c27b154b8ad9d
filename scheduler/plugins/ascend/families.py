"""Families of Ascend nodes as data: how their chips are called, how they are linked, and what suits a request best.

One family so far, the Ascend 910 training module: eight chips in two HCCS rings of four. Chips of one ring exchange
data, chips of different rings cannot, so a Pod of up to four chips must stay in one ring. The groups are table 1 of the
NPU affinity scheduling design: group A is used up before B, B before C; within a group the nodes come in the order of
what is free in the other ring.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.api.names import ASCEND_910
from scheduler.plugins.ascend.rings import CHIPS, Group, RingTable, compile_tables


@dataclass(frozen=True, slots=True)
class Family:
    """What the plugin has to know of one kind of node."""

    title: str
    resource: str
    """The extended resource that counts whole chips."""
    chip_prefix: str
    """What stands before the number in a chip's name."""
    accelerator_types: frozenset[str]
    """Values of ``accelerator-type``, in a Pod's nodeSelector and on nodes, that mean this family; so does none."""
    tables: Mapping[int, RingTable]
    """Chips a Pod may ask for -> where it goes."""

    @property
    def sizes(self) -> str:
        """The requests allowed, for messages: ``1, 2, 4 or 8``."""
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
