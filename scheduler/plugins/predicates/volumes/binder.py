"""Reserves volumes for the claims of Pods when the Pods get their nodes, and returns the preparations of their
bindings.

A reservation prevents that a volume is given to two claims. For a claim that several Pods share, the first Pod that is
placed makes the reservation, and the others use it. It is released when the last of them is removed from its node.
Nothing is written here. The reservations of a session end with it; the preparations of its bindings preserve them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from scheduler.api.decisions import Bind
from scheduler.api.kinds import CLAIM, VOLUME
from scheduler.api.node import NodeFacts
from scheduler.api.preparation import Preparation
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.api.task import TaskClass
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.predicates.volumes.claims import (
    ClaimRequest,
    ObjectReporters,
    claim_key,
    is_bound,
    selected_node,
)
from scheduler.plugins.predicates.volumes.plan import VolumePlan, VolumePool
from scheduler.plugins.predicates.volumes.preparations import (
    AwaitBinding,
    ProvisionVolume,
    bind_preparations,
    provision_preparation,
)
from scheduler.plugins.predicates.volumes.topology import REASONS, NodeSet, Provisioning, VolumeTopology


@dataclass(slots=True)
class Reservation:
    """What is reserved for one claim."""

    volume: str
    """The name of the volume, or "" if one is provisioned."""
    node: str
    """The node for which the volume is provisioned, or "" if it exists."""
    tasks: set[str] = field(default_factory=set)
    """The uids of the tasks of this session that use the reservation."""
    permanent: bool = False
    """Whether it was made before this session, which then never releases it."""


class VolumeReservations:
    """The reservations of a session, by claim (``namespace/name``)."""

    def __init__(self, preparing: Iterable[Bind]) -> None:
        self.version = 0
        """Increases whenever a volume is reserved or released."""
        self._reservations: dict[str, Reservation] = {}
        self._of_task: dict[str, list[str]] = {}
        self._pool: VolumePool | None = None
        for bind in preparing:
            for preparation in bind.preparations:
                key = f"{preparation.namespace}/{preparation.name}"
                if isinstance(preparation, AwaitBinding):
                    self._reservations[key] = Reservation(preparation.volume, "", permanent=True)
                elif isinstance(preparation, ProvisionVolume):
                    self._reservations[key] = Reservation("", preparation.selected, permanent=True)

    def get(self, claim: str) -> Reservation | None:
        return self._reservations.get(claim)

    def track(self, pool: VolumePool) -> None:
        """Marks the reserved volumes in the pool, and keeps the marks current."""
        self._pool = pool
        for reservation in self._reservations.values():
            self._mark(reservation.volume, True)

    def add(self, claim: str, volume: str, node: str, task: str) -> None:
        """Reserves an existing volume for a claim, or (``volume`` is "") a volume that is provisioned for a node.
        ``task`` uses the reservation."""
        self._reservations[claim] = Reservation(volume, node)
        self._mark(volume, True)
        self.add_user(claim, task)

    def add_user(self, claim: str, task: str) -> None:
        """Registers a task as a user of a claim's reservation, if the claim has one."""
        reservation = self._reservations.get(claim)
        if reservation is not None and task not in reservation.tasks:
            reservation.tasks.add(task)
            self._of_task.setdefault(task, []).append(claim)

    def release(self, task: str) -> None:
        """Removes a task from all reservations, and releases those without users."""
        for claim in self._of_task.pop(task, ()):
            reservation = self._reservations[claim]
            reservation.tasks.discard(task)
            if not reservation.tasks and not reservation.permanent:
                del self._reservations[claim]
                self._mark(reservation.volume, False)

    def _mark(self, volume: str, reserved: bool) -> None:
        rank = self._pool.rank.get(volume) if self._pool is not None else None
        if self._pool is not None and rank is not None:
            self._pool.reserved[rank] = reserved
            self.version += 1


class Binder:
    """The plans, reservations and preparations of one session."""

    def __init__(self, session: PluginSession, timeout: float) -> None:
        """``timeout``: the seconds in which claims must be bound once their Pod has a node."""
        self.snapshot = session.snapshot
        self.topology = VolumeTopology(session.nodes.facts)
        self.reporters = ObjectReporters(session)
        self.reservations = VolumeReservations(self.snapshot.preparing)
        self._timeout = timeout
        self._plans: dict[tuple[ClaimRequest, ...], tuple[int, VolumePlan]] = {}
        self._prepared: dict[tuple[str, int], tuple[Preparation, ...]] = {}

    @cached_property
    def pool(self) -> VolumePool:
        """The volumes that can be bound."""
        pool = VolumePool(self.snapshot.objects[VOLUME], self.snapshot.objects[CLAIM], self.reporters)
        self.reservations.track(pool)
        return pool

    @cached_property
    def provisioning(self) -> Provisioning:
        """The nodes for which volumes can be provisioned."""
        return Provisioning(self.snapshot, self.topology, self.reporters)

    def nodes_of(self, volume: PersistentVolume) -> NodeSet:
        """The nodes from which a volume is accessible."""
        return self.topology.of_volume(volume, self.reporters.reporter(VOLUME, volume, "spec.nodeAffinity: "))

    def plan(self, requests: tuple[ClaimRequest, ...]) -> VolumePlan:
        """The current plan for claims with these requests."""
        version, plan = self._plans.get(requests, (-1, None))
        if plan is None:
            plan = VolumePlan(self.pool, requests, self.nodes_of, self.provisioning.codes, len(self.topology.facts))
        elif version != self.reservations.version:
            plan.recompute()
        self._plans[requests] = self.reservations.version, plan
        return plan

    def unbound(self, cls: TaskClass) -> list[PersistentVolumeClaim]:
        """The claims of a class that are not bound."""
        found = (self.snapshot.objects[CLAIM].get(f"{cls.namespace}/{mounted.name}") for mounted in cls.claims)
        return [claim for claim in found if claim is not None and not is_bound(claim)]

    def reserve(
        self,
        task: str,
        row: int,
        cls: TaskClass,
        requests: tuple[ClaimRequest, ...],
        claims: Iterable[PersistentVolumeClaim],
    ) -> None:
        """Reserves what the claims of a task get on the node of a row. ``task``: its uid. ``claims``: the claims
        without a reservation, in the order of ``requests``. Raises AllocationError."""
        node = self.topology.facts.names[row]
        for claim in self.unbound(cls):
            self.reservations.add_user(claim_key(claim), task)
        if requests:
            plan = self.plan(requests)
            if plan.codes[row] >= 0:
                self.reservations.release(task)
                raise AllocationError(f"{REASONS[plan.codes[row]]}: {node}")
            for claim, volume in zip(claims, plan.volumes_at(row), strict=True):
                self.reservations.add(claim_key(claim), volume, "" if volume else node, task)

    def preparations(self, claim: PersistentVolumeClaim, row: int) -> tuple[Preparation, ...]:
        """The preparations for a claim of a Pod that is bound to the node of a row. Pods that share the claim on the
        node get the same objects."""
        key = claim_key(claim)
        reservation = self.reservations.get(key)
        volume = reservation.volume if reservation is not None else ""
        shared = (key, -1 if volume else row)
        found = self._prepared.get(shared)
        if found is None:
            facts: NodeFacts = self.topology.facts
            if volume:
                found = bind_preparations(claim, volume, self._timeout)
            else:
                selected = reservation.node if reservation is not None else selected_node(claim)
                found = (provision_preparation(claim, selected, facts.objects[row], self._timeout),)
            self._prepared[shared] = found
        return found
