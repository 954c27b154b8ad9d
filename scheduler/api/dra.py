"""The objects of dynamic resource allocation (``resource.k8s.io/v1``): claims of Pods, and devices of drivers.

A ResourceClaim requests devices by DeviceClass and selectors. A ResourceSlice lists devices of one pool of one driver.
The status of a claim names its allocated devices; it is written before the Pod is bound. Amounts of capacity are text,
as in all wire structs.
"""

from typing import Any, Final

import msgspec

from scheduler.api.objects import KubeObject, NodeSelector, Quantity, Taint, Toleration, Wire

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
"""Values of ``allocationMode``."""
MAX_RESULTS: Final = 32
"""Limit of devices of one claim."""
MAX_CONSUMERS: Final = 256
"""Limit of entries of ``status.reservedFor``."""
MAX_ALTERNATIVES: Final = 8
"""Limit of entries of ``firstAvailable``."""


# --- requests ---
class CELSelector(Wire):
    expression: str = ""


class DeviceSelector(Wire):
    cel: CELSelector | None = None


class CapacityRequirements(Wire):
    requests: dict[str, Quantity] | None = None


class DeviceSubRequest(Wire):
    """An alternative of a request, or the only way to satisfy it (``exactly``)."""

    name: str = ""
    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    """Whether the claim gives access for administration. Only ``exactly`` has it."""
    tolerations: list[Toleration] | None = None
    capacity: CapacityRequirements | None = None


class DeviceRequest(Wire):
    name: str = ""
    exactly: DeviceSubRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Wire):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceConfiguration(Wire):
    """Parameters for a driver, passed on unread."""

    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


class DeviceClaim(Wire):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[DeviceConfiguration] | None = None


class ResourceClaimSpec(Wire):
    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


# --- allocations ---
class ConsumerReference(Wire):
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceResult(Wire):
    """An allocated device."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: list[Toleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] | None = None


class AllocatedConfiguration(Wire):
    source: str
    requests: list[str] | None = None
    opaque: dict[str, Any] | None = None


class DeviceResults(Wire):
    results: list[DeviceResult] | None = None
    config: list[AllocatedConfiguration] | None = None


class Allocation(Wire):
    devices: DeviceResults = msgspec.field(default_factory=DeviceResults)
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class DeviceCondition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class DeviceStatus(Wire):
    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[DeviceCondition] | None = None


class ResourceClaimStatus(Wire):
    allocation: Allocation | None = None
    reserved_for: list[ConsumerReference] | None = None
    devices: list[DeviceStatus] | None = None


class ResourceClaim(KubeObject):
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


class DeviceClassSpec(Wire):
    selectors: list[DeviceSelector] | None = None
    config: list[DeviceConfiguration] | None = None
    extended_resource_name: str | None = None


class DeviceClass(KubeObject):
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


# --- devices ---
class DeviceAttribute(Wire):
    """A value of one of these types; the others are None."""

    number: int | None = msgspec.field(default=None, name="int")
    truth: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRange(Wire):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityPolicy(Wire):
    """The amounts that claims may request of a shared device."""

    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: CapacityRange | None = None


class DeviceCapacity(Wire):
    value: Quantity = "0"
    request_policy: CapacityPolicy | None = None


class Counter(Wire):
    value: Quantity = "0"


class CounterSet(Wire):
    name: str = ""
    counters: dict[str, Counter] | None = None


class CounterConsumption(Wire):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class Device(Wire):
    name: str
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[CounterConsumption] | None = None
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: list[Taint] | None = None
    binds_to_node: bool = False
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool = False


class ResourcePool(Wire):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Wire):
    driver: str = ""
    pool: ResourcePool = msgspec.field(default_factory=ResourcePool)
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: list[Device] | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(KubeObject):
    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)


class ResourceClaimTemplate(KubeObject):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    """``metadata`` and ``spec`` of the claims made from it, copied unchanged."""
