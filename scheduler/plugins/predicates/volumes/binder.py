"""Promises volumes to the claims of Pods as these get their nodes, and says what has to be done for it.

Nothing is written here: the promises of a session end with it, and live on as preparations of its bindings.
"""

from collections.abc import Iterable
from functools import cached_property

from scheduler.api.kinds import VOLUME
from scheduler.api.node import NodeFacts
from scheduler.api.preparation import Preparation
from scheduler.api.snapshot import Snapshot
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.api.task import TaskClass
from scheduler.framework.statement import AllocationError
from scheduler.plugins.predicates.volumes.claims import Wanted, claim_key, is_bound, selected_node
from scheduler.plugins.predicates.volumes.complaints import Complaints
from scheduler.plugins.predicates.volumes.plan import Plan
from scheduler.plugins.predicates.volumes.pool import Pool
from scheduler.plugins.predicates.volumes.preparations import by_provisioning, by_volume
from scheduler.plugins.predicates.volumes.promises import Promises
from scheduler.plugins.predicates.volumes.provisioning import REASONS, Provisioning
from scheduler.plugins.predicates.volumes.reach import Reach, Topology


class Binder:
    """For one session."""

    def __init__(self, snapshot: Snapshot, topology: Topology, timeout: float, complaints: Complaints) -> None:
        """``timeout``: seconds in which claims have to be bound once their Pod has its node."""
        self.promises = Promises(snapshot.preparing)
        self._snapshot = snapshot
        self._topology = topology
        self._timeout = timeout
        self._complaints = complaints
        self._plans: dict[tuple[Wanted, ...], tuple[int, Plan]] = {}
        self._prepared: dict[tuple[str, int], tuple[Preparation, ...]] = {}

    @cached_property
    def pool(self) -> Pool:
        """The volumes that are there to be bound."""
        pool = Pool(self._snapshot.volumes, self._snapshot.claims, self._complaints)
        self.promises.note_in(pool)
        return pool

    @cached_property
    def provisioning(self) -> Provisioning:
        """Where volumes can be made."""
        return Provisioning(self._snapshot, self._topology, self._complaints)

    def reach_of(self, volume: PersistentVolume) -> Reach:
        """The nodes from which a volume can be reached."""
        return self._topology.of_volume(volume, self._complaints.about(VOLUME, volume, "spec.nodeAffinity: "))

    def plan(self, wanted: tuple[Wanted, ...]) -> Plan:
        """What claims that ask for this would get at this moment."""
        version, plan = self._plans.get(wanted, (-1, None))
        if plan is None:
            plan = Plan(self.pool, wanted, self.reach_of, self.provisioning.codes, len(self._topology.facts))
        elif version != self.promises.version:
            plan.recompute()
        self._plans[wanted] = self.promises.version, plan
        return plan

    def unbound(self, cls: TaskClass) -> list[PersistentVolumeClaim]:
        """The claims of a class that are still to be bound."""
        found = (self._snapshot.claims.get(f"{cls.namespace}/{mounted.name}") for mounted in cls.claims)
        return [claim for claim in found if claim is not None and not is_bound(claim)]

    def promise(
        self,
        task: str,
        row: int,
        cls: TaskClass,
        wanted: tuple[Wanted, ...],
        claims: Iterable[PersistentVolumeClaim],
    ) -> None:
        """A task (its uid) gets a node: its claims, of which ``claims`` are undecided and ask for ``wanted``, are
        promised what they get there. Raises AllocationError."""
        node = self._topology.facts.names[row]
        for claim in self.unbound(cls):
            self.promises.join(claim_key(claim), task)
        if wanted:
            plan = self.plan(wanted)
            if plan.codes[row] >= 0:
                self.promises.leave(task)
                raise AllocationError(f"{REASONS[plan.codes[row]]}: {node}")
            for claim, volume in zip(claims, plan.at(row), strict=True):
                self.promises.make(claim_key(claim), volume, "" if volume else node, task)

    def preparations(self, claim: PersistentVolumeClaim, row: int) -> tuple[Preparation, ...]:
        """What has to be done for a claim of a Pod that is to be bound to the node of a row; the same objects for Pods
        that share it there."""
        key = claim_key(claim)
        promise = self.promises.get(key)
        volume = promise.volume if promise is not None else ""
        shared = (key, -1 if volume else row)
        found = self._prepared.get(shared)
        if found is None:
            facts: NodeFacts = self._topology.facts
            if volume:
                found = by_volume(claim, volume, self._timeout)
            else:
                selected = promise.node if promise is not None else selected_node(claim)
                found = by_provisioning(claim, selected, facts.objects[row], self._timeout)
            self._prepared[shared] = found
        return found
