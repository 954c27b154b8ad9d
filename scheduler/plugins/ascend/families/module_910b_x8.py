"""Atlas 800T A2 and 850 servers: eight chips, each connected to every other."""

from typing import Final

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, up_to
from scheduler.plugins.ascend.selection import any_chips

FAMILIES: Final = (
    ChipFamily(
        name="module_910b_x8",
        title="Ascend910B module x8",
        resources=(ASCEND_910, NPU),
        chips=8,
        sizes=up_to(8),
        selection=any_chips(8),
        policies=frozenset({"chip8-node8"}),
        traits={ACCELERATOR_TYPE: ("module-910b-8", "850-Atlas-8p-8")},
        broken_cost=100,
    ),
)
