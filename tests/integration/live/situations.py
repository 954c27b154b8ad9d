"""All situations on a live cluster, and the changes that may follow.

Each situation is a function that builds a case from random numbers; ``cases`` calls these functions in turn.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from tests.integration.live.case import Case
from tests.integration.live.device_situations import DEVICES
from tests.integration.live.job_situations import JOBS
from tests.integration.live.node_situations import NODES
from tests.integration.live.queue_situations import QUEUES
from tests.integration.live.resource_situations import RESOURCES
from tests.integration.live.timed_situations import TIMED
from tests.integration.live.workload_situations import WORKLOADS

SEED: Final = 31
SITUATIONS: Final[tuple[Callable[[Case], None], ...]] = (
    *NODES,
    *QUEUES,
    *DEVICES,
    *TIMED,
    *JOBS,
    *WORKLOADS,
    *RESOURCES,
)


def cases(number: int, seed: int = SEED) -> list[Case]:
    """Returns ``number`` cases, which depend only on the seed."""
    found = []
    for index in range(number):
        case = Case(f"live-{index:03d}", Random(f"{seed}/{index}"))
        SITUATIONS[index % len(SITUATIONS)](case)
        found.append(case)
    return found


def title(index: int) -> str:
    """The name of the situation of a case."""
    return SITUATIONS[index % len(SITUATIONS)].__name__
