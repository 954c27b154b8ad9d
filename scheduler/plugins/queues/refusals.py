"""How the queue plugins say no: what was asked, what is used or promised, what the limit is, and where.

One wording for overcommit, proportion and capacity. Volcano's words stand at the head of a message where it has some;
the numbers follow.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.api.names import EVENT_UNSCHEDULABLE
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal, Shortage
from scheduler.api.resource import Dimensions, Vector

QUEUE_OVERUSED = "QueueOverused"
QUOTA_INSUFFICIENT = "queue resource quota insufficient"
"""Volcano's words where a PodGroup is not let into its queue."""
Limited = tuple[str, str]
"""What has the limit: kind and name of an object."""
CLUSTER: Final[Limited] = ("Cluster", "")


def of_queue(name: str) -> Limited:
    return ("Queue", name)


def not_let_in(
    dimensions: Dimensions,
    headline: str,
    short: str,
    over: Iterable[int],
    where: str = "",
    of: Limited = CLUSTER,
    **amounts: Vector,
) -> Refusal:
    """``headline: short cpu, short memory (where; cpu: asked 4, limit 2; memory: ...)`` for the resources ``over``.

    ``amounts``: ``asked``, then what is in use or promised, then what the limit is.
    """
    over = list(over)
    names = ", ".join(f"{short} {dimensions.names[d]}" for d in over)
    numbers = _numbers(dimensions, over, amounts)
    message = f"{headline}: {names} ({f'{where}; ' if where else ''}{numbers})"
    return Refusal(EVENT_UNSCHEDULABLE, message, _shortages(dimensions, over, amounts, of))


def in_use(
    dimensions: Dimensions, headline: str, over: Iterable[int], of: Limited = CLUSTER, **amounts: Vector
) -> Refusal:
    """``headline (cpu: asked 1, used 4, limit 4; ...)``: the queue has nothing left of the resources ``over``.

    ``amounts`` as above, as far as they are known.
    """
    over = list(over)
    message = f"{headline} ({_numbers(dimensions, over, amounts) or 'nothing'})"
    return Refusal(QUEUE_OVERUSED, message, _shortages(dimensions, over, amounts, of))


def not_open(queue: Queue) -> Refusal:
    return Refusal(EVENT_UNSCHEDULABLE, f"queue {queue.name} is {queue.state}: only an Open queue takes jobs")


def _shortages(
    dimensions: Dimensions, over: Iterable[int], amounts: Mapping[str, Vector], of: Limited
) -> tuple[Shortage, ...]:
    if not amounts:
        return ()
    zeros = dimensions.zeros()
    asked = amounts.get("asked", zeros)
    used, limit = [zeros, *(vector for what, vector in amounts.items() if what != "asked")][-2:]
    names = dimensions.names
    return tuple(Shortage(names[d], float(asked[d]), float(used[d]), float(limit[d]), *of) for d in over)


def _numbers(dimensions: Dimensions, over: Iterable[int], amounts: dict[str, Vector]) -> str:
    return "; ".join(
        dimensions.numbers(int(d), **{what: float(vector[d]) for what, vector in amounts.items()}) for d in over
    )
