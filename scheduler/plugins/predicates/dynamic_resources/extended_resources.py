"""Extended resources that a DeviceClass stands for (``spec.extendedResourceName``).

kube-scheduler creates a ResourceClaim for a Pod that requests such a resource. This scheduler assigns devices to
ResourceClaims that exist only, so that a Pod which requests the resource finds it only on nodes that report it.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.api import dra
from scheduler.api.names import DEVICE_CLASS_RESOURCE_PREFIX
from scheduler.api.node import Nodes
from scheduler.api.resource import Dimensions
from scheduler.api.task import TaskClass


class ExtendedResources:
    """The resources of one session that a DeviceClass stands for, and that no node reports."""

    def __init__(self, classes: Mapping[str, dra.DeviceClass], dimensions: Dimensions, nodes: Nodes) -> None:
        names: dict[str, str] = {}
        for name, device_class in sorted(classes.items()):
            extended = device_class.spec.extended_resource_name
            for resource in (*([extended] if extended else ()), f"{DEVICE_CLASS_RESOURCE_PREFIX}{name}"):
                names.setdefault(resource, name)
        positions = {resource: dimensions.find(resource) for resource in names}
        self._classes = {
            position: (resource, names[resource])
            for resource, position in positions.items()
            if position is not None and not np.any(nodes.allocatable[position] > 0)
        }
        """Position in resource vectors -> (the resource, its DeviceClass)."""

    def refusal(self, cls: TaskClass) -> str:
        """Why no node takes the Pods of a class, which request such a resource in any container; "": they do not."""
        for position, (resource, device_class) in self._classes.items():
            if position < len(cls.request) and cls.request[position] > 0:
                return (
                    f"no node reports {resource}, for which DeviceClass {device_class} stands; its devices are "
                    "assigned to ResourceClaims, which the Pod has to name in spec.resourceClaims"
                )
        return ""
