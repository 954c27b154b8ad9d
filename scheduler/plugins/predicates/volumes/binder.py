"""Reserves volumes for the claims of Pods when the Pods get their nodes, and returns the preparations of their
bindings.

Nothing is written here. The reservations of a session end with it; the preparations of its bindings preserve them.
"""

from collections.abc import Iterable
from functools import cached_property

from scheduler.api.kinds import CLAIM, VOLUME
from scheduler.api.node import NodeFacts
from scheduler.api.preparation import Preparation
from scheduler.api.snapshot import Snapshot
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.api.task import TaskClass
from scheduler.framework.statement import AllocationError
from scheduler.plugins.predicates.volumes.claims import ClaimRequest, claim_key, is_bound, selected_node
from scheduler.plugins.predicates.volumes.object_reporters import ObjectReporters
from scheduler.plugins.predicates.volumes.plan import VolumePlan
from scheduler.plugins.predicates.volumes.pool import VolumePool
from scheduler.plugins.predicates.volumes.preparations import bind_preparations, provision_preparations
from scheduler.plugins.predicates.volumes.provisioning import REASONS, Provisioning
from scheduler.plugins.predicates.volumes.reservations import VolumeReservations
from scheduler.plugins.predicates.volumes.topology import NodeSet, VolumeTopology


class Binder:
    """The plans, reservations and preparations of one session."""

    def __init__(
        self, snapshot: Snapshot, topology: VolumeTopology, timeout: float, reporters: ObjectReporters
    ) -> None:
        """``timeout``: the seconds in which claims must be bound once their Pod has a node."""
        self.reservations = VolumeReservations(snapshot.preparing)
        self._snapshot = snapshot
        self._topology = topology
        self._timeout = timeout
        self._reporters = reporters
        self._plans: dict[tuple[ClaimRequest, ...], tuple[int, VolumePlan]] = {}
        self._prepared: dict[tuple[str, int], tuple[Preparation, ...]] = {}

    @cached_property
    def pool(self) -> VolumePool:
        """The volumes that can be bound."""
        pool = VolumePool(self._snapshot.objects[VOLUME], self._snapshot.objects[CLAIM], self._reporters)
        self.reservations.track(pool)
        return pool

    @cached_property
    def provisioning(self) -> Provisioning:
        """The nodes for which volumes can be provisioned."""
        return Provisioning(self._snapshot, self._topology, self._reporters)

    def nodes_of(self, volume: PersistentVolume) -> NodeSet:
        """The nodes from which a volume is accessible."""
        return self._topology.of_volume(volume, self._reporters.reporter(VOLUME, volume, "spec.nodeAffinity: "))

    def plan(self, requests: tuple[ClaimRequest, ...]) -> VolumePlan:
        """The current plan for claims with these requests."""
        version, plan = self._plans.get(requests, (-1, None))
        if plan is None:
            plan = VolumePlan(self.pool, requests, self.nodes_of, self.provisioning.codes, len(self._topology.facts))
        elif version != self.reservations.version:
            plan.recompute()
        self._plans[requests] = self.reservations.version, plan
        return plan

    def unbound(self, cls: TaskClass) -> list[PersistentVolumeClaim]:
        """The claims of a class that are not bound."""
        found = (self._snapshot.objects[CLAIM].get(f"{cls.namespace}/{mounted.name}") for mounted in cls.claims)
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
        node = self._topology.facts.names[row]
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
            facts: NodeFacts = self._topology.facts
            if volume:
                found = bind_preparations(claim, volume, self._timeout)
            else:
                selected = reservation.node if reservation is not None else selected_node(claim)
                found = provision_preparations(claim, selected, facts.objects[row], self._timeout)
            self._prepared[shared] = found
        return found
