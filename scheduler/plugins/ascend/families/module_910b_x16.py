"""Atlas 200T A2 Box16 servers: sixteen Ascend 910B chips in two halves of eight."""

from typing import Final

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.family import Family, up_to
from scheduler.plugins.ascend.selection.paired import CHIPS, HALF, half_or_pairs

FAMILIES: Final = (
    Family(
        name="module_910b_x16",
        title="Ascend910B module x16",
        resources=(ASCEND_910, NPU),
        chips=CHIPS,
        sizes=up_to(HALF) | {10, 12, 14, 16},
        select=half_or_pairs,
        penalties=HALF * CHIPS + CHIPS + 1,
        policies=frozenset({"chip8-node16"}),
        traits={ACCELERATOR_TYPE: ("module-910b-16",)},
        broken_cost=CHIPS,
        missing_is_broken=True,
        group=HALF,
        group_name="half",
        no_group="node(s) had no half with {free}",
    ),
)
