"""The CSI driver of a volume, and the driver's handle for it.

CSI drivers have replaced Kubernetes' in-tree volume plugins. Volumes of in-tree plugins count against the limits of
these drivers, and a disk counts once even if it is named in both ways.
"""

from typing import NamedTuple

from scheduler.api.names import ZONE_LABELS
from scheduler.api.objects import InTreeSources
from scheduler.api.storage import PersistentVolume

EBS, GCE_PD, AZURE_DISK = "ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com"
CINDER, PORTWORX = "cinder.csi.openstack.org", "pxd.portworx.com"
DRIVERS = {
    "kubernetes.io/aws-ebs": EBS,
    "kubernetes.io/gce-pd": GCE_PD,
    "kubernetes.io/azure-disk": AZURE_DISK,
    "kubernetes.io/cinder": CINDER,
    "kubernetes.io/portworx-volume": PORTWORX,
}
"""In-tree provisioner -> the CSI driver that replaces it."""
UNKNOWN = "UNSPECIFIED"


class Disk(NamedTuple):
    """A volume as its driver identifies it. A NamedTuple because a session may have tens of thousands."""

    driver: str
    handle: str


def driver_of(provisioner: str) -> str:
    """The CSI driver for the provisioner of a storage class."""
    return DRIVERS.get(provisioner, provisioner)


def disk_of_volume(volume: PersistentVolume) -> Disk | None:
    """The disk of a PersistentVolume; None if no CSI driver attaches it."""
    spec = volume.spec
    if spec.csi is not None:
        return Disk(spec.csi.driver, spec.csi.volume_handle)
    return disk_of_source(spec, volume.metadata.labels or {})


def disk_of_source(source: InTreeSources, labels: dict[str, str] | None = None) -> Disk | None:
    """The disk of an in-tree source. ``labels``: the labels of its PersistentVolume."""
    if source.aws_elastic_block_store is not None:
        return Disk(EBS, source.aws_elastic_block_store.volume_id.rpartition("/")[2])
    if source.gce_persistent_disk is not None:
        return Disk(GCE_PD, f"projects/{UNKNOWN}/{_location(labels or {})}/disks/{source.gce_persistent_disk.pd_name}")
    if source.azure_disk is not None:
        return Disk(AZURE_DISK, source.azure_disk.disk_uri)
    if source.cinder is not None:
        return Disk(CINDER, source.cinder.volume_id)
    if source.portworx_volume is not None:
        return Disk(PORTWORX, source.portworx_volume.volume_id)
    return None


def _location(labels: dict[str, str]) -> str:
    """The zone or region of a disk in the notation of the GCE PD driver."""
    zones = next((labels[key] for key in reversed(ZONE_LABELS) if labels.get(key)), "").split("__")
    if len(zones) == 1:
        return f"zones/{zones[0] or UNKNOWN}"
    return f"regions/{zones[0].rpartition('-')[0]}"
