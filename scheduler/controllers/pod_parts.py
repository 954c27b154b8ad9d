"""What the store keeps of Pods: a cluster can have hundreds of thousands, but of few shapes.

No controller reads the environment, what only decides where a Pod may run, what a resize has reached, or any condition
but ``DisruptionTarget``. Equal containers are in memory once.
"""

from sys import intern
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api.objects import Container, ContainerStatus, Pod
from scheduler.api.task import without_variables
from scheduler.controllers.evictions import DISRUPTION_TARGET

MAX_KNOWN: Final = 16_384
"""Limit of the known lists of containers. Above it, all are forgotten: later Pods share with each other."""
_encode: Final = msgspec.json.Encoder().encode


class PodParts:
    """Belongs to one thread."""

    def __init__(self) -> None:
        self._containers: dict[bytes, list[Container]] = {}
        """Containers as JSON -> the containers, which must not be changed."""

    def __len__(self) -> int:
        """Number of known lists of containers."""
        return len(self._containers)

    def of(self, pod: Pod) -> Pod:
        """Returns a Pod with what controllers read of it."""
        meta, spec, status = pod.metadata, without_variables(pod.spec), pod.status
        meta.namespace = intern(meta.namespace)
        for owner in meta.owner_references or ():
            owner.api_version, owner.kind = intern(owner.api_version), intern(owner.kind)
        spec = replace(
            spec,
            node_name=intern(spec.node_name),
            containers=self._shared(spec.containers),
            affinity=None,
            tolerations=None,
            topology_spread_constraints=None,
        )
        disruptions = [condition for condition in status.conditions or () if condition.type == DISRUPTION_TARGET]
        status = replace(
            status,
            conditions=disruptions or None,
            allocated_resources=None,
            resources=None,
            container_statuses=_without_amounts(status.container_statuses),
            init_container_statuses=_without_amounts(status.init_container_statuses),
        )
        return replace(pod, spec=spec, status=status)

    def _shared(self, containers: list[Container]) -> list[Container]:
        if len(self._containers) >= MAX_KNOWN:
            self._containers.clear()
        return self._containers.setdefault(_encode(containers), containers)


def _without_amounts(statuses: list[ContainerStatus] | None) -> list[ContainerStatus] | None:
    if statuses is None:
        return None
    return [
        each
        if each.resources is None and each.allocated_resources is None
        else replace(each, resources=None, allocated_resources=None)
        for each in statuses
    ]
