"""The state of single devices on nodes, as plugins report it to tools."""

from enum import Enum
from typing import NamedTuple


class DeviceState(Enum):
    FREE = "Free"
    NETWORK_UNHEALTHY = "NetworkUnhealthy"
    """Free, but not for jobs of several Pods."""
    SUB_HEALTHY = "SubHealthy"
    """Free, with a fault because of which some jobs do not use the node."""
    USED = "Used"
    TERMINATING = "Terminating"
    """Held by Pods that are being deleted."""
    BINDING = "Binding"
    """Assigned by the session; the Pod is not bound yet."""
    PIPELINED = "Pipelined"
    """Promised to a Pod that waits until the device, or another resource of the node, is free."""
    DIVIDED = "Divided"
    """Parts of it are given to Pods."""
    UNHEALTHY = "Unhealthy"
    RECOVERING = "Recovering"
    UNKNOWN = "Unknown"
    """Given to no Pod: it is not listed as free, or may be held by a Pod whose devices are uncertain."""


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
    """What a group is, such as ``HCCS ring``; "" if the devices of the node have no groups."""
    note: str = ""
    """What is wrong with the node as a whole, or ""."""
    reported: float = 0.0
    """Unix time of the report from which the state of the node's devices is known; 0 if unknown."""
