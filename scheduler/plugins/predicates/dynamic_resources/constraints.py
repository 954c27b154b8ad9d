"""Constraints among the devices of one claim: the value of an attribute is equal on all, or distinct on each."""

from collections import Counter
from collections.abc import Sequence

from scheduler.api import dra
from scheduler.plugins.predicates.dynamic_resources.demand import Alternative
from scheduler.plugins.predicates.dynamic_resources.devices import Device


class Constraint:
    """The state of one constraint during a search."""

    def __init__(self, spec: dra.DeviceConstraint) -> None:
        self._requests: Sequence[str] = spec.requests or ()
        self._must_match = spec.match_attribute is not None
        self._attribute = spec.match_attribute or spec.distinct_attribute or ""
        self._values: Counter[tuple[str, object]] = Counter()

    def add(self, alternative: Alternative, device: Device) -> bool:
        """Adds a device to the chosen devices and returns True, unless this violates the constraint. A device without
        the attribute violates it."""
        if not alternative.listed_in(self._requests):
            return True
        value = device.attribute(self._attribute)
        if value is None or (self._values and (value in self._values) is not self._must_match):
            return False
        self._values[value] += 1
        return True

    def remove(self, alternative: Alternative, device: Device) -> None:
        """Undoes an ``add`` that returned True."""
        value = device.attribute(self._attribute) if alternative.listed_in(self._requests) else None
        if value is not None:
            self._values[value] -= 1
            if not self._values[value]:
                del self._values[value]
