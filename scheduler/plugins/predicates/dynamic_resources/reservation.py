"""What has to be so of a ResourceClaim before a Pod that uses it is bound: its devices are written into it, and the Pod
is among those it is reserved for.

A claim that several Pods of a gang share is reserved for all of them at once. Devices may have to be made ready by
their driver first (binding conditions); that is waited for.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.api import dra
from scheduler.api.moment import format_moment, parse_moment
from scheduler.api.names import CLAIM_FINALIZER
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fails, Patch, Preparation, Step, Waits

WRITING: Final = 60.0
"""Seconds that writing a claim may take."""
READYING: Final = 600.0
"""Seconds that drivers have to make devices ready (kube-scheduler's default)."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """A Pod that uses a claim."""

    name: str
    uid: str


@dataclass(frozen=True, kw_only=True)
class ClaimReservation(Preparation):
    """One claim, for one Pod or for several."""

    uid: str
    allocation: dra.Allocation | None
    """What was decided for it; None: it was allocated before."""
    consumers: tuple[Consumer, ...]

    def step(self, found: KubeObject | None, now: float) -> Step:
        if not isinstance(found, dra.ResourceClaim) or found.metadata.uid != self.uid:
            return Fails(f"{self} is gone")
        if found.metadata.deletion_timestamp is not None:
            return Fails(f"claim {self._key} got deleted in the meantime")
        held = found.status.allocation
        if held is None:
            return self._allocate(found, now)
        if self.allocation is not None and _devices(held) != _devices(self.allocation):
            return Fails(f"claim {self._key} got allocated elsewhere in the meantime")
        missing = self._missing(found)
        if missing:
            number = len(found.status.reserved_for or ()) + len(missing)
            if number > dra.MOST_CONSUMERS:
                return Fails(
                    f"claim {self._key} would be reserved for {number} Pods, the limit is {dra.MOST_CONSUMERS}"
                )
            return _status(reservedFor=missing)
        return self._readied(found, held, now)

    def undo(self, found: KubeObject, now: float) -> Patch | None:
        """The Pods give up the claim; if nobody else has it, its devices are free again."""
        if not isinstance(found, dra.ResourceClaim) or found.metadata.uid != self.uid:
            return None
        mine = {consumer.uid for consumer in self.consumers}
        listed = {reference.uid for reference in found.status.reserved_for or ()}
        changes: dict[str, Any] = {}
        if listed & mine:
            changes["reservedFor"] = [{"$patch": "delete", "uid": uid} for uid in sorted(listed & mine)]
        held = found.status.allocation
        if held is not None and self.allocation is not None and not listed - mine:
            changes["allocation"] = None
        return _status(**changes) if changes else None

    @property
    def _key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def _missing(self, found: dra.ResourceClaim) -> list[dict[str, str]]:
        """The consumers that the claim is not reserved for yet, as references."""
        listed = {reference.uid for reference in found.status.reserved_for or ()}
        return [{"resource": "pods", "name": c.name, "uid": c.uid} for c in self.consumers if c.uid not in listed]

    def _allocate(self, found: dra.ResourceClaim, now: float) -> Step:
        if self.allocation is None:
            return Fails(f"claim {self._key} got deallocated elsewhere in the meantime")
        if CLAIM_FINALIZER not in (found.metadata.finalizers or ()):
            return Patch({"metadata": {"finalizers": [CLAIM_FINALIZER]}}, strategic=True)
        allocation = {**msgspec.to_builtins(self.allocation), "allocationTimestamp": format_moment(now)}
        return _status(allocation=allocation, reservedFor=self._missing(found))

    def _readied(self, found: dra.ResourceClaim, held: dra.Allocation, now: float) -> Step:
        """Wait for binding conditions. Where they failed, or were not met in time, and nobody else has the claim, it
        is given up so that other devices can be tried."""
        waiting = ""
        for result in held.devices.results or ():
            conditions = _conditions(found, result)
            for name in result.binding_failure_conditions or ():
                if name in conditions:
                    return self._given_up(found, f"device {_title(result)} reports {name}: {conditions[name]}")
            lacking = [name for name in result.binding_conditions or () if name not in conditions]
            waiting = waiting or (f"device {_title(result)} of claim {self._key} to be {lacking[0]}" if lacking else "")
        if not waiting:
            return None
        since = parse_moment(held.allocation_timestamp)
        if since is not None and now > since + READYING:
            return self._given_up(found, f"timed out waiting for {waiting}")
        return Waits(waiting)

    def _given_up(self, found: dra.ResourceClaim, why: str) -> Step:
        if self.allocation is not None:
            return Fails(f"claim {self._key}: {why}")  # undoing it gives it up
        mine = {consumer.uid for consumer in self.consumers}
        if {reference.uid for reference in found.status.reserved_for or ()} - mine:
            return Fails(f"claim {self._key}: {why}")
        return _status(allocation=None, reservedFor=None)


def timeout(allocation: dra.Allocation) -> float:
    """Seconds until a claim has to be ready."""
    results = allocation.devices.results or ()
    return READYING if any(result.binding_conditions for result in results) else WRITING


def _status(**changes: Any) -> Patch:
    return Patch({"status": changes}, strategic=True, subresource="status")


def _devices(allocation: dra.Allocation) -> list[tuple[str, str, str, str, str | None]]:
    """What makes two allocations the same; the rest follows from it, or is written by the server in its own way."""
    return [(r.request, r.driver, r.pool, r.device, r.share_id) for r in allocation.devices.results or ()]


def _conditions(found: dra.ResourceClaim, result: dra.DeviceResult) -> dict[str, str]:
    """The conditions that are true of a device -> message."""
    for device in found.status.devices or ():
        if (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device):
            return {c.type: c.message or c.reason for c in device.conditions or () if c.status == "True"}
    return {}


def _title(result: dra.DeviceResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"
