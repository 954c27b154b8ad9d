"""Nodes and Pods with only the fields that the simulated components read, the names in them apart from those in
``api.names``, and the writes that they decide on."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from scheduler.api import kinds
from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject, ObjectMeta, ResourceList, Wire

FAMILY: Final = "playground.volcano-py/family"
"""Label of a simulated Node: its family of chips."""
PLUGIN_FAMILY: Final = "playground.volcano-py/device-plugin"
"""Label of a Node with a real kubelet and a simulated device plugin: its family of chips."""
INDEX: Final = "playground.volcano-py/index"
"""Annotation of a simulated Node: its number, from which its addresses follow."""
VNPU: Final = "playground.volcano-py/vnpu"
"""Annotation of a simulated Node: how its chips are divided, see ``Division``."""
FAULTS: Final = "playground.volcano-py/faults"
"""Annotation of a simulated Node: its faults, see ``faults``. A change takes effect at once."""
RUNS_FOR: Final = "playground.volcano-py/runs-for"
"""Annotation of a Pod: how long it runs, such as ``90s`` or ``5m``. Without it, a Pod runs until it is deleted."""
EXIT_CODE: Final = "playground.volcano-py/exit-code"
"""Annotation of a Pod: the exit code of its containers when it ends; 0 without it."""
CREATED: Final = "playground.volcano-py/created"
"""Label of the ConfigMaps of the simulated ClusterD."""

KUBELET_DEVICES: Final = "huawei.com/kltDev"
"""Pod annotation: the devices that kubelet assigned, which need not be those that are mounted."""
MOUNTED: Final = "playground.volcano-py/mounted"
"""Annotation of the Pod whose annotation the device plugin followed: the devices that the kubelet assigned, and those
that were mounted for them, if these are others: ``Ascend910-0,Ascend910-1=Ascend910-5,Ascend910-4``. It is removed when
the Pod that has the devices is known."""
CONSUMED: Final = "18446744073709551615"
"""The ``predicate-time`` of a Pod whose chips are mounted."""
SWAPPED: Final = "DevicesOfAnotherPod"
"""Reason of the Event about a Pod that got the devices of another one."""
DEVICE_INFO_LABEL: Final = "mx-consumer-cim"
CLUSTER_INFO_LABEL: Final = "mx-consumer-volcano"
NODE_INFO_PREFIX: Final = "mindx-dl-nodeinfo-"
SWITCH_INFO_PREFIX: Final = "mindx-dl-switchinfo-"
"""``status.reason`` of a Pod that the kubelet did not admit because of its devices."""


Json = dict[str, Any]


class Address(Wire):
    type: str = ""
    address: str = ""


class Condition(Wire):
    type: str = ""
    status: str = ""


class NodeStatus(Wire):
    allocatable: ResourceList | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None


class SimulatedNode(KubeObject):
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Resources(Wire):
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class Container(Wire):
    name: str = ""
    image: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(Wire):
    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None


class PodStatus(Wire):
    phase: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    start_time: str | None = None


class SimulatedPod(KubeObject):
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")


NODE = kinds.NODE.decoded_as(SimulatedNode)
POD = kinds.POD.decoded_as(SimulatedPod)
LEASE = Kind("Lease", "coordination.k8s.io/v1", "leases", True)


def whole_number(text: str) -> int | None:
    """The number that a text consists of; None if it is not 1 to 20 ASCII digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else None


def annotations_of(obj: KubeObject) -> dict[str, str]:
    return obj.metadata.annotations or {}


class Put(msgspec.Struct, frozen=True):
    """Creates an object, or changes it by a JSON merge patch to have this content."""

    kind: Kind
    manifest: Json


class Patch(msgspec.Struct, frozen=True):
    """Changes an object by a JSON merge patch. An object that is gone counts as done."""

    kind: Kind
    metadata: ObjectMeta
    body: Json
    subresource: Literal["", "status"] = ""


class Remove(msgspec.Struct, frozen=True):
    """Deletes an object without grace period. An object that is gone counts as done."""

    kind: Kind
    namespace: str
    name: str
    uid: str = ""


class Warn(msgspec.Struct, frozen=True):
    """Records a Warning Event."""

    kind: Kind
    metadata: ObjectMeta
    reason: str
    message: str


Write = Put | Patch | Remove | Warn


@dataclass(slots=True)
class Step:
    """What a node does next."""

    writes: list[Write] = field(default_factory=list)
    """The writes, in this order; if one fails, those after it are left out."""
    news: list[str] = field(default_factory=list)
    """What happened, for people."""
    after: float | None = None
    """Decide again after so many seconds, even if nothing changes."""
