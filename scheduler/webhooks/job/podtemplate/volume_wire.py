"""A volume of a Pod as typed structs."""

from msgspec import field

from scheduler.api.objects import Wire
from scheduler.webhooks.job.podtemplate.wire import (
    FieldRef,
    Int32,
    Int64,
    LabelSelector,
    Loose,
    Meta,
    Named,
    ResourceFieldRef,
    Resources,
)


class EmptyDir(Wire):
    size_limit: str | int | float | None = None


class HostPath(Wire):
    path: str = ""
    type: str = ""


class KeyToPath(Wire):
    key: str = ""
    path: str = ""
    mode: Int32 | None = None


class SecretVolume(Wire):
    secret_name: str = ""
    default_mode: Int32 | None = None
    items: list[KeyToPath] = field(default_factory=list)


class ConfigMapVolume(Wire):
    name: str = ""
    default_mode: Int32 | None = None
    items: list[KeyToPath] = field(default_factory=list)


class Nfs(Wire):
    server: str = ""
    path: str = ""


class ClaimVolume(Wire):
    claim_name: str = ""


class DownwardFile(Wire):
    path: str = ""
    field_ref: FieldRef | None = None
    resource_field_ref: ResourceFieldRef | None = None
    mode: Int32 | None = None


class DownwardVolume(Wire):
    default_mode: Int32 | None = None
    items: list[DownwardFile] = field(default_factory=list)


class TokenProjection(Wire):
    path: str = ""
    expiration_seconds: Int64 = 3600


class Projection(Wire):
    secret: ConfigMapVolume | None = None
    config_map: ConfigMapVolume | None = None
    downward_api: DownwardVolume | None = field(default=None, name="downwardAPI")
    service_account_token: TokenProjection | None = None
    cluster_trust_bundle: Loose | None = None
    pod_certificate: Loose | None = None


class ProjectedVolume(Wire):
    default_mode: Int32 | None = None
    sources: list[Projection] = field(default_factory=list)


class CsiVolume(Wire):
    driver: str = ""
    node_publish_secret_ref: Named | None = None


class ClaimSpec(Wire):
    access_modes: list[str] = field(default_factory=list)
    selector: LabelSelector | None = None
    resources: Resources = field(default_factory=Resources)
    storage_class_name: str | None = None
    volume_mode: str | None = None


class ClaimTemplate(Wire):
    metadata: Meta = field(default_factory=Meta)
    spec: ClaimSpec = field(default_factory=ClaimSpec)


class EphemeralVolume(Wire):
    volume_claim_template: ClaimTemplate | None = None


class ImageVolume(Wire):
    reference: str = ""
    pull_policy: str = ""


class Volume(Wire):
    """A name and one of many sources, these in the order in which Kubernetes looks for them."""

    name: str = ""
    empty_dir: EmptyDir | None = None
    host_path: HostPath | None = None
    git_repo: Loose | None = None
    gce_persistent_disk: Loose | None = None
    aws_elastic_block_store: Loose | None = None
    secret: SecretVolume | None = None
    nfs: Nfs | None = None
    iscsi: Loose | None = None
    glusterfs: Loose | None = None
    flocker: Loose | None = None
    persistent_volume_claim: ClaimVolume | None = None
    rbd: Loose | None = None
    cinder: Loose | None = None
    cephfs: Loose | None = None
    quobyte: Loose | None = None
    downward_api: DownwardVolume | None = field(default=None, name="downwardAPI")
    fc: Loose | None = None
    flex_volume: Loose | None = None
    config_map: ConfigMapVolume | None = None
    azure_file: Loose | None = None
    vsphere_volume: Loose | None = None
    photon_persistent_disk: Loose | None = None
    portworx_volume: Loose | None = None
    azure_disk: Loose | None = None
    storageos: Loose | None = None
    projected: ProjectedVolume | None = None
    scale_io: Loose | None = field(default=None, name="scaleIO")
    csi: CsiVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None
