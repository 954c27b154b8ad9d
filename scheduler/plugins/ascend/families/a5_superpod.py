"""Ascend 850 and 950 super pods: servers of eight chips, many of which are connected by one fabric.

As on A3 (``a3_superpod``), the nodes of a block of ``sp-block`` chips are in one super pod. A block smaller than a node
is a node.
"""

from typing import Final

from scheduler.api.names import ASCEND_910, NPU
from scheduler.plugins.ascend.family import Family, JobRequest, up_to
from scheduler.plugins.ascend.selection.counted import any_chips

CHIPS: Final = 8


def _check(job: JobRequest) -> str:
    block, number = job.block_chips, len(job.pods)
    asked = f"{job.total} {job.resource}"
    if block > CHIPS and block % CHIPS:
        return f"sp-block={block} is not a multiple of the {CHIPS} chips of a node"
    if block > CHIPS * job.super_pod_size:
        return f"sp-block={block} is more than a super pod of {job.super_pod_size} nodes with {CHIPS} chips has"
    if number == 1:
        return "" if block == job.total else f"one Pod asks for {asked}, and sp-block={block} is not that number"
    if job.total % block:
        return f"the job asks for {asked}, which is not a multiple of sp-block={block}"
    other = next((f"Pod {pod} asks for {chips}" for pod, chips in job.pods.items() if chips != CHIPS), "")
    if other:
        return f"{number} Pods ask for {asked}, and {other}; every Pod of several must ask for {CHIPS}"
    others = job.without_chips + job.schedulers
    return f"{others} Pods of the job ask for no {job.resource}; each has to ask for {CHIPS}" if others else ""


FAMILIES: Final = (
    Family(
        name="a5_superpod_x8",
        title="Ascend A5 super pod x8",
        resources=(NPU, ASCEND_910),
        chips=CHIPS,
        sizes=up_to(CHIPS),
        select=any_chips,
        any_ids=True,
        penalties=CHIPS + 1,
        policies=frozenset({"chip8-node8-sp"}),
        traits=None,
        check=_check,
        npu_configuration=True,
        super_pods=True,
    ),
)
