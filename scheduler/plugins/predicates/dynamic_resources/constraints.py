"""Constraints among the devices of one claim: one attribute alike on all of them, or different on each."""

from collections import Counter
from collections.abc import Sequence

from scheduler.api import dra
from scheduler.plugins.predicates.dynamic_resources.demand import Ask
from scheduler.plugins.predicates.dynamic_resources.devices import Device


class Constraint:
    """One constraint while devices are being chosen."""

    def __init__(self, spec: dra.DeviceConstraint) -> None:
        self._requests: Sequence[str] = spec.requests or ()
        self._alike = spec.match_attribute is not None
        self._attribute = spec.match_attribute or spec.distinct_attribute or ""
        self._values: Counter[tuple[str, object]] = Counter()

    def add(self, ask: Ask, device: Device) -> bool:
        """Whether the device may join those chosen; if so, it has. A device without the attribute may not."""
        if not ask.concerned(self._requests):
            return True
        value = device.attribute(self._attribute)
        if value is None or (self._values and (value in self._values) is not self._alike):
            return False
        self._values[value] += 1
        return True

    def remove(self, ask: Ask, device: Device) -> None:
        """Undo an ``add`` that said yes."""
        value = device.attribute(self._attribute) if ask.concerned(self._requests) else None
        if value is not None:
            self._values[value] -= 1
            if not self._values[value]:
                del self._values[value]
