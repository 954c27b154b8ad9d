"""The preparation of a ResourceClaim: before a Pod is bound, its claim is allocated and reserved for the Pod.

A claim that several Pods of a gang share is reserved for all of them with one write. The preparation also waits for the
binding conditions of the devices, which their driver sets.
"""

from typing import Any, Final

import msgspec

from scheduler.api import dra
from scheduler.api.names import CLAIM_FINALIZER
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from scheduler.api.times import format_timestamp, parse_timestamp

WRITE_TIMEOUT: Final = 60.0
"""Time limit, in seconds, for writing a claim."""
CONDITIONS_TIMEOUT: Final = 600.0
"""Time limit, in seconds, for the binding conditions of devices (kube-scheduler's default)."""


class Consumer(msgspec.Struct, frozen=True):
    """A Pod that uses a claim."""

    name: str
    uid: str


class ClaimReservation(Preparation, frozen=True, kw_only=True):
    """Allocates one claim and reserves it for one or more Pods."""

    uid: str
    allocation: dra.Allocation | None
    """The allocation to write; None if the claim is allocated already."""
    consumers: tuple[Consumer, ...]

    def step(self, found: KubeObject | None, now: float) -> Step:
        if not isinstance(found, dra.ResourceClaim) or found.metadata.uid != self.uid:
            return Fail(f"{self} is gone")
        if found.metadata.deletion_timestamp is not None:
            return Fail(f"claim {self._key} got deleted in the meantime")
        current = found.status.allocation
        if current is None:
            return self._allocate(found, now)
        if self.allocation is not None and _devices(current) != _devices(self.allocation):
            return Fail(f"claim {self._key} got allocated elsewhere in the meantime")
        missing = self._missing(found)
        if missing:
            number = len(found.status.reserved_for or ()) + len(missing)
            if number > dra.MAX_CONSUMERS:
                return Fail(f"claim {self._key} would be reserved for {number} Pods, the limit is {dra.MAX_CONSUMERS}")
            return _status(reservedFor=missing)
        return self._wait_for_conditions(found, current, now)

    def undo(self, found: KubeObject, now: float) -> PreparationPatch | None:
        """Removes the reservations for the Pods. If the claim is reserved for no other Pod, deallocates it."""
        if not isinstance(found, dra.ResourceClaim) or found.metadata.uid != self.uid:
            return None
        own = {consumer.uid for consumer in self.consumers}
        reserved = {reference.uid for reference in found.status.reserved_for or ()}
        changes: dict[str, Any] = {}
        if reserved & own:
            changes["reservedFor"] = [{"$patch": "delete", "uid": uid} for uid in sorted(reserved & own)]
        current = found.status.allocation
        if current is not None and self.allocation is not None and not reserved - own:
            changes["allocation"] = None
        return _status(**changes) if changes else None

    @property
    def _key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def _missing(self, found: dra.ResourceClaim) -> list[dict[str, str]]:
        """References to the consumers for which the claim is not reserved yet."""
        reserved = {reference.uid for reference in found.status.reserved_for or ()}
        return [{"resource": "pods", "name": c.name, "uid": c.uid} for c in self.consumers if c.uid not in reserved]

    def _allocate(self, found: dra.ResourceClaim, now: float) -> Step:
        if self.allocation is None:
            return Fail(f"claim {self._key} got deallocated elsewhere in the meantime")
        if CLAIM_FINALIZER not in (found.metadata.finalizers or ()):
            return PreparationPatch({"metadata": {"finalizers": [CLAIM_FINALIZER]}}, strategic=True)
        allocation = {**msgspec.to_builtins(self.allocation), "allocationTimestamp": format_timestamp(now)}
        return _status(allocation=allocation, reservedFor=self._missing(found))

    def _wait_for_conditions(self, found: dra.ResourceClaim, current: dra.Allocation, now: float) -> Step:
        """Waits for the binding conditions. If one fails or times out, and the claim is reserved for no other Pod,
        deallocates the claim, so that the next session can choose other devices."""
        waiting = ""
        for result in current.devices.results or ():
            conditions = _conditions(found, result)
            for name in result.binding_failure_conditions or ():
                if name in conditions:
                    return self._give_up(found, f"device {_title(result)} reports {name}: {conditions[name]}")
            missing = [name for name in result.binding_conditions or () if name not in conditions]
            waiting = waiting or (f"device {_title(result)} of claim {self._key} to be {missing[0]}" if missing else "")
        if not waiting:
            return None
        since = parse_timestamp(current.allocation_timestamp)
        if since is not None and now > since + CONDITIONS_TIMEOUT:
            return self._give_up(found, f"timed out waiting for {waiting}")
        return Wait(waiting)

    def _give_up(self, found: dra.ResourceClaim, why: str) -> Step:
        if self.allocation is not None:
            return Fail(f"claim {self._key}: {why}")  # ``undo`` deallocates it
        own = {consumer.uid for consumer in self.consumers}
        if {reference.uid for reference in found.status.reserved_for or ()} - own:
            return Fail(f"claim {self._key}: {why}")
        return _status(allocation=None, reservedFor=None)


def timeout(allocation: dra.Allocation) -> float:
    """The time limit, in seconds, for preparing a claim with this allocation."""
    results = allocation.devices.results or ()
    return CONDITIONS_TIMEOUT if any(result.binding_conditions for result in results) else WRITE_TIMEOUT


def _status(**changes: Any) -> PreparationPatch:
    return PreparationPatch({"status": changes}, strategic=True, subresource="status")


def _devices(allocation: dra.Allocation) -> list[tuple[str, str, str, str, str | None]]:
    """The fields by which two allocations are compared. The others depend on these, or the API server changes them."""
    return [(r.request, r.driver, r.pool, r.device, r.share_id) for r in allocation.devices.results or ()]


def _conditions(found: dra.ResourceClaim, result: dra.DeviceResult) -> dict[str, str]:
    """Condition -> message, for the conditions of a device with status True."""
    for device in found.status.devices or ():
        if (device.driver, device.pool, device.device) == (result.driver, result.pool, result.device):
            return {c.type: c.message or c.reason for c in device.conditions or () if c.status == "True"}
    return {}


def _title(result: dra.DeviceResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"
