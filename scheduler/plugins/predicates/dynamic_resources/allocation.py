"""The allocation of a ResourceClaim: the devices, the configuration for their drivers, and the nodes that can use them;
and the preparation that writes it and reserves the claim before a Pod is bound.

A claim that several Pods of a gang share is reserved for all of them with one write. The preparation also waits for the
binding conditions of the devices, which their driver sets.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid5

import msgspec

from scheduler.api import dra
from scheduler.api.names import CLAIM_FINALIZER
from scheduler.api.objects import KubeObject, NodeSelector, NodeSelectorTerm, Requirement
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from scheduler.api.quantity import ExactAmount
from scheduler.api.selectors import NAME_FIELD
from scheduler.api.times import format_timestamp, parse_timestamp
from scheduler.plugins.predicates.dynamic_resources.books import Pick
from scheduler.plugins.predicates.dynamic_resources.demand import ClaimDemand
from scheduler.plugins.predicates.dynamic_resources.devices import SlicedDevice

_SHARES: Final = UUID("4c1d3a52-90d0-5a3e-8d8c-0a8c4f6f3f5b")
_FROM_CLASS, _FROM_CLAIM = "FromClass", "FromClaim"


def allocation(
    uid: str, demand: ClaimDemand, picks: Sequence[Pick], node: str, classes: Mapping[str, dra.DeviceClass]
) -> dra.Allocation:
    """The allocation of the claim ``uid`` from devices chosen on a node. Share ids are derived from claim and device,
    so the same decision yields the same allocation."""
    results = [_result(uid, number, pick) for number, pick in enumerate(picks)]
    return dra.Allocation(
        devices=dra.DeviceResults(results=results, config=_configuration(demand, picks, classes) or None),
        node_selector=_node_selector([pick.device for pick in picks], node),
    )


def _result(uid: str, number: int, pick: Pick) -> dra.DeviceResult:
    device, alternative = pick.device, pick.alternative
    return dra.DeviceResult(
        request=alternative.name,
        driver=device.driver,
        pool=device.pool,
        device=device.spec.name,
        admin_access=True if alternative.spec.admin_access else None,
        tolerations=alternative.spec.tolerations,
        binding_conditions=device.spec.binding_conditions,
        binding_failure_conditions=device.spec.binding_failure_conditions,
        share_id=str(uuid5(_SHARES, f"{uid}/{number}/{'/'.join(device.id)}")) if device.shared else None,
        consumed_capacity={name: str(ExactAmount(amount)) for name, amount in pick.consumed.items()} or None,
    )


def _configuration(
    demand: ClaimDemand, picks: Iterable[Pick], classes: Mapping[str, dra.DeviceClass]
) -> list[dra.AllocatedConfiguration]:
    """The configuration of each chosen DeviceClass, then the configuration of the claim for the chosen alternatives."""
    chosen = list(dict.fromkeys(pick.alternative for pick in picks))
    by_class: dict[str, list[str]] = {}
    for alternative in chosen:
        by_class.setdefault(alternative.device_class, []).append(alternative.name)
    result = [
        dra.AllocatedConfiguration(source=_FROM_CLASS, requests=names, opaque=config.opaque)
        for name, names in by_class.items()
        for config in classes[name].spec.config or ()
    ]
    result += [
        dra.AllocatedConfiguration(source=_FROM_CLAIM, requests=config.requests, opaque=config.opaque)
        for config in demand.config
        if not config.requests or any(alternative.listed_in(config.requests) for alternative in chosen)
    ]
    return result


def _node_selector(devices: Iterable[SlicedDevice], node: str) -> NodeSelector | None:
    """Selects the nodes that can use all the devices: only ``node`` if one of them is bound to it. None for all
    nodes."""
    fields: dict[bytes, Requirement] = {}
    expressions: dict[bytes, Requirement] = {}
    for device in devices:
        if device.node_name or device.spec.binds_to_node:
            only = Requirement(key=NAME_FIELD, operator="In", values=[node])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[only])])
        for term in (device.node_selector.node_selector_terms if device.node_selector else ())[:1]:
            fields |= {msgspec.json.encode(r): r for r in term.match_fields or ()}
            expressions |= {msgspec.json.encode(r): r for r in term.match_expressions or ()}
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(
        match_fields=list(fields.values()) or None, match_expressions=list(expressions.values()) or None
    )
    return NodeSelector(node_selector_terms=[term])


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
