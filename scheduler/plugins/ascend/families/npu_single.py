"""Servers of the resource ``huawei.com/npu`` with eight or sixteen chips that are not connected."""

from typing import Final

from scheduler.api.names import ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, up_to
from scheduler.plugins.ascend.selection import any_chips

FAMILIES: Final = tuple(
    ChipFamily(
        name=f"npu_single_x{chips}",
        title=f"NPU x{chips}",
        resources=(NPU, ASCEND_910),
        chips=chips,
        sizes=up_to(chips),
        selection=any_chips(chips),
        policies=frozenset({f"chip1-node{chips}"}),
        traits=None,
        npu_configuration=True,
        avoids_network_faults=False,
        broken_cost=100,
    )
    for chips in (8, 16)
)
