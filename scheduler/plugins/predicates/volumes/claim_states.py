"""The state of the claims of a class of Pods at one time.

A claim is bound, and its volume determines the nodes; or it waits for its Pod (``WaitForFirstConsumer``), and gets an
available or a provisioned volume; or the Pod has to wait. Classes with equal states have the same filters.
"""

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np

from scheduler.api.kinds import CLAIM, CSI_NODE, STORAGE_CLASS, VOLUME
from scheduler.api.names import CLAIM_LOST, NO_PROVISIONER, READ_ONLY_MANY, READ_WRITE_MANY, WAIT_FOR_FIRST_CONSUMER
from scheduler.api.objects import is_controlled_by
from scheduler.api.quantity import QuantityError
from scheduler.api.selectors import is_valid
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.api.task import MountedClaim, TaskClass
from scheduler.plugins.predicates.volumes.attachments import Attachments, Disk, Disks, driver_of
from scheduler.plugins.predicates.volumes.binder import Binder
from scheduler.plugins.predicates.volumes.claims import (
    ClaimRequest,
    claim_key,
    class_of,
    is_bound,
    request_of,
    selected_node,
)
from scheduler.plugins.predicates.volumes.topology import NodeSet, Zones, zones_of

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
SHARED = frozenset({READ_WRITE_MANY, READ_ONLY_MANY})
"""Access modes of volumes that Pods on several nodes may use at the same time."""


class ClaimState(msgspec.Struct, frozen=True):
    """Everything about the claims of a class that filters depend on."""

    refusal: str = ""
    """Why no node can run the Pods, or ""."""
    volume_nodes: tuple[NodeSet, ...] = ()
    """The nodes from which each bound volume is accessible."""
    zones: tuple[Zones, ...] = ()
    """The zones and regions of each bound volume."""
    reserved_nodes: tuple[NodeSet, ...] = ()
    """The nodes from which the volume of each claim with a reservation is, or will be, accessible."""
    requests: tuple[ClaimRequest, ...] = ()
    """The requests of the other unbound claims, the smallest first."""
    drivers: tuple[str, ...] = ()
    """The drivers of the Pod's disks that run on at least one node."""
    unattached: tuple[tuple[str, int], ...] = ()
    """Driver with limits -> the number of the Pod's disks that are attached to no node."""
    attached: tuple[Disk, ...] = ()
    """The Pod's disks of drivers with limits that are attached to at least one node."""


class EnabledFilters(msgspec.Struct, frozen=True):
    """Which of the volume filters are enabled: VolumeZone, VolumeBinding, NodeVolumeLimits."""

    zones: bool = True
    binding: bool = True
    limits: bool = True

    @property
    def any(self) -> bool:
        return self.zones or self.binding or self.limits


class _Unschedulable(Exception):  # noqa: N818  a result, not an error
    """No node can run the Pods of a class; the message says why."""


StateAndClaims = tuple[ClaimState, tuple[PersistentVolumeClaim, ...]]
"""A state, and the claims of its ``requests`` in the same order."""


class ClaimStates:
    """The claim states of a session's classes, computed on first use."""

    def __init__(
        self, binder: Binder, enabled: EnabledFilters, disks: Disks, attachments: Callable[[], Attachments]
    ) -> None:
        """``attachments``: called when the first class with disks needs them."""
        self._snapshot = binder.snapshot
        self._enabled = enabled
        self._topology = binder.topology
        self._binder = binder
        self._disks = disks
        self._attachments = attachments
        self._reporters = binder.reporters
        self._cached: dict[int, StateAndClaims] = {}
        self._mounting: dict[str | Disk, set[int]] = {}
        """Claim, or disk of a claim -> ids of the classes that mount it and whose state is cached."""

    def of(self, cls: TaskClass) -> StateAndClaims:
        cached = self._cached.get(cls.id)
        if cached is None:
            try:
                cached = self._compute(cls)
            except _Unschedulable as refusal:
                cached = ClaimState(refusal=str(refusal)), ()
            self._cached[cls.id] = cached
            for mounted in self._mounted(cls):
                self._mounting.setdefault(mounted, set()).add(cls.id)
        return cached

    def invalidate(self, cls: TaskClass) -> None:
        """Discards the states of all classes that share claims or disks with a class. Called when one of its Pods is
        placed on, or removed from, a node."""
        for mounted in self._mounted(cls):
            for other in self._mounting.pop(mounted, ()):
                self._cached.pop(other, None)

    def _mounted(self, cls: TaskClass) -> list[str | Disk]:
        claims: list[str | Disk] = [f"{cls.namespace}/{mounted.name}" for mounted in cls.claims]
        return [*claims, *self._disks.of_claims(cls)] if self._enabled.limits else claims

    def _compute(self, cls: TaskClass) -> StateAndClaims:
        """Computes the state of a class. Raises _Unschedulable."""
        volume_nodes: dict[NodeSet, None] = {}
        zones: dict[Zones, None] = {}
        reserved_nodes: dict[NodeSet, None] = {}
        requests: list[tuple[ClaimRequest, PersistentVolumeClaim]] = []
        for mounted in cls.claims if self._enabled.any else ():
            claim = self._claim(cls.namespace, mounted)
            if is_bound(claim):
                volume = self._volume(claim)
                if self._enabled.binding:
                    volume_nodes[self._binder.nodes_of(volume)] = None
                if self._enabled.zones and (volume_zones := zones_of(volume)):
                    zones[volume_zones] = None
            elif self._enabled.binding:
                nodes = self._reserved_nodes(claim)
                if nodes is None:
                    requests.append((self._request(claim), claim))
                else:
                    reserved_nodes[nodes] = None
        volume_nodes.pop(self._topology.everywhere, None)
        requests.sort(key=lambda entry: entry[0].size)
        ordered = tuple(request for request, _ in requests)
        state = ClaimState("", tuple(volume_nodes), tuple(zones), tuple(reserved_nodes), ordered, *self._to_attach(cls))
        return state, tuple(claim for _, claim in requests)

    # --- one claim ---
    def _claim(self, namespace: str, mounted: MountedClaim) -> PersistentVolumeClaim:
        """The claim that a Pod mounts. Raises _Unschedulable."""
        name = mounted.name
        claim = self._snapshot.objects[CLAIM].get(f"{namespace}/{name}")
        if claim is None and mounted.owner:
            raise _Unschedulable(
                f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            )
        if claim is None:
            raise _Unschedulable(f'persistentvolumeclaim "{name}" not found')
        if mounted.owner and not is_controlled_by(claim, mounted.owner):
            raise _Unschedulable(f"PVC {namespace}/{name} was not created for the pod (pod is not owner)")
        if claim.status.phase == CLAIM_LOST:
            volume = claim.spec.volume_name
            raise _Unschedulable(f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"')
        if claim.metadata.deletion_timestamp is not None:
            raise _Unschedulable(f'persistentvolumeclaim "{name}" is being deleted')
        if claim.spec.volume_name:
            self._volume(claim)
        if self._enabled.binding and not is_bound(claim) and (claim.spec.volume_name or not self._waits_for_pod(claim)):
            raise _Unschedulable(UNBOUND)
        return claim

    def _waits_for_pod(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the claim's storage class has the binding mode WaitForFirstConsumer."""
        storage = self._snapshot.objects[STORAGE_CLASS].get(class_of(claim))
        return storage is not None and storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def _volume(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        """The volume that a claim names. Raises _Unschedulable."""
        volume = self._snapshot.objects[VOLUME].get(claim.spec.volume_name)
        if volume is None:
            raise _Unschedulable(f'persistentvolume "{claim.spec.volume_name}" not found')
        return volume

    def _request(self, claim: PersistentVolumeClaim) -> ClaimRequest:
        """The request of a claim. Raises _Unschedulable if it is invalid."""
        name = claim.metadata.name
        try:
            request = request_of(claim, self._binder.pool.prebound_volume(claim))
        except QuantityError as error:
            self._reporters.reporter(CLAIM, claim)("spec.resources.requests", str(error))
            raise _Unschedulable(f'persistentvolumeclaim "{name}" asks for no quantity') from None
        if not is_valid(claim.spec.selector, self._reporters.reporter(CLAIM, claim, "spec.selector: ")):
            raise _Unschedulable(f'persistentvolumeclaim "{name}" has a selector that makes no sense')
        return request

    # --- claims with a reservation ---
    def _reserved_nodes(self, claim: PersistentVolumeClaim) -> NodeSet | None:
        """The nodes from which the volume of an unbound claim is, or will be, accessible; None without a
        reservation."""
        reservation = self._binder.reservations.get(claim_key(claim))
        if reservation is not None and reservation.volume:
            volume = self._snapshot.objects[VOLUME].get(reservation.volume)
            return self._topology.nowhere if volume is None else self._binder.nodes_of(volume)
        node = reservation.node if reservation is not None else selected_node(claim)
        provisioner = self._snapshot.objects[STORAGE_CLASS][class_of(claim)].provisioner
        if not node or provisioner in ("", NO_PROVISIONER):
            return None
        row = self._topology.facts.index.get(node)
        if row is None:
            return self._topology.nowhere
        shared = not SHARED.isdisjoint(claim.spec.access_modes or ())
        return self._topology_segment(row, driver_of(provisioner)) if shared else self._topology.single(row)

    def _topology_segment(self, row: int, driver: str) -> NodeSet:
        """The nodes from which a volume that a driver provisions for a node is accessible: the nodes with the same
        values of the driver's topology keys (CSINode). Without topology keys it is the node alone."""
        facts = self._topology.facts
        csi_node = self._snapshot.objects[CSI_NODE].get(facts.names[row])
        entry = next((d for d in (csi_node and csi_node.spec.drivers) or () if d.name == driver), None)
        keys = None if entry is None else entry.topology_keys or []
        labels = facts.labels[row]
        if keys is None or any(key not in labels for key in keys):
            return self._topology.single(row)
        rows = self._topology.everywhere.rows
        for key in keys:
            rows = np.intersect1d(rows, facts.rows_with(key, labels[key]), assume_unique=True)
        return self._topology.interned(rows)

    # --- disks ---
    def _to_attach(self, cls: TaskClass) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...], tuple[Disk, ...]]:
        """Returns ``drivers``, ``unattached`` and ``attached`` of a class."""
        if not self._enabled.limits:
            return (), (), ()
        attachments = self._attachments()
        drivers = {disk.driver for disk in self._disks.of(cls) if disk.driver in attachments.drivers}
        limited = [disk for disk in self._disks.of_claims(cls) if disk.driver in attachments.limits]
        attached = tuple(disk for disk in limited if attachments.rows.get(disk))
        unattached = Counter(disk.driver for disk in limited if disk not in attached)
        return tuple(sorted(drivers)), tuple(sorted(unattached.items())), attached
