"""The demand of a claim: its requests with their alternatives, and the constraints among the chosen devices.

A request names a DeviceClass, whose selectors precede its own. An invalid request, or one whose class does not exist,
raises a DemandError with kube-scheduler's message.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from scheduler.api import dra
from scheduler.api.quantity import QuantityError
from scheduler.plugins.predicates.dynamic_resources.devices import Amounts, nano


class DemandError(ValueError):
    """The claim is invalid, so that no node can allocate it."""


@dataclass(frozen=True, eq=False)
class Alternative:
    """One way to satisfy a request: a number of devices, or all devices, that the selectors select."""

    spec: dra.DeviceSubRequest
    request: str
    """The name of the request."""
    name: str
    """The name in results and constraints: ``request``, or ``request/subrequest``."""
    choice: int
    """Index among the alternatives; -1 if the request has no alternatives."""
    selectors: tuple[tuple[str, str], ...]
    """(origin of the selector for messages, CEL expression)."""
    capacity: Amounts

    @cached_property
    def expressions(self) -> tuple[str, ...]:
        return tuple(expression for _, expression in self.selectors)

    @property
    def all_devices(self) -> bool:
        return self.spec.allocation_mode == dra.ALL

    @property
    def device_class(self) -> str:
        return self.spec.device_class_name

    def listed_in(self, names: Sequence[str]) -> bool:
        """Whether a list of request names in a constraint or configuration includes this one. An empty list does."""
        return not names or self.request in names or self.name in names


@dataclass(frozen=True, eq=False)
class ClaimDemand:
    """The requests and constraints of one claim."""

    title: str
    """The name of the claim in messages."""
    requests: tuple[tuple[Alternative, ...], ...]
    """The alternatives of each request, the preferred one first."""
    constraints: tuple[dra.DeviceConstraint, ...]
    config: tuple[dra.DeviceConfiguration, ...]

    def alternatives(self) -> Iterator[Alternative]:
        for alternatives in self.requests:
            yield from alternatives

    def least_numbers(self) -> Iterator[tuple[Alternative, int]]:
        """Yields the last alternative of each request for a number of devices, and this number."""
        for *_, last in self.requests:
            if not last.all_devices:
                yield last, last.spec.count

    @cached_property
    def has_choice(self) -> bool:
        return any(alternative.choice >= 0 for alternative in self.alternatives())


def read_demand(title: str, spec: dra.ResourceClaimSpec, classes: Mapping[str, dra.DeviceClass]) -> ClaimDemand:
    """The demand of a claim. Raises DemandError."""
    devices = spec.devices
    requests: list[tuple[Alternative, ...]] = []
    for request in devices.requests or ():
        where = f"claim {title}, request {request.name}"
        subs = enumerate(request.first_available or ())
        listed = [(f"{request.name}/{sub.name}", i, sub) for i, sub in subs]
        if request.exactly is not None:
            listed = [(request.name, -1, request.exactly)]
        if not listed:
            raise DemandError(f"resource {where}: unknown request type")
        requests.append(tuple(_alternative(title, request.name, classes, *one) for one in listed))
    for i, constraint in enumerate(devices.constraints or ()):
        if constraint.match_attribute is None and constraint.distinct_attribute is None:
            raise DemandError(f"claim {title}, constraint #{i}: empty constraint (unsupported constraint type?)")
    return ClaimDemand(title, tuple(requests), tuple(devices.constraints or ()), tuple(devices.config or ()))


def _alternative(
    title: str,
    request: str,
    classes: Mapping[str, dra.DeviceClass],
    name: str,
    choice: int,
    spec: dra.DeviceSubRequest,
) -> Alternative:
    where = f"claim {title}, request {request}"
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
        requested = (spec.capacity.requests if spec.capacity else None) or {}
        capacity = {dimension: nano(amount) for dimension, amount in requested.items()}
    except QuantityError as error:
        raise DemandError(f"{where}: capacity: {error}") from None
    return Alternative(spec, request, name, choice, tuple(selectors), capacity)


def _selectors(owner: str, where: str, selectors: Sequence[dra.DeviceSelector] | None) -> Iterator[tuple[str, str]]:
    for i, selector in enumerate(selectors or ()):
        if selector.cel is None:
            raise DemandError(f"{where}, selector #{i}: CEL expression empty (unsupported selector type?)")
        yield f"{owner}: selector #{i}", selector.cel.expression
