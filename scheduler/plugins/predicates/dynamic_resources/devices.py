"""The devices of one ResourceSlice, with amounts as integers and the values that CEL expressions read.

Amounts are in billionths (nano) of their unit. Parsed slices are reused while the object is unchanged.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.api import dra
from scheduler.api.objects import NodeSelector, Quantity, Taint
from scheduler.api.pod_rules import NO_EXECUTE, NO_SCHEDULE
from scheduler.api.quantity import QuantityError, parse_amount
from scheduler.plugins.predicates.dynamic_resources.cel_analysis import ATTRIBUTES, DRIVER, SHARED, Read
from scheduler.plugins.predicates.dynamic_resources.cel_values import Domains, ExpressionError, quantity, version

PoolKey = tuple[str, str]
"""Driver and pool."""
DeviceId = tuple[str, str, str]
"""Driver, pool and device."""
CounterKey = tuple[str, str]
"""Counter set and counter, within one pool."""
Amounts = Mapping[str, int]
_BLOCKING: Final = (NO_SCHEDULE, NO_EXECUTE)


def nano(amount: Quantity | None) -> int:
    """A quantity in billionths; 0 for None. Raises QuantityError."""
    return 0 if amount is None else parse_amount(amount).nano


class CapacityDimension(msgspec.Struct, frozen=True):
    """One dimension of a device's capacity, with its request policy."""

    value: int
    default: int
    """Consumed by a request that does not name the dimension."""
    values: tuple[int, ...] = ()
    """The valid amounts in ascending order, if the policy lists any."""
    ranged: bool = False
    """Whether the policy has a valid range: ``minimum``, ``maximum`` and ``step``."""
    minimum: int = 0
    maximum: int | None = None
    step: int = 0
    """Amounts are rounded up to ``minimum`` plus a multiple of the step; 0: they are not rounded."""

    def consumed(self, requested: int | None) -> int | None:
        """The amount that a request consumes. ``requested``: None if the request does not name the dimension. Returns
        None if the policy does not allow the amount."""
        if requested is None:
            return self.default
        if self.ranged:
            amount = max(requested, self.minimum)
            if self.step:
                amount = self.minimum + -(-(amount - self.minimum) // self.step) * self.step
            return amount if self.maximum is None or amount <= self.maximum else None
        if self.values:
            return next((value for value in self.values if value >= requested), None)
        return requested


@dataclass(slots=True, eq=False)
class CelValues:
    """The values of a device that CEL expressions read, as the runtime is given them."""

    driver: str
    shared: bool
    attributes: Domains
    capacity: Domains
    _all: str = ""

    def key(self, reads: tuple[Read, ...] | None) -> Hashable:
        """A key that is equal for devices whose values for ``reads`` are equal. None: all values."""
        if reads is None:
            if not self._all:
                both = (self.attributes, self.capacity)
                domains = [sorted((domain, sorted(values.items())) for domain, values in one.items()) for one in both]
                self._all = repr((self.driver, self.shared, domains))
            return self._all
        return tuple(map(self._value, reads))

    def _value(self, read: Read) -> Hashable:
        variable, domain, name = read
        if variable == DRIVER:
            return self.driver
        if variable == SHARED:
            return self.shared
        value = (self.attributes if variable == ATTRIBUTES else self.capacity).get(domain, {}).get(name)
        return value.__class__, value  # True equals 1


@dataclass(slots=True, eq=False)
class SlicedDevice:
    """One device. Compared by identity."""

    spec: dra.Device
    driver: str
    pool: str
    slice: dra.ResourceSlice
    capacity: Mapping[str, CapacityDimension]
    counters: Mapping[CounterKey, int]
    """The amounts of its pool's counters that the device uses."""
    taints: tuple[Taint, ...]
    """The taints with effect NoSchedule or NoExecute."""
    _values: "CelValues | None" = None

    @property
    def id(self) -> DeviceId:
        return (self.driver, self.pool, self.spec.name)

    @property
    def pool_key(self) -> PoolKey:
        return (self.driver, self.pool)

    @property
    def node_name(self) -> str:
        """The node to which the device belongs, or ""."""
        return self.spec.node_name if self.slice.spec.per_device_node_selection else self.slice.spec.node_name

    @property
    def node_selector(self) -> NodeSelector | None:
        """The selector of the nodes that can use the device, if it has one."""
        return self.spec.node_selector if self.slice.spec.per_device_node_selection else self.slice.spec.node_selector

    @property
    def shared(self) -> bool:
        """Whether several claims may share the device."""
        return self.spec.allow_multiple_allocations

    @property
    def values(self) -> "CelValues":
        """The values that CEL expressions read. Raises ExpressionError if one is malformed."""
        if self._values is None:
            self._values = CelValues(self.driver, self.shared, self._attributes(), self._capacities())
        return self._values

    def attribute(self, name: str) -> tuple[str, object] | None:
        """Type and value of an attribute, given its full name ``domain/name``; None if the device does not have it."""
        attributes = self.spec.attributes or {}
        found = attributes.get(name)
        if found is None:
            domain, _, bare = name.partition("/")
            found = attributes.get(bare) if domain == self.driver else None
        if found is None:
            return None
        values = (("int", found.number), ("bool", found.truth), ("string", found.string), ("version", found.version))
        return next(((kind, value) for kind, value in values if value is not None), None)

    def _attributes(self) -> Domains:
        domains: Domains = {}
        for name, attribute in (self.spec.attributes or {}).items():
            domain, bare = self._qualified(name)
            domains.setdefault(domain, {})[bare] = _cel_value(name, attribute)
        return domains

    def _capacities(self) -> Domains:
        domains: Domains = {}
        for name, capacity in (self.spec.capacity or {}).items():
            domain, bare = self._qualified(name)
            domains.setdefault(domain, {})[bare] = quantity(capacity.value)
        return domains

    def _qualified(self, name: str) -> tuple[str, str]:
        domain, slash, bare = name.partition("/")
        return (domain, bare) if slash else (self.driver, name)


def _cel_value(name: str, attribute: dra.DeviceAttribute) -> Any:
    """Raises ExpressionError for a value that CEL does not support."""
    if attribute.version is not None:
        try:
            return version(attribute.version)
        except ValueError as error:
            raise ExpressionError(f"attribute {name}: {error}") from None
    for value in (attribute.number, attribute.truth, attribute.string):
        if value is not None:
            return value
    raise ExpressionError(f"attribute {name}: unsupported attribute value")


class Slice:
    """One parsed ResourceSlice."""

    def __init__(self, obj: dra.ResourceSlice) -> None:
        self._object = obj
        self.spec = obj.spec
        self.name = obj.metadata.name
        self.problems: list[tuple[str, str]] = []
        """(field, problem) of each device or counter that is left out."""
        self.devices: tuple[SlicedDevice, ...] = tuple(self._devices())
        self.counters: dict[CounterKey, int] = dict(self._counters())

    @property
    def pool_key(self) -> PoolKey:
        return (self.spec.driver, self.spec.pool.name)

    def _devices(self) -> Iterator[SlicedDevice]:
        for i, spec in enumerate(self.spec.devices or ()):
            try:
                yield SlicedDevice(
                    spec,
                    self.spec.driver,
                    self.spec.pool.name,
                    self._object,
                    {name: _capacity(entry) for name, entry in (spec.capacity or {}).items()},
                    {
                        (consumption.counter_set, name): nano(counter.value)
                        for consumption in spec.consumes_counters or ()
                        for name, counter in (consumption.counters or {}).items()
                    },
                    tuple(taint for taint in spec.taints or () if taint.effect in _BLOCKING),
                )
            except QuantityError as error:
                self.problems.append((f"spec.devices[{i}]", f"device {spec.name}: {error}"))

    def _counters(self) -> Iterator[tuple[CounterKey, int]]:
        for i, counter_set in enumerate(self.spec.shared_counters or ()):
            for name, counter in (counter_set.counters or {}).items():
                try:
                    yield (counter_set.name, name), nano(counter.value)
                except QuantityError as error:
                    self.problems.append((f"spec.sharedCounters[{i}].counters[{name}]", str(error)))


def _capacity(entry: dra.DeviceCapacity) -> CapacityDimension:
    value, policy = nano(entry.value), entry.request_policy
    if policy is None:
        return CapacityDimension(value, value)
    default = value if policy.default is None else nano(policy.default)
    bounds = policy.valid_range
    if bounds is None:
        return CapacityDimension(value, default, tuple(sorted(nano(v) for v in policy.valid_values or ())))
    maximum = None if bounds.max is None else nano(bounds.max)
    return CapacityDimension(value, default, (), True, nano(bounds.min), maximum, max(nano(bounds.step), 0))
