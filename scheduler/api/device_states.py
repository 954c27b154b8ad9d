"""The state of single devices on nodes, as plugins report it to tools."""

from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from scheduler.api.task import Task


class DeviceState(Enum):
    FREE = "Free"
    NETWORK_UNHEALTHY = "NetworkUnhealthy"
    """Free, but not for jobs of several Pods."""
    SUB_HEALTHY = "SubHealthy"
    """Free, with a fault that keeps some jobs from using the node."""
    USED = "Used"
    TERMINATING = "Terminating"
    """Held by Pods that are being deleted."""
    BINDING = "Binding"
    """Assigned by the session; the Pod is not bound yet."""
    PIPELINED = "Pipelined"
    """Reserved for a Pod that waits until the device, or another resource of the node, is free."""
    DIVIDED = "Divided"
    """Parts of it are given to Pods."""
    UNHEALTHY = "Unhealthy"
    RECOVERING = "Recovering"
    UNKNOWN = "Unknown"
    """Given to no Pod: it is not listed as free, or may be held by a Pod whose devices are uncertain."""


class Availability(Enum):
    """The states of devices, summed up for metrics."""

    FREE = "free"
    DEGRADED = "degraded"
    """Free, with a fault that keeps some jobs from using it."""
    ALLOCATED = "allocated"
    """Held by a Pod, whole or in parts, or assigned to one."""
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Device(NamedTuple):
    """One device of a node."""

    node: str
    resource: str
    name: str
    state: DeviceState
    pods: tuple[str, ...]
    """``namespace/name`` of the Pods that hold it, and then of those that get it."""
    group: int = 0
    """Number of its group among those of the node."""
    grouped_by: str = ""
    """The kind of group, such as ``HCCS ring``; "" if the devices of the node have no groups."""
    note: str = ""
    """The problem of the node as a whole, or ""."""
    reported: float = 0.0
    """Unix time of the report that gives the state of the node's devices; 0 if unknown."""


IS_UNHEALTHY: Final = "is unhealthy"
"""The problem of a device that its device plugin reports as unhealthy."""


class DeviceFault(NamedTuple):
    """A device that does not work, and a Pod that uses it."""

    node: str
    device: str
    """The name of the device on its node, such as ``Ascend910-3``."""
    task: "Task"
    problem: str
    """What is wrong, after the name of the device: ``is unhealthy``."""

    @property
    def text(self) -> str:
        return f"{self.device} of node {self.node} {self.problem} (Pod {self.task.name})"
