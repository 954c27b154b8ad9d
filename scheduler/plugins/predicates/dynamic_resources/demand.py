"""What a claim asks for, read once: requests with their alternatives, and constraints among the devices chosen.

A request names a DeviceClass, whose selectors come before its own. What cannot be read, or names a class that does not
exist, is a DemandError in kube-scheduler's words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from scheduler.api import dra
from scheduler.api.quantity import QuantityError
from scheduler.plugins.predicates.dynamic_resources.devices import Amounts, nano


class DemandError(ValueError):
    """A claim cannot be allocated anywhere as it is."""


@dataclass(frozen=True, eq=False)
class Ask:
    """One way to satisfy a request: so many devices, or all, that some selectors select."""

    spec: dra.DeviceSubRequest
    request: str
    """Name of the request."""
    name: str
    """The same, or ``request/alternative``: how results and constraints call it."""
    choice: int
    """Place among the alternatives, -1 if there is no choice."""
    selectors: tuple[tuple[str, str], ...]
    """(whose and which selector it is, CEL expression)."""
    capacity: Amounts

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        return tuple(expression for _, expression in self.selectors)

    @property
    def everything(self) -> bool:
        return self.spec.allocation_mode == dra.ALL

    @property
    def device_class(self) -> str:
        return self.spec.device_class_name

    def concerned(self, names: Sequence[str]) -> bool:
        """Whether a list of requests, as constraints and configurations have it, means this one; an empty one does."""
        return not names or self.request in names or self.name in names


@dataclass(frozen=True, eq=False)
class Demand:
    """What one claim asks for."""

    title: str
    """How messages call the claim."""
    requests: tuple[tuple[Ask, ...], ...]
    """Each by its alternatives, the preferred one first."""
    constraints: tuple[dra.DeviceConstraint, ...]
    config: tuple[dra.DeviceConfiguration, ...]

    def asks(self) -> Iterator[Ask]:
        for alternatives in self.requests:
            yield from alternatives

    @cached_property
    def has_choice(self) -> bool:
        return any(ask.choice >= 0 for ask in self.asks())


def read_demand(title: str, spec: dra.ResourceClaimSpec, classes: Mapping[str, dra.DeviceClass]) -> Demand:
    """The demand of a claim. Raises DemandError."""
    devices = spec.devices
    requests: list[tuple[Ask, ...]] = []
    for request in devices.requests or ():
        where = f"claim {title}, request {request.name}"
        if request.exactly is not None:
            requests.append((_ask(where, title, request.name, request.name, -1, request.exactly, classes),))
        elif request.first_available:
            requests.append(
                tuple(
                    _ask(where, title, request.name, f"{request.name}/{sub.name}", i, sub, classes)
                    for i, sub in enumerate(request.first_available)
                )
            )
        else:
            raise DemandError(f"resource {where}: unknown request type")
    for i, constraint in enumerate(devices.constraints or ()):
        if constraint.match_attribute is None and constraint.distinct_attribute is None:
            raise DemandError(f"claim {title}, constraint #{i}: empty constraint (unsupported constraint type?)")
    return Demand(title, tuple(requests), tuple(devices.constraints or ()), tuple(devices.config or ()))


def _ask(
    where: str,
    title: str,
    request: str,
    name: str,
    choice: int,
    spec: dra.DeviceSubRequest,
    classes: Mapping[str, dra.DeviceClass],
) -> Ask:
    if not spec.device_class_name:
        raise DemandError(f"request {name}: unsupported request type")
    device_class = classes.get(spec.device_class_name)
    if device_class is None:
        raise DemandError(f"request {name}: device class {spec.device_class_name} does not exist")
    if spec.allocation_mode not in (dra.EXACT_COUNT, dra.ALL):
        raise DemandError(f"{where}: unsupported count mode {spec.allocation_mode[:64]}")
    if not spec.count > 0 and spec.allocation_mode == dra.EXACT_COUNT:
        raise DemandError(f"{where}: asked for {spec.count} devices")
    selectors = [
        *_selectors(f"class {spec.device_class_name}", f"class {spec.device_class_name}", device_class.spec.selectors),
        *_selectors(f"claim {title}", where, spec.selectors),
    ]
    try:
        asked = (spec.capacity.requests if spec.capacity else None) or {}
        capacity = {dimension: nano(amount) for dimension, amount in asked.items()}
    except QuantityError as error:
        raise DemandError(f"{where}: capacity: {error}") from None
    return Ask(spec, request, name, choice, tuple(selectors), capacity)


def _selectors(owner: str, where: str, selectors: Sequence[dra.DeviceSelector] | None) -> Iterator[tuple[str, str]]:
    for i, selector in enumerate(selectors or ()):
        if selector.cel is None:
            raise DemandError(f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)")
        yield f"{owner}: selector #{i}", selector.cel.expression
