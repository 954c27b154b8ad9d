"""The devices of one ResourceSlice, their amounts as whole numbers, and what CEL expressions say of them.

Amounts are in thousand-millionths of their unit. What a slice says is kept for as long as the object is the same, so an
expression is asked of a device once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.api import dra
from scheduler.api.amount import parse_amount
from scheduler.api.objects import NodeSelector, Quantity, Taint
from scheduler.api.quantity import QuantityError
from scheduler.api.tolerations import NO_EXECUTE, NO_SCHEDULE
from scheduler.plugins.predicates.dynamic_resources.cel_values import quantity, version
from scheduler.plugins.predicates.dynamic_resources.expressions import Domains, ExpressionError, compiled

PoolKey = tuple[str, str]
"""Driver and pool."""
DeviceId = tuple[str, str, str]
"""Driver, pool and device."""
CounterKey = tuple[str, str]
"""Counter set and counter, within one pool."""
Amounts = Mapping[str, int]
MOST_VERDICTS: Final = 256
"""Expressions of which a device's answer is kept."""
_BLOCKING: Final = (NO_SCHEDULE, NO_EXECUTE)


def nano(amount: Quantity | None) -> int:
    """A quantity in thousand-millionths; 0 if it is not given. Raises QuantityError."""
    return 0 if amount is None else parse_amount(amount).nano


@dataclass(frozen=True, slots=True)
class Capacity:
    """One dimension of a device's capacity, and which amounts of it may be asked for."""

    value: int
    default: int
    """What is consumed where nothing is asked for."""
    values: tuple[int, ...] = ()
    """If any: only these, the smallest first."""
    ranged: bool = False
    least: int = 0
    most: int | None = None
    step: int = 0
    """If not 0: ``least`` plus a multiple of it."""

    def consumed(self, asked: int | None) -> int | None:
        """What an amount asked for (None: nothing said) consumes; None: it may not be asked for."""
        if asked is None:
            return self.default
        if self.ranged:
            amount = max(asked, self.least)
            if self.step:
                amount = self.least + -(-(amount - self.least) // self.step) * self.step
            return amount if self.most is None or amount <= self.most else None
        if self.values:
            return next((value for value in self.values if value >= asked), None)
        return asked


@dataclass(slots=True, eq=False)
class Device:
    """One device; told apart by identity."""

    spec: dra.Device
    driver: str
    pool: str
    slice: dra.ResourceSlice
    capacity: Mapping[str, Capacity]
    counters: Mapping[CounterKey, int]
    """What it takes of its pool's counters."""
    taints: tuple[Taint, ...]
    """Those that keep claims away."""
    _verdicts: dict[str, bool | ExpressionError] = field(default_factory=dict)
    _values: tuple[Domains, Domains] | None = None

    @property
    def id(self) -> DeviceId:
        return (self.driver, self.pool, self.spec.name)

    @property
    def pool_key(self) -> PoolKey:
        return (self.driver, self.pool)

    @property
    def node_name(self) -> str:
        """The one node it is of, or ""."""
        return self.spec.node_name if self.slice.spec.per_device_node_selection else self.slice.spec.node_name

    @property
    def node_selector(self) -> NodeSelector | None:
        """The nodes it is for, where that is told by a selector."""
        return self.spec.node_selector if self.slice.spec.per_device_node_selection else self.slice.spec.node_selector

    @property
    def shared(self) -> bool:
        """Several claims may have parts of it."""
        return self.spec.allow_multiple_allocations

    def selected(self, expression: str) -> bool:
        """Whether a CEL expression selects the device. Raises ExpressionError."""
        verdict = self._verdicts.get(expression)
        if verdict is None:
            if len(self._verdicts) >= MOST_VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[expression] = self._ask(expression)
        if isinstance(verdict, ExpressionError):
            raise verdict
        return verdict

    def _ask(self, expression: str) -> bool | ExpressionError:
        program = compiled(expression)
        if isinstance(program, ExpressionError):
            return program
        try:
            if self._values is None:
                self._values = (self._attributes(), self._capacities())
            return program.selects(self.driver, self.shared, *self._values)
        except ExpressionError as error:
            return error

    def attribute(self, name: str) -> tuple[str, object] | None:
        """Kind and value of an attribute by its full name, ``domain/name``; None: the device has none."""
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
    """Raises ExpressionError for a value that expressions cannot be asked of."""
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
    """One ResourceSlice as it was read."""

    def __init__(self, obj: dra.ResourceSlice) -> None:
        self._object = obj
        self.spec = obj.spec
        self.name = obj.metadata.name
        self.problems: list[tuple[str, str]] = []
        """(field, what is wrong): the device or counter set is left out."""
        self.devices: tuple[Device, ...] = tuple(self._devices())
        self.counters: dict[CounterKey, int] = dict(self._counters())

    @property
    def pool_key(self) -> PoolKey:
        return (self.spec.driver, self.spec.pool.name)

    def _devices(self) -> Iterator[Device]:
        for i, spec in enumerate(self.spec.devices or ()):
            try:
                yield Device(
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


def _capacity(entry: dra.DeviceCapacity) -> Capacity:
    value, policy = nano(entry.value), entry.request_policy
    if policy is None:
        return Capacity(value, value)
    default = value if policy.default is None else nano(policy.default)
    bounds = policy.valid_range
    if bounds is None:
        return Capacity(value, default, tuple(sorted(nano(v) for v in policy.valid_values or ())))
    most = None if bounds.max is None else nano(bounds.max)
    return Capacity(value, default, (), True, nano(bounds.min), most, max(nano(bounds.step), 0))
