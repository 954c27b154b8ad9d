"""How the queue plugins say no: what was asked, what is used or promised, what the limit is, and where.

One wording for overcommit, proportion and capacity. Volcano's words stand at the head of a message where it has some;
the numbers follow.
"""

from collections.abc import Iterable

from scheduler.api.names import EVENT_UNSCHEDULABLE
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.resource import Dimensions, Vector

QUEUE_OVERUSED = "QueueOverused"
QUOTA_INSUFFICIENT = "queue resource quota insufficient"
"""Volcano's words where a PodGroup is not let into its queue."""


def not_let_in(
    dimensions: Dimensions, headline: str, short: str, over: Iterable[int], where: str = "", **amounts: Vector
) -> Refusal:
    """``headline: short cpu, short memory (where; cpu: asked 4, limit 2; memory: ...)`` for the resources ``over``."""
    over = list(over)
    names = ", ".join(f"{short} {dimensions.names[d]}" for d in over)
    numbers = _numbers(dimensions, over, amounts)
    return Refusal(EVENT_UNSCHEDULABLE, f"{headline}: {names} ({f'{where}; ' if where else ''}{numbers})")


def in_use(dimensions: Dimensions, headline: str, over: Iterable[int], **amounts: Vector) -> Refusal:
    """``headline (cpu: asked 1, used 4, limit 4; ...)``: the queue has nothing left of the resources ``over``."""
    return Refusal(QUEUE_OVERUSED, f"{headline} ({_numbers(dimensions, over, amounts) or 'nothing'})")


def not_open(queue: Queue) -> Refusal:
    return Refusal(EVENT_UNSCHEDULABLE, f"queue {queue.name} is {queue.state}: only an Open queue takes jobs")


def _numbers(dimensions: Dimensions, over: Iterable[int], amounts: dict[str, Vector]) -> str:
    return "; ".join(
        dimensions.numbers(int(d), **{what: float(vector[d]) for what, vector in amounts.items()}) for d in over
    )
