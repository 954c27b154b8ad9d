"""Atlas 900 A3 SuperPoD: servers of sixteen (or eight) chips, many of which are connected by one fabric.

A job names the chips of a block with the annotation ``sp-block``. The nodes of a block are in one super pod
(``super_pods``); the chips of a node are chosen as on other A3 servers.
"""

from functools import partial
from typing import Final

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.families.a3_x16 import without_chips
from scheduler.plugins.ascend.family import ChipFamily, JobRequest, block_problem
from scheduler.plugins.ascend.selection import DIES, whole_cards


def _check(chips: int, job: JobRequest) -> str:
    block = job.block_chips
    if block < chips and block != job.total:
        asked = f"{job.total} {job.resource}"
        return f"sp-block={block} is less than the {chips} chips of a node, and the job asks for {asked}"
    problem = block_problem(chips, job)
    return problem if problem or len(job.pods) == 1 else without_chips(job)


FAMILIES: Final = tuple(
    ChipFamily(
        name=f"a3_superpod_x{chips}",
        title=f"Ascend A3 super pod x{chips}",
        resources=(ASCEND_910, NPU),
        chips=chips,
        sizes=frozenset({1, *range(2, chips + 1, 2)}),
        selection=whole_cards(chips),
        policies=frozenset({f"chip2-node{chips}-sp"}),
        traits={ACCELERATOR_TYPE: (f"module-a3-{chips}-super-pod",)},
        check=partial(_check, chips),
        super_pods=True,
        group=DIES,
    )
    for chips in (16, 8)
)
