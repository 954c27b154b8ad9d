"""Atlas 800T A3 servers: sixteen chips, two dies of a card each."""

from typing import Final

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910, NPU
from scheduler.plugins.ascend.family import ChipFamily, JobRequest
from scheduler.plugins.ascend.selection import DIES, whole_cards

CHIPS: Final = 16


def _check(job: JobRequest) -> str:
    if job.total == 1:
        return ""
    odd = next((f"Pod {pod} asks for {chips}" for pod, chips in job.pods.items() if chips % DIES), None)
    if odd is not None:
        return f"the job asks for {job.total} {job.resource}, of which {odd}; only a job of one Pod may ask for one die"
    return without_chips(job)


def without_chips(job: JobRequest) -> str:
    """Returns why Pods of the job that ask for no chips are not allowed, or ""."""
    if not job.without_chips:
        return ""
    return (
        f"{job.without_chips} Pods of the job ask for no {job.resource}; only a Pod of the task scheduler may ask "
        f"for none"
    )


FAMILIES: Final = (
    ChipFamily(
        name="a3_x16",
        title="Ascend A3 x16",
        resources=(ASCEND_910, NPU),
        chips=CHIPS,
        sizes=frozenset({1, *range(2, CHIPS + 1, 2)}),
        selection=whole_cards(CHIPS),
        policies=frozenset({"chip2-node8", "chip2-node16", "module-a3-16"}),
        traits={ACCELERATOR_TYPE: ("module-a3-16",)},
        check=_check,
        group=DIES,
    ),
)
