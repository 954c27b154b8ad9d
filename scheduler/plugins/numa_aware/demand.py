"""The NUMA requirements of a Pod: a policy, and exclusive cpus if the Pod is Guaranteed."""

from typing import Final

import msgspec

from scheduler.api.names import CPU, NUMA_TOPOLOGY_POLICY
from scheduler.api.objects import Container
from scheduler.api.pod_amounts import Qos, qos_of
from scheduler.api.quantity import parse_quantity
from scheduler.api.task import TaskClass

RESTRICTED: Final = "restricted"
SINGLE: Final = "single-numa-node"


class CpuDemand(msgspec.Struct, frozen=True):
    """The NUMA requirements of one class of Pods."""

    policy: str
    """The topology policy, or ""."""
    containers: tuple[tuple[str, int], ...]
    """Name and number of exclusive cpus of each container; 0 for a container that shares cpus."""


def demand_of(cls: TaskClass) -> CpuDemand | None:
    """The requirements of a class; None for Pods that are not Guaranteed, which have no exclusive cpus."""
    if qos_of(cls.spec) is not Qos.GUARANTEED:
        return None
    policy = cls.annotations.get(NUMA_TOPOLOGY_POLICY, "")
    return CpuDemand("" if policy == "none" else policy, tuple((c.name, _whole_cpus(c)) for c in cls.spec.containers))


def _whole_cpus(container: Container) -> int:
    limits = (container.resources and container.resources.limits) or {}
    milli = parse_quantity(limits.get(CPU, 0), 1000)
    return 0 if milli % 1000 else milli // 1000
