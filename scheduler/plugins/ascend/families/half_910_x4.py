"""Half-equipped Atlas 800 training servers: four Ascend 910 chips in one HCCS ring."""

from typing import Final

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily
from scheduler.plugins.ascend.selection import any_chips

FAMILIES: Final = (
    ChipFamily(
        name="half_910_x4",
        title="Ascend910 half x4",
        resources=(ASCEND_910, NPU),
        chips=4,
        sizes=frozenset({1, 2, 4}),
        selection=any_chips(4),
        policies=frozenset({"chip4-node4"}),
        traits={ACCELERATOR_TYPE: ("half",)},
        broken_cost=100,
    ),
)
