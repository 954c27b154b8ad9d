"""What the claims of a class of Pods come to at one moment: its situation.

Each claim is looked at once per class. It is bound, and its volume says where it can be reached; or it waits for its
Pod, and is to get a volume that is free or made; or the Pod has to wait. Classes in one situation get the same filters.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.api.kinds import CLAIM
from scheduler.api.names import CLAIM_LOST, NO_PROVISIONER, READ_ONLY_MANY, READ_WRITE_MANY, WAIT_FOR_FIRST_CONSUMER
from scheduler.api.objects import OwnerReference
from scheduler.api.quantity import QuantityError
from scheduler.api.selectors import is_valid
from scheduler.api.snapshot import Snapshot
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.api.task import MountedClaim, TaskClass
from scheduler.plugins.predicates.volumes.binder import Binder
from scheduler.plugins.predicates.volumes.claims import Wanted, claim_key, class_of, is_bound, selected_node, wanted_by
from scheduler.plugins.predicates.volumes.complaints import Complaints
from scheduler.plugins.predicates.volumes.csi import Disk, driver_of
from scheduler.plugins.predicates.volumes.disks import Disks
from scheduler.plugins.predicates.volumes.limits import Attachments
from scheduler.plugins.predicates.volumes.reach import Reach, Topology, Zones, zones_of

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
SHARED = frozenset({READ_WRITE_MANY, READ_ONLY_MANY})
"""Access modes of volumes that Pods on several nodes may use at once."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Equal ones have the same filters."""

    refusal: str = ""
    """Why the Pods can be nowhere, or ""."""
    reaches: tuple[Reach, ...] = ()
    """Of the volumes that are bound."""
    zones: tuple[Zones, ...] = ()
    """Of the same."""
    decided: tuple[Reach, ...] = ()
    """Where claims that are promised something can be served."""
    wanted: tuple[Wanted, ...] = ()
    """What the other claims ask for, the smallest first."""
    drivers: tuple[str, ...] = ()
    """Drivers that some node runs, and that attach disks for the Pod."""
    fresh: tuple[tuple[str, int], ...] = ()
    """Drivers with limits, and how many disks they would have to attach wherever the Pod is."""
    known: tuple[Disk, ...] = ()
    """Disks of such drivers that some nodes have attached."""


@dataclass(frozen=True, slots=True)
class Switches:
    """Which of the predicates on volumes are on."""

    zones: bool = True
    binding: bool = True
    limits: bool = True

    @property
    def any(self) -> bool:
        return self.zones or self.binding or self.limits


class _Refused(Exception):  # noqa: N818  an answer, not an error
    """The Pods of a class can be nowhere."""


Look = tuple[Situation, tuple[PersistentVolumeClaim, ...]]
"""A situation, and the claims of its ``wanted`` in their order."""


class Situations:
    """Those of one session, as far as they were asked for."""

    def __init__(
        self,
        snapshot: Snapshot,
        switches: Switches,
        topology: Topology,
        binder: Binder,
        disks: Disks,
        attachments: Callable[[], Attachments],
        complaints: Complaints,
    ) -> None:
        self._snapshot = snapshot
        self._switches = switches
        self._topology = topology
        self._binder = binder
        self._disks = disks
        self._attachments = attachments
        self._complaints = complaints
        self._known: dict[int, Look] = {}
        self._mounting: dict[str, set[int]] = {}
        """Claim -> the classes that mount it and whose situation is known."""

    def of(self, cls: TaskClass) -> Look:
        known = self._known.get(cls.id)
        if known is None:
            try:
                known = self._look(cls)
            except _Refused as refusal:
                known = Situation(refusal=str(refusal)), ()
            self._known[cls.id] = known
            for claim in cls.claims:
                self._mounting.setdefault(f"{cls.namespace}/{claim.name}", set()).add(cls.id)
        return known

    def forget(self, cls: TaskClass) -> None:
        """A Pod of a class came to a node or left it: classes that share its claims are to be looked at anew."""
        for mounted in cls.claims:
            for other in self._mounting.pop(f"{cls.namespace}/{mounted.name}", ()):
                self._known.pop(other, None)

    def _look(self, cls: TaskClass) -> Look:
        """Raises _Refused."""
        reaches: dict[Reach, None] = {}
        zones: dict[Zones, None] = {}
        decided: dict[Reach, None] = {}
        wanted: list[tuple[Wanted, PersistentVolumeClaim]] = []
        for mounted in cls.claims if self._switches.any else ():
            claim = self._claim(cls.namespace, mounted)
            if is_bound(claim):
                volume = self._volume(claim)
                if self._switches.binding:
                    reaches[self._binder.reach_of(volume)] = None
                if self._switches.zones and (named := zones_of(volume)):
                    zones[named] = None
            elif self._switches.binding:
                where = self._decided(claim)
                if where is None:
                    wanted.append((self._wanted(claim), claim))
                else:
                    decided[where] = None
        reaches.pop(self._topology.everywhere, None)
        wanted.sort(key=lambda entry: entry[0].size)
        asked = tuple(asked for asked, _ in wanted)
        situation = Situation("", tuple(reaches), tuple(zones), tuple(decided), asked, *self._to_attach(cls))
        return situation, tuple(claim for _, claim in wanted)

    # --- one claim ---
    def _claim(self, namespace: str, mounted: MountedClaim) -> PersistentVolumeClaim:
        """A claim that a Pod could use. Raises _Refused."""
        name = mounted.name
        claim = self._snapshot.claims.get(f"{namespace}/{name}")
        if claim is None and mounted.owner:
            raise _Refused(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
        if claim is None:
            raise _Refused(f'persistentvolumeclaim "{name}" not found')
        if mounted.owner and not _owned(claim.metadata.owner_references or (), mounted.owner):
            raise _Refused(f"PVC {namespace}/{name} was not created for the pod (pod is not owner)")
        if claim.status.phase == CLAIM_LOST:
            volume = claim.spec.volume_name
            raise _Refused(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
        if claim.metadata.deletion_timestamp is not None:
            raise _Refused(f'persistentvolumeclaim "{name}" is being deleted')
        if claim.spec.volume_name:
            self._volume(claim)
        if self._switches.binding and not is_bound(claim) and (claim.spec.volume_name or not self._waits(claim)):
            raise _Refused(UNBOUND)
        return claim

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim is bound only when a Pod that uses it has its node."""
        storage = self._snapshot.storage_classes.get(class_of(claim))
        return storage is not None and storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _volume(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        """The volume that a claim names. Raises _Refused."""
        volume = self._snapshot.volumes.get(claim.spec.volume_name)
        if volume is None:
            raise _Refused(f'persistentvolume "{claim.spec.volume_name}" not found')
        return volume

    def _wanted(self, claim: PersistentVolumeClaim) -> Wanted:
        """What a claim asks for. Raises _Refused if nobody can tell."""
        name = claim.metadata.name
        try:
            wanted = wanted_by(claim, self._binder.pool.reserved_for(claim))
        except QuantityError as error:
            self._complaints.about(CLAIM, claim)("spec.resources.requests", str(error))
            raise _Refused(f'persistentvolumeclaim "{name}" asks for no quantity') from None
        if not is_valid(claim.spec.selector, self._complaints.about(CLAIM, claim, "spec.selector: ")):
            raise _Refused(f'persistentvolumeclaim "{name}" has a selector that makes no sense')
        return wanted

    # --- claims that are promised something ---
    def _decided(self, claim: PersistentVolumeClaim) -> Reach | None:
        """Where an unbound claim can be served, if that is decided already; None: it is not."""
        promise = self._binder.promises.get(claim_key(claim))
        if promise is not None and promise.volume:
            volume = self._snapshot.volumes.get(promise.volume)
            return self._topology.nowhere if volume is None else self._binder.reach_of(volume)
        node = promise.node if promise is not None else selected_node(claim)
        provisioner = self._snapshot.storage_classes[class_of(claim)].provisioner
        if not node or provisioner in ("", NO_PROVISIONER):
            return None
        row = self._topology.facts.index.get(node)
        if row is None:
            return self._topology.nowhere
        shared = not SHARED.isdisjoint(claim.spec.access_modes or ())
        return self._segment(row, driver_of(provisioner)) if shared else self._topology.alone(row)

    def _segment(self, row: int, driver: str) -> Reach:
        """The nodes that reach what a driver makes for a node: those with the same labels, of the keys that the driver
        says matter there. Where it says nothing there is no telling: that node alone."""
        facts = self._topology.facts
        csi_node = self._snapshot.csi_nodes.get(facts.names[row])
        entry = next((d for d in (csi_node and csi_node.spec.drivers) or () if d.name == driver), None)
        keys = None if entry is None else entry.topology_keys or []
        labels = facts.labels[row]
        if keys is None or any(key not in labels for key in keys):
            return self._topology.alone(row)
        rows = self._topology.everywhere.rows
        for key in keys:
            rows = np.intersect1d(rows, facts.rows_with(key, labels[key]), assume_unique=True)
        return self._topology.interned(rows)

    # --- disks ---
    def _to_attach(self, cls: TaskClass) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...], tuple[Disk, ...]]:
        """``drivers``, ``fresh`` and ``known`` of a class."""
        if not self._switches.limits:
            return (), (), ()
        attachments = self._attachments()
        drivers = {disk.driver for disk in self._disks.of(cls) if disk.driver in attachments.drivers}
        limited = [disk for disk in self._disks.of_claims(cls) if disk.driver in attachments.limits]
        known = tuple(disk for disk in limited if attachments.rows.get(disk))
        fresh = Counter(disk.driver for disk in limited if disk not in known)
        return tuple(sorted(drivers)), tuple(sorted(fresh.items())), known


def _owned(owners: Iterable[OwnerReference], uid: str) -> bool:
    return any(owner.controller and owner.uid == uid for owner in owners)
