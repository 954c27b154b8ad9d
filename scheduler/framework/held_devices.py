"""The devices that queues hold, for their status: each claim of the tasks that hold nodes counts once per queue."""

from collections.abc import Callable, Iterable, Mapping

from scheduler.api.device_amounts import Amounts, add, claims_of, device_amounts
from scheduler.api.dra import ResourceClaim
from scheduler.api.job import Job
from scheduler.api.quantity import QuantityError
from scheduler.api.task import ALLOCATED_STATUSES


def held_devices(
    jobs: Iterable[Job], claims: Mapping[str, ResourceClaim], path: Callable[[str], Iterable[str]]
) -> dict[str, dict[str, str]]:
    """Returns queue -> amount of devices -> quantity, without queues that hold none. ``path``: a queue and its
    ancestors. Claims with malformed amounts are not counted."""
    counted: dict[str, dict[str, None]] = {}
    for job in jobs:
        for status in ALLOCATED_STATUSES:
            for task in job.of(status).values():
                if task.cls.spec.resource_claims:
                    for queue in path(job.queue):
                        counted.setdefault(queue, {}).update(dict.fromkeys(claims_of(task)))
    return {queue: _sum(keys, claims) for queue, keys in counted.items()}


def _sum(keys: Iterable[str], claims: Mapping[str, ResourceClaim]) -> dict[str, str]:
    total: Amounts = {}
    for key in keys:
        claim = claims.get(key)
        if claim is not None:
            try:
                add(total, device_amounts(claim.spec))
            except QuantityError:
                continue
    return {name: str(amount) for name, amount in total.items() if amount.nano}
