"""The predicates on volumes, for one session: what they say of nodes, and what becomes of claims as Pods are placed.

A thousand Pods with a claim each, all alike, cost little more than a thousand Pods without: classes in one situation
share their filters (``situations``).
"""

from collections.abc import Iterable, Sequence
from functools import cached_property, partial

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Mask, Rows
from scheduler.api.preparation import Preparation
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, MaskFilter, Nowhere, Scope, Score
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.predicates.volumes.binder import Binder
from scheduler.plugins.predicates.volumes.claims import Wanted
from scheduler.plugins.predicates.volumes.complaints import Complaints
from scheduler.plugins.predicates.volumes.csi import Disk
from scheduler.plugins.predicates.volumes.disks import Disks, inline_disks
from scheduler.plugins.predicates.volumes.limits import AttachFilter, Attachments
from scheduler.plugins.predicates.volumes.provisioning import NO_VOLUME, REASONS
from scheduler.plugins.predicates.volumes.reach import Reach, Topology
from scheduler.plugins.predicates.volumes.scoring import CapacityScore, Worth
from scheduler.plugins.predicates.volumes.situations import Situation, Situations, Switches

AFFINITY_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_ZONE = "node(s) had no available volume zone"
NOT_INSTALLED = "CSI driver is not installed on the node"


class Volumes:
    """NodeVolumeLimits, VolumeZone and VolumeBinding."""

    def __init__(self, session: Session, switches: Switches, timeout: float, worth: Worth | None) -> None:
        """``timeout``: seconds in which claims have to be bound once their Pod has its node. ``worth``: what the
        utilization of volumes is worth (``scoring``)."""
        snapshot = session.snapshot
        complaints = Complaints(session)
        self._session = session
        self._switches = switches
        self._worth = worth
        self._topology = Topology(session.nodes.facts)
        self._disks = Disks(snapshot)
        self._binder = Binder(snapshot, self._topology, timeout, complaints)
        self._situations = Situations(
            snapshot,
            switches,
            self._topology,
            self._binder,
            self._disks,
            lambda: self._attachments,
            complaints,
        )

    @cached_property
    def _attachments(self) -> Attachments:
        return Attachments(self._session.snapshot, self._session.nodes, self._disks)

    def situation(self, cls: TaskClass) -> Situation:
        """What matters of the claims of a class at this moment."""
        return self._situations.of(cls)[0]

    def filters(self, cls: TaskClass) -> list[Filter]:
        """The filters that apply to a class; none for most."""
        if not cls.claims and not cls.spec.volumes:
            return []
        situation = self.situation(cls)
        if situation.refusal:
            return [Nowhere(situation.refusal)]
        filters: list[Filter] = []
        disks = (*situation.known, *self._limited_inline(cls))
        filters += [
            MaskFilter(self._attachments.drivers[driver], f"{driver} {NOT_INSTALLED}") for driver in situation.drivers
        ]
        if situation.fresh or disks:
            filters.append(AttachFilter(self._attachments, situation.fresh, disks))
        if situation.zones:
            masks = [self._topology.in_zones(zones) for zones in situation.zones]
            filters.append(MaskFilter(np.logical_and.reduce(masks), NO_ZONE))
        if situation.reaches:
            filters.append(MaskFilter(self._within(situation.reaches), AFFINITY_CONFLICT))
        if situation.decided:
            filters.append(MaskFilter(self._within(situation.decided), NO_VOLUME))
        if situation.wanted:
            filters.append(BindFilter(self._binder, situation.wanted))
        return filters

    def scores(self, cls: TaskClass) -> list[Score]:
        """The scores that apply to a class; none for most."""
        wanted = self.situation(cls).wanted if self._worth is not None and cls.claims else ()
        if self._worth is None or not wanted:
            return []
        plan = partial(self._binder.plan, wanted)
        return [CapacityScore(plan, wanted, self._binder.provisioning.left, self._worth)]

    def _limited_inline(self, cls: TaskClass) -> list[Disk]:
        """Disks that the Pods name themselves and that count against limits."""
        disks = inline_disks(cls) if self._switches.limits else ()
        return [disk for disk in disks if disk.driver in self._attachments.limits]

    def _within(self, reaches: Iterable[Reach]) -> Mask:
        mask: Mask = np.logical_and.reduce([self._topology.mask(reach) for reach in reaches])
        return mask

    def preparations(self, task: Task, row: int) -> Iterable[Preparation]:
        """What has to be done before a task may be bound to the node of a row."""
        if not task.cls.claims:
            return ()
        return [p for claim in self._binder.unbound(task.cls) for p in self._binder.preparations(claim, row)]

    # --- told by statements ---
    def allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Tasks of one class took their nodes: their claims are promised volumes. Raises AllocationError."""
        cls = tasks[0].cls
        if not cls.claims and not cls.spec.volumes:
            return
        for position, (task, row) in enumerate(zip(tasks, rows, strict=True)):
            if cls.claims and self._switches.binding and not task.node:
                situation, claims = self._situations.of(cls)
                try:
                    self._binder.promise(task.uid, row, cls, situation.wanted, claims)
                except AllocationError:
                    self.deallocated(job, tasks[:position], rows[:position])
                    raise
            self._moved(cls, row, 1)

    def deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one class lost their nodes."""
        for task, row in zip(tasks, rows, strict=True):
            if task.cls.claims or task.cls.spec.volumes:
                self._binder.promises.leave(task.uid)
                self._moved(task.cls, row, -1)

    def _moved(self, cls: TaskClass, row: int, users: int) -> None:
        if self._switches.limits:
            self._attachments.attach(self._disks.of(cls), row, users)
        self._situations.forget(cls)


class BindFilter:
    """Each unbound claim gets a volume that the node reaches, or one is made."""

    scope = Scope.CLUSTER
    unresolvable = True

    def __init__(self, binder: Binder, wanted: tuple[Wanted, ...]) -> None:
        self._binder = binder
        self._wanted = wanted

    def room(self, rows: Rows) -> Counts:
        return np.where(self._binder.plan(self._wanted).codes[rows] < 0, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        numbers = np.bincount(self._binder.plan(self._wanted).codes[rows], minlength=len(REASONS)).tolist()
        return [(reason, number) for reason, number in zip(REASONS, numbers, strict=True) if number]
