"""The refusals of the queue plugins, with the requested amount, the used or reserved amount, the limit, and its queue.

overcommit, proportion and capacity share one wording. A message begins with Volcano's message, if Volcano has one; the
numbers follow.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.api.names import EVENT_UNSCHEDULABLE
from scheduler.api.queue import Queue, not_open_message
from scheduler.api.reasons import Refusal, Shortage
from scheduler.api.resource import Dimensions, Vector

QUEUE_OVERUSED = "QueueOverused"
QUOTA_INSUFFICIENT = "queue resource quota insufficient"
"""Volcano's message for a PodGroup that is not admitted to its queue."""
LimitedObject = tuple[str, str]
"""Kind and name of the object that has the limit."""
CLUSTER: Final[LimitedObject] = ("Cluster", "")


def of_queue(name: str) -> LimitedObject:
    return ("Queue", name)


def not_admitted(
    dimensions: Dimensions,
    headline: str,
    short: str,
    over: Iterable[int],
    where: str = "",
    of: LimitedObject = CLUSTER,
    **amounts: Vector,
) -> Refusal:
    """Refuses a PodGroup: ``headline: short cpu, short memory (where; cpu: asked 4, limit 2; memory: ...)``.

    ``over``: the resources beyond their limit. ``amounts``: ``asked``, then what is used or reserved, then the limit.
    """
    over = list(over)
    names = ", ".join(f"{short} {dimensions.names[d]}" for d in over)
    numbers = _numbers(dimensions, over, amounts)
    message = f"{headline}: {names} ({f'{where}; ' if where else ''}{numbers})"
    return Refusal(EVENT_UNSCHEDULABLE, message, _shortages(dimensions, over, amounts, of))


def overused(
    dimensions: Dimensions, headline: str, over: Iterable[int], of: LimitedObject = CLUSTER, **amounts: Vector
) -> Refusal:
    """Refuses tasks of a queue that has reached a limit: ``headline (cpu: asked 1, used 4, limit 4; ...)``.

    ``over`` and ``amounts`` as for ``not_admitted``; amounts may be left out.
    """
    over = list(over)
    message = f"{headline} ({_numbers(dimensions, over, amounts) or 'nothing'})"
    return Refusal(QUEUE_OVERUSED, message, _shortages(dimensions, over, amounts, of))


def not_open(queue: Queue) -> Refusal:
    return Refusal(EVENT_UNSCHEDULABLE, not_open_message(queue))


def _shortages(
    dimensions: Dimensions, over: Iterable[int], amounts: Mapping[str, Vector], of: LimitedObject
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
