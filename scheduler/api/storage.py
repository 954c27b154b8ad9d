"""Storage objects as typed structs: claims, volumes, storage classes, CSI drivers and their state on nodes.

The structs have only the fields that the program uses, as in ``objects``.
"""

import msgspec

from scheduler.api.objects import (
    InTreeSources,
    KubeObject,
    LabelSelector,
    NodeSelector,
    Quantity,
    ResourceList,
    ResourceRequirements,
    Wire,
)


class ClaimSpec(Wire):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    resources: ResourceRequirements | None = None
    selector: LabelSelector | None = None


class ClaimStatus(Wire):
    phase: str = ""


class PersistentVolumeClaim(KubeObject):
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: ClaimStatus = msgspec.field(default_factory=ClaimStatus)


class VolumeNodeAffinity(Wire):
    required: NodeSelector | None = None


class ClaimReference(Wire):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class CsiSource(Wire):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(InTreeSources):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ClaimReference | None = None
    csi: CsiSource | None = None


class VolumeStatus(Wire):
    phase: str = ""


class PersistentVolume(KubeObject):
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: VolumeStatus = msgspec.field(default_factory=VolumeStatus)


class TopologyRequirement(Wire):
    key: str
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyRequirement] | None = None


class StorageClass(KubeObject):
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[TopologyTerm] | None = None


class AttachLimit(Wire):
    count: int | None = None


class NodeDriver(Wire):
    """A CSI driver that runs on a node."""

    name: str
    allocatable: AttachLimit | None = None
    topology_keys: list[str] | None = None


class CsiNodeSpec(Wire):
    drivers: list[NodeDriver] | None = None


class CsiNode(KubeObject):
    """The CSI drivers of the Node with this name."""

    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(Wire):
    storage_capacity: bool | None = None


class CsiDriver(KubeObject):
    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CsiStorageCapacity(KubeObject):
    """The capacity that can still be provisioned of a storage class on the nodes of a topology."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class AttachmentSource(Wire):
    persistent_volume_name: str | None = None


class AttachmentSpec(Wire):
    node_name: str = ""
    source: AttachmentSource = msgspec.field(default_factory=AttachmentSource)


class VolumeAttachment(KubeObject):
    spec: AttachmentSpec = msgspec.field(default_factory=AttachmentSpec)
