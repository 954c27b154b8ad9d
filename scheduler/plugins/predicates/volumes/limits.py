"""How many volumes a driver attaches to a node (Kubernetes' NodeVolumeLimits): one disk counts once per node, however
many Pods use it.

A claim that is not bound yet counts as a disk of its own. What is attached without a Pod that uses it counts as well:
it is about to be detached, and holds its place until then. Drivers that no node limits are not counted.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.api.node import Column, Mask, Nodes, Rows
from scheduler.api.snapshot import Snapshot
from scheduler.framework.columns import UNBOUNDED, Counts, Scope
from scheduler.plugins.predicates.volumes.csi import Disk, disk_of_volume
from scheduler.plugins.predicates.volumes.disks import Disks

TOO_MANY_VOLUMES = "node(s) exceed max volume count"


class Attachments:
    """What is attached where, with what this session has placed; for drivers with limits."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, disks: Disks) -> None:
        self._snapshot = snapshot
        self._index = nodes.index
        self._disks = disks
        self._users: dict[int, dict[Disk, int]] = {}
        """Row -> users of each disk there; an attachment without a Pod is one."""
        self.rows: dict[Disk, set[int]] = {}
        """Where a disk is attached."""
        self.drivers: dict[str, Mask] = {}
        """Driver -> where it runs, shape (nodes,)."""
        self.limits = self._read_drivers(len(nodes))
        """Driver -> volumes per node, shape (nodes,); infinite where it is not limited."""
        self.counts: dict[str, Column] = {driver: np.zeros(len(nodes)) for driver in self.limits}
        """Driver -> disks attached, shape (nodes,)."""
        if self.limits:
            self._read()

    def _read_drivers(self, nodes: int) -> dict[str, Column]:
        limits: dict[str, Column] = {}
        for name, node in self._snapshot.csi_nodes.items():
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
        for attachment in self._snapshot.attachments.values():
            row = self._index.get(attachment.spec.node_name)
            volume = self._snapshot.volumes.get(attachment.spec.source.persistent_volume_name or "")
            disk = disk_of_volume(volume) if volume is not None else None
            if row is not None and disk is not None and disk not in self._users.get(row, ()):
                self.attach((disk,), row, 1)

    def attach(self, disks: Iterable[Disk], row: int, users: int) -> None:
        """More users of disks on a node (negative: fewer)."""
        for disk in disks:
            counts = self.counts.get(disk.driver)
            if counts is None:
                continue
            there = self._users.setdefault(row, {})
            before = there.get(disk, 0)
            after = there[disk] = before + users
            if not before:
                counts[row] += 1
                self.rows.setdefault(disk, set()).add(row)
            elif after <= 0:
                counts[row] -= 1
                self.rows[disk].discard(row)
                del there[disk]


class AttachFilter:
    """The node can have the disks that are new to it attached."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, attachments: Attachments, fresh: Sequence[tuple[str, int]], known: Sequence[Disk]) -> None:
        """``fresh``: drivers and how many disks are new to every node; ``known``: disks that some node has."""
        self._attachments = attachments
        self._fresh = dict(fresh)
        self._known = known

    def room(self, rows: Rows) -> Counts:
        attachments = self._attachments
        passes = np.ones(len(rows), dtype=bool)
        for driver in {*self._fresh, *(disk.driver for disk in self._known)}:
            new = np.full(len(rows), self._fresh.get(driver, 0))
            for disk in self._known:
                if disk.driver == driver:
                    new += ~np.isin(rows, list(attachments.rows.get(disk, ())))
            passes &= (new == 0) | (attachments.counts[driver][rows] + new <= attachments.limits[driver][rows])
        return np.where(passes, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((TOO_MANY_VOLUMES, len(rows)),)
