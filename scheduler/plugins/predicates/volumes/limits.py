"""Limits the number of volumes that a driver attaches to a node (Kubernetes' NodeVolumeLimits).

A disk counts once per node, regardless of the number of Pods that use it. Each unbound claim counts as a separate disk.
An attached volume that no Pod uses counts until it is detached. Drivers without a limit on any node are not counted.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.api.kinds import ATTACHMENT, CSI_NODE, VOLUME
from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.api.snapshot import Snapshot
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.predicates.volumes.csi import Disk, disk_of_volume
from scheduler.plugins.predicates.volumes.disks import Disks

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
        """``unattached`` and ``attached`` as in ``ClaimState``."""
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
