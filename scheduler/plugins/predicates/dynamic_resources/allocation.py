"""The allocation that is written into a claim: the devices, the configuration for their drivers, and the nodes that can
use them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID, uuid5

import msgspec

from scheduler.api import dra
from scheduler.api.objects import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.api.quantity import ExactAmount
from scheduler.api.selectors import NAME_FIELD
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
