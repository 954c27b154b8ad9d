"""Limits the number of volumes that a driver attaches to a node (Kubernetes' NodeVolumeLimits).

A disk counts once per node, regardless of the number of Pods that use it. Each unbound claim counts as a separate disk.
An attached volume that no Pod uses counts until it is detached. Drivers without a limit on any node are not counted.

CSI drivers have replaced Kubernetes' in-tree volume plugins. Volumes of in-tree plugins count against the limits of
these drivers, and a disk counts once even if it is named in both ways.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from scheduler.api.kinds import ATTACHMENT, CLAIM, CSI_NODE, STORAGE_CLASS, VOLUME
from scheduler.api.names import ZONE_LABELS
from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.api.objects import InTreeSources
from scheduler.api.snapshot import Snapshot
from scheduler.api.storage import PersistentVolume
from scheduler.api.task import TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.predicates.volumes.claims import class_of

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


class Disks:
    """The disks of a session's classes. An unbound claim has a disk that is named after the claim, also when a volume
    is reserved for it, so disks do not change within a session."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._of: Callable[[TaskClass], tuple[Disk, ...]] = cache(
            lambda cls: tuple(dict.fromkeys(self.of_claims(cls) + inline_disks(cls)))
        )

    def of(self, cls: TaskClass) -> tuple[Disk, ...]:
        """The disks of a class, each once."""
        return self._of(cls) if cls.claims or cls.spec.volumes else ()

    def of_claims(self, cls: TaskClass) -> tuple[Disk, ...]:
        """The disks of the claims of a class, each once."""
        found = []
        for mounted in cls.claims:
            disk = self._of_claim(f"{cls.namespace}/{mounted.name}")
            if disk is not None and disk not in found:
                found.append(disk)
        return tuple(found)

    def _of_claim(self, key: str) -> Disk | None:
        claim = self._snapshot.objects[CLAIM].get(key)
        if claim is None:
            return None
        name = claim.spec.volume_name
        volume = self._snapshot.objects[VOLUME].get(name) if name else None
        if volume is not None:
            return disk_of_volume(volume)
        storage = self._snapshot.objects[STORAGE_CLASS].get(class_of(claim))
        return Disk(driver_of(storage.provisioner), f"claim {key}") if storage is not None else None


def inline_disks(cls: TaskClass) -> tuple[Disk, ...]:
    """The disks of volumes in the Pod spec itself."""
    found = (disk_of_source(volume) for volume in cls.spec.volumes or ())
    return tuple(disk for disk in found if disk is not None)


TOO_MANY_VOLUMES = "node(s) exceed max volume count"


class Attachments:
    """The disks attached to each node, including those of tasks that this session placed; for drivers with limits."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, disks: Disks) -> None:
        self._snapshot = snapshot
        self._index = nodes.index
        self._disks = disks
        self._users: dict[int, dict[Disk, int]] = {}
        """Row -> disk -> number of its users; an attachment without a Pod counts as one user."""
        self.rows: dict[Disk, set[int]] = {}
        """Disk -> rows of the nodes to which it is attached."""
        self.drivers: dict[str, Mask] = {}
        """Driver -> whether each node runs it, shape (nodes,)."""
        self.limits = self._read_drivers(len(nodes))
        """Driver -> the limit of each node, shape (nodes,); infinity without a limit."""
        self.counts: dict[str, Column] = {driver: np.zeros(len(nodes)) for driver in self.limits}
        """Driver -> the number of disks attached to each node, shape (nodes,)."""
        if self.limits:
            self._read()

    def _read_drivers(self, nodes: int) -> dict[str, Column]:
        limits: dict[str, Column] = {}
        for name, node in self._snapshot.objects[CSI_NODE].items():
            row = self._index.get(name)
            if row is None:
                continue
            for driver in node.spec.drivers or ():
                self.drivers.setdefault(driver.name, np.zeros(nodes, dtype=bool))[row] = True
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    column = limits.setdefault(driver.name, np.full(nodes, np.inf))
                    column[row] = driver.allocatable.count
        return limits

    def _read(self) -> None:
        for placed in self._snapshot.placed:
            disks = self._disks.of(placed.cls)
            for name, number in placed.nodes.items() if disks else ():
                row = self._index.get(name)
                if row is not None:
                    self.attach(disks, row, number)
        for attachment in self._snapshot.objects[ATTACHMENT].values():
            row = self._index.get(attachment.spec.node_name)
            volume = self._snapshot.objects[VOLUME].get(attachment.spec.source.persistent_volume_name or "")
            disk = disk_of_volume(volume) if volume is not None else None
            if row is not None and disk is not None and disk not in self._users.get(row, ()):
                self.attach((disk,), row, 1)

    def attach(self, disks: Iterable[Disk], row: int, users: int) -> None:
        """Adds ``users`` (may be negative) to the number of users of each disk on a node."""
        for disk in disks:
            counts = self.counts.get(disk.driver)
            if counts is None:
                continue
            users_here = self._users.setdefault(row, {})
            before = users_here.get(disk, 0)
            after = users_here[disk] = before + users
            if not before:
                counts[row] += 1
                self.rows.setdefault(disk, set()).add(row)
            elif after <= 0:
                counts[row] -= 1
                self.rows[disk].discard(row)
                del users_here[disk]


class AttachFilter:
    """Rejects nodes that cannot attach all the disks that they still lack."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(
        self, attachments: Attachments, unattached: Sequence[tuple[str, int]], attached: Sequence[Disk]
    ) -> None:
        """``unattached``, ``attached``: these fields of ``ClaimState``."""
        self._attachments = attachments
        self._unattached = dict(unattached)
        self._attached = attached

    def room(self, rows: Rows) -> Counts:
        attachments = self._attachments
        passes = np.ones(len(rows), dtype=bool)
        for driver in {*self._unattached, *(disk.driver for disk in self._attached)}:
            new = np.full(len(rows), self._unattached.get(driver, 0))
            for disk in self._attached:
                if disk.driver == driver:
                    new += ~np.isin(rows, list(attachments.rows.get(disk, ())))
            passes &= (new == 0) | (attachments.counts[driver][rows] + new <= attachments.limits[driver][rows])
        return np.where(passes, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TOO_MANY_VOLUMES, len(rows)),)
