"""The volume filters and the score of one session, and the reservation of volumes when Pods are placed.

The score is the utilization of the volumes that the unbound claims of a Pod would get on a node: for each storage
class, the requested bytes of its claims divided by the bytes of their volumes, or, if no volume exists, by the free
storage capacity. ``volumebinding.shape`` maps utilizations to scores; without it there is no such score. (Kubernetes
also requires a feature gate, which is off by default.)

Classes with equal claim states share their filters (``claim_states``), so a thousand Pods that differ only in their
claims cost little more than a thousand Pods without claims.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Column, Mask, Rows
from scheduler.api.preparation import Preparation
from scheduler.api.task import Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, MaskFilter, RefusingFilter, Scope, Score
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.predicates.volumes.attachments import AttachFilter, Attachments, Disk, Disks, inline_disks
from scheduler.plugins.predicates.volumes.binder import Binder
from scheduler.plugins.predicates.volumes.claim_states import ClaimState, ClaimStates, EnabledFilters
from scheduler.plugins.predicates.volumes.claims import ClaimRequest
from scheduler.plugins.predicates.volumes.plan import VolumePlan
from scheduler.plugins.predicates.volumes.topology import NO_VOLUME, REASONS, NodeSet

SHAPE = "volumebinding.shape"
FULL = 100
"""Utilization is in percent."""
SCALE = 10
"""The shape has scores from 0 to 10; node scores are from 0 to 100."""
UtilizationScores = NDArray[np.float64]
"""Shape (101,): the weighted score of each utilization in percent."""


def read_utilization_scores(arguments: Arguments, weight: int) -> UtilizationScores | None:
    """Reads the argument SHAPE. None if the shape is invalid."""
    given = arguments[SHAPE]
    points = _parse_shape(given)
    if points is None:
        return arguments.set_aside(SHAPE, given, "no shape of rising utilizations", None)
    at, scores = zip(*points, strict=True)
    return np.array([_interpolate(percent, at, scores) * weight for percent in range(FULL + 1)], dtype=np.float64)


def _parse_shape(given: Any) -> list[tuple[int, int]] | None:
    """Returns (utilization, score) pairs, or None if the shape is invalid."""
    if not isinstance(given, Sequence) or not given or not all(isinstance(point, Mapping) for point in given):
        return None
    points = [(point.get("utilization", 0), point.get("score", 0)) for point in given]
    valid = all(
        type(at) is int and type(score) is int and 0 <= at <= FULL and 0 <= score <= SCALE for at, score in points
    )
    rising = all(left[0] < right[0] for left, right in pairwise(points))
    return [(at, score * SCALE) for at, score in points] if valid and rising else None


def _interpolate(percent: int, at: Sequence[int], scores: Sequence[int]) -> int:
    """The score of a utilization by linear interpolation, in integer arithmetic as in Kubernetes."""
    for i, known in enumerate(at):
        if percent <= known:
            if not i:
                return scores[0]
            rise = (scores[i] - scores[i - 1]) * (percent - at[i - 1])
            return scores[i - 1] + int(rise / (known - at[i - 1]))
    return scores[-1]


class CapacityScore(msgspec.Struct, eq=False):
    """The score for Pods whose claims have the same requests."""

    plan: Callable[[], VolumePlan]
    requests: Sequence[ClaimRequest]
    free_capacity: Callable[[ClaimRequest], Column | None]
    """Returns the bytes of storage available to provision a volume for each node (``Provisioning``)."""
    utilization_scores: UtilizationScores
    scope = Scope.CLUSTER

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        plan = self.plan()
        exists, sizes = plan.sizes(rows)
        any_exists = exists.any(axis=0)
        total: Column = np.zeros(len(rows))
        classes = np.zeros(len(rows))
        for name in dict.fromkeys(request.storage_class for request in self.requests):
            requested, capacity = np.zeros(len(rows)), np.zeros(len(rows))
            for number, request in enumerate(self.requests):
                if request.storage_class != name:
                    continue
                requested += np.where(exists[number], request.size, 0)
                capacity += np.where(exists[number], sizes[number], 0)
                free = self.free_capacity(request)
                if free is not None:
                    provisioned = ~any_exists & (free[rows] > 0)
                    requested += np.where(provisioned, request.size, 0)
                    capacity = np.where(provisioned, free[rows], capacity)
            counted = capacity > 0
            utilization = np.where(counted & (requested <= capacity), requested * FULL // np.maximum(capacity, 1), FULL)
            total += np.where(counted, self.utilization_scores[utilization.astype(np.intp)], 0)
            classes += counted
        score: Column = np.floor(total / np.maximum(classes, 1) + 0.5)
        return score


AFFINITY_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_ZONE = "node(s) had no available volume zone"
NOT_INSTALLED = "CSI driver is not installed on the node"


class Volumes:
    """The filters NodeVolumeLimits, VolumeZone and VolumeBinding."""

    def __init__(
        self,
        session: PluginSession,
        enabled: EnabledFilters,
        timeout: float,
        utilization_scores: UtilizationScores | None,
    ) -> None:
        """``timeout``: the seconds in which claims must be bound once their Pod has a node. ``utilization_scores``: the
        score of each utilization of volumes, or None for no score."""
        self._session = session
        self._enabled = enabled
        self._timeout = timeout
        self._utilization_scores = utilization_scores

    # The following are made when the first class with volumes needs them; most sessions place none.
    @cached_property
    def _disks(self) -> Disks:
        return Disks(self._session.snapshot)

    @cached_property
    def _binder(self) -> Binder:
        return Binder(self._session, self._timeout)

    @cached_property
    def _claim_states(self) -> ClaimStates:
        return ClaimStates(self._binder, self._enabled, self._disks, lambda: self._attachments)

    @cached_property
    def _attachments(self) -> Attachments:
        return Attachments(self._session.snapshot, self._session.nodes, self._disks)

    def claim_state(self, cls: TaskClass) -> ClaimState:
        """The current state of the claims of a class."""
        return self._claim_states.of(cls)[0]

    def filters(self, cls: TaskClass) -> list[Filter]:
        """Returns the filters of a class; most classes have none."""
        if not cls.claims and not cls.spec.volumes:
            return []
        state = self.claim_state(cls)
        if state.refusal:
            return [RefusingFilter(state.refusal)]
        filters: list[Filter] = []
        disks = (*state.attached, *self._limited_inline(cls))
        filters += [
            MaskFilter(self._attachments.drivers[driver], f"{driver} {NOT_INSTALLED}") for driver in state.drivers
        ]
        if state.unattached or disks:
            filters.append(AttachFilter(self._attachments, state.unattached, disks))
        if state.zones:
            masks = [self._binder.topology.in_zones(zones) for zones in state.zones]
            filters.append(MaskFilter(np.logical_and.reduce(masks), NO_ZONE))
        if state.volume_nodes:
            filters.append(MaskFilter(self._within(state.volume_nodes), AFFINITY_CONFLICT))
        if state.reserved_nodes:
            filters.append(MaskFilter(self._within(state.reserved_nodes), NO_VOLUME))
        if state.requests:
            filters.append(BindFilter(self._binder, state.requests))
        return filters

    def scores(self, cls: TaskClass) -> list[Score]:
        """Returns the scores of a class; most classes have none."""
        requests = self.claim_state(cls).requests if self._utilization_scores is not None and cls.claims else ()
        if self._utilization_scores is None or not requests:
            return []
        plan = partial(self._binder.plan, requests)
        return [CapacityScore(plan, requests, self._binder.provisioning.free_capacity, self._utilization_scores)]

    def _limited_inline(self, cls: TaskClass) -> list[Disk]:
        """The disks in the Pod spec itself that count against a limit."""
        disks = inline_disks(cls) if self._enabled.limits else ()
        return [disk for disk in disks if disk.driver in self._attachments.limits]

    def _within(self, node_sets: Iterable[NodeSet]) -> Mask:
        mask: Mask = np.logical_and.reduce([self._binder.topology.mask(nodes) for nodes in node_sets])
        return mask

    def preparations(self, task: Task, row: int) -> Iterable[Preparation]:
        """The preparations that must be done before a task is bound to the node of a row."""
        if not task.cls.claims:
            return ()
        return [p for claim in self._binder.unbound(task.cls) for p in self._binder.preparations(claim, row)]

    # --- called by statements ---
    def allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Reserves volumes for the claims of tasks of one class that were placed. Raises AllocationError."""
        cls = tasks[0].cls
        if not cls.claims and not cls.spec.volumes:
            return
        for position, (task, row) in enumerate(zip(tasks, rows, strict=True)):
            if cls.claims and self._enabled.binding and not task.node:
                state, claims = self._claim_states.of(cls)
                try:
                    self._binder.reserve(task.uid, row, cls, state.requests, claims)
                except AllocationError:
                    self.deallocated(job, tasks[:position], rows[:position])
                    raise
            self._update(cls, row, 1)

    def deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Releases the reservations of tasks of one class that were removed from their nodes."""
        for task, row in zip(tasks, rows, strict=True):
            if task.cls.claims or task.cls.spec.volumes:
                self._binder.reservations.release(task.uid)
                self._update(task.cls, row, -1)

    def _update(self, cls: TaskClass, row: int, users: int) -> None:
        if self._enabled.limits:
            self._attachments.attach(self._disks.of(cls), row, users)
        self._claim_states.invalidate(cls)


class BindFilter(msgspec.Struct, eq=False):
    """Rejects nodes for which a claim has neither an accessible volume nor a provisioned one."""

    binder: Binder
    requests: tuple[ClaimRequest, ...]
    scope = Scope.CLUSTER
    unresolvable = True

    def room(self, rows: Rows) -> Counts:
        return np.where(self.binder.plan(self.requests).codes[rows] < 0, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        numbers = np.bincount(self.binder.plan(self.requests).codes[rows], minlength=len(REASONS)).tolist()
        return [(reason, number) for reason, number in zip(REASONS, numbers, strict=True) if number]
