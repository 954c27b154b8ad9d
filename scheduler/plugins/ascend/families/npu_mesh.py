"""Servers of the resource ``huawei.com/npu`` with eight or sixteen chips, four of which form a mesh."""

from typing import Final

from scheduler.api.names import ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, up_to
from scheduler.plugins.ascend.selection import one_or_more_groups

MESH: Final = 4

FAMILIES: Final = tuple(
    ChipFamily(
        name=f"npu_mesh_x{chips}",
        title=f"NPU x{chips} in meshes of four",
        resources=(NPU, ASCEND_910),
        chips=chips,
        sizes=up_to(chips),
        selection=one_or_more_groups(MESH, chips),
        policies=frozenset({f"chip4-node{chips}"}),
        traits=None,
        npu_configuration=True,
        group=MESH,
        group_name="mesh",
        no_group="node(s) had no mesh with {free}",
    )
    for chips in (8, 16)
)
