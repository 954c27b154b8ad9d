"""Which CSI driver serves a volume, and what it calls it.

Volumes of the plugins that were once part of Kubernetes are served by CSI drivers now: they take places on a node as
the drivers' own do, and one disk is one disk however it is named.
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
"""In-tree provisioner -> the driver that has taken over."""
UNKNOWN = "UNSPECIFIED"


class Disk(NamedTuple):
    """One volume as its driver knows it. (There may be tens of thousands in a session.)"""

    driver: str
    handle: str


def driver_of(provisioner: str) -> str:
    """The driver that provisions for a storage class."""
    return DRIVERS.get(provisioner, provisioner)


def disk_of_volume(volume: PersistentVolume) -> Disk | None:
    """What is attached for a PersistentVolume; None: nothing that a driver knows of."""
    spec = volume.spec
    if spec.csi is not None:
        return Disk(spec.csi.driver, spec.csi.volume_handle)
    return disk_of_source(spec, volume.metadata.labels or {})


def disk_of_source(source: InTreeSources, labels: dict[str, str] | None = None) -> Disk | None:
    """What is attached for an in-tree source. ``labels``: of the PersistentVolume it is of."""
    if source.aws_elastic_block_store is not None:
        return Disk(EBS, source.aws_elastic_block_store.volume_id.rpartition("/")[2])
    if source.gce_persistent_disk is not None:
        return Disk(GCE_PD, f"projects/{UNKNOWN}/{_place(labels or {})}/disks/{source.gce_persistent_disk.pd_name}")
    if source.azure_disk is not None:
        return Disk(AZURE_DISK, source.azure_disk.disk_uri)
    if source.cinder is not None:
        return Disk(CINDER, source.cinder.volume_id)
    if source.portworx_volume is not None:
        return Disk(PORTWORX, source.portworx_volume.volume_id)
    return None


def _place(labels: dict[str, str]) -> str:
    """Zone or region of a disk, as its driver writes it."""
    zones = next((labels[key] for key in reversed(ZONE_LABELS) if labels.get(key)), "").split("__")
    if len(zones) == 1:
        return f"zones/{zones[0] or UNKNOWN}"
    return f"regions/{zones[0].rpartition('-')[0]}"
