"""The CSI driver and handle of volumes, including in-tree sources."""

from typing import Any

import msgspec
import pytest

from scheduler.api.storage import PersistentVolume
from scheduler.plugins.predicates.volumes.attachments import Disk, disk_of_volume, driver_of


@pytest.mark.parametrize(
    ("source", "labels", "disk"),
    [
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, {}, Disk("d", "h")),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}, {}, Disk("ebs.csi.aws.com", "vol-1")),
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, Disk("ebs.csi.aws.com", "vol-1")),
        ({"azureDisk": {"diskURI": "/sub/disk", "diskName": "x"}}, {}, Disk("disk.csi.azure.com", "/sub/disk")),
        ({"cinder": {"volumeID": "c"}}, {}, Disk("cinder.csi.openstack.org", "c")),
        ({"portworxVolume": {"volumeID": "p"}}, {}, Disk("pxd.portworx.com", "p")),
        (
            {"gcePersistentDisk": {"pdName": "pd"}},
            {},
            Disk("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd"),
        ),
        (
            {"gcePersistentDisk": {"pdName": "pd"}},
            {"topology.kubernetes.io/zone": "us-east1-b"},
            Disk("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-east1-b/disks/pd"),
        ),
        (
            {"gcePersistentDisk": {"pdName": "pd"}},
            {"failure-domain.beta.kubernetes.io/zone": "us-east1-b__us-east1-c"},
            Disk("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-east1/disks/pd"),
        ),
        ({"hostPath": {"path": "/x"}}, {}, None),
    ],
)
def test_a_volume_has_one_disk_with_its_driver_and_handle(
    source: Any, labels: dict[str, str], disk: Disk | None
) -> None:
    volume = msgspec.convert({"metadata": {"name": "v", "labels": labels}, "spec": source}, PersistentVolume)

    assert disk_of_volume(volume) == disk


def test_an_in_tree_provisioner_maps_to_its_csi_driver() -> None:
    assert driver_of("kubernetes.io/gce-pd") == "pd.csi.storage.gke.io"
    assert driver_of("csi.example.com") == "csi.example.com"
