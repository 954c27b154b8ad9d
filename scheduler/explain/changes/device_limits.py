"""A larger limit of a queue on devices that Pods claim."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from scheduler.api.device_amounts import device_class_of
from scheduler.api.kinds import QUEUE
from scheduler.api.reasons import Shortage
from scheduler.api.written_amounts import quantity, unit_of, units
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence

_SPARE: Final = 4


def raise_device_limit(evidence: Evidence) -> Iterator[Plan]:
    """Let the queue, and those above it, have more devices of a class, or more of their capacity."""
    over = [s for s in evidence.shortages("Queue") if device_class_of(s.resource)]
    number = 1 if evidence.job.waiting_for_queue else max(len(evidence.wanted), 1)
    adjustments = []
    for shortage in over:
        guess = units(shortage.resource, shortage.asked * number - shortage.free)
        change, what = partial(_with_limit, shortage), f"{shortage.name} {shortage.resource}"
        adjustments.append(Adjustment(ChangeKind.DEVICE_QUOTA, guess, guess * _SPARE, change, what))
    if adjustments:
        yield tuple(adjustments)


def _with_limit(shortage: Shortage, degree: int) -> Step:
    queue, resource = shortage.name, shortage.resource
    then = quantity(resource, shortage.limit + degree * unit_of(resource))
    text = f"raise queue {queue}'s capability {resource} from {quantity(resource, shortage.limit)} to {then}"

    def raised(raw: Raw) -> Raw:
        raw["spec"]["capability"] = {**(raw["spec"].get("capability") or {}), resource: then}
        return raw

    return Step(text, (Edit(QUEUE, "", queue, raised),))
