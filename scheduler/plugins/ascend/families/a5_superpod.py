"""Ascend 850 and 950 super pods: servers of eight chips, many of which are connected by one fabric.

As on A3 (``a3_superpod``), the nodes of a block of ``sp-block`` chips are in one super pod. A block smaller than a node
is a node.
"""

from typing import Final

from scheduler.api.names import ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, JobRequest, block_problem, up_to
from scheduler.plugins.ascend.selection import any_chips

CHIPS: Final = 8


def _check(job: JobRequest) -> str:
    problem = block_problem(CHIPS, job)
    if problem or len(job.pods) == 1:
        return problem
    others = job.without_chips + job.schedulers
    return f"{others} Pods of the job ask for no {job.resource}; each has to ask for {CHIPS}" if others else ""


FAMILIES: Final = (
    ChipFamily(
        name="a5_superpod_x8",
        title="Ascend A5 super pod x8",
        resources=(NPU, ASCEND_910),
        chips=CHIPS,
        sizes=up_to(CHIPS),
        selection=any_chips(CHIPS),
        policies=frozenset({"chip8-node8-sp"}),
        traits=None,
        check=_check,
        npu_configuration=True,
        super_pods=True,
    ),
)
