"""Adjustments that free amounts on one node, up to the size of the largest node."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from scheduler.api.kinds import NODE
from scheduler.api.resource import PODS_INDEX, format_amount
from scheduler.api.task import Task
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.nodes import compared_resources

_MAX_FACTOR: Final = 4


def missing_amounts(evidence: Evidence, row: int, tasks: Sequence[Task], without: int = -1) -> list[Adjustment] | None:
    """Returns the amounts that a node lacks for all the tasks, without the resource ``without``. None: no node is that
    large."""
    session, adjustments = evidence.session, []
    for d in sorted({d for task in tasks for d in compared_resources(task.cls)} | {PODS_INDEX}):
        resource, need = session.dimensions.names[d], sum(float(task.cls.request[d]) for task in tasks)
        estimate = units(resource, need - float(session.nodes.idle[d, row]))
        if estimate > 0 and d != without:
            if estimate > growth(evidence, row, d):
                return None
            adjustments.append(amount_adjustment(evidence, row, d, estimate))
    return adjustments


def amount_adjustment(evidence: Evidence, row: int, d: int, estimate: int) -> Adjustment:
    """Returns an adjustment that adds an amount of one resource to a node. ``estimate``: the units that should be
    enough."""
    nodes, resource = evidence.session.nodes, evidence.session.dimensions.names[d]
    change = partial(_with_more, nodes.names[row], resource, float(nodes.allocatable[d, row]))
    most = max(estimate, min(estimate * _MAX_FACTOR, growth(evidence, row, d)))
    return Adjustment(ChangeKind.AMOUNT, estimate, most, change, resource, grain_of(resource))


def growth(evidence: Evidence, row: int, d: int) -> int:
    """Returns the units that the node may gain before it is as large as the largest node."""
    nodes = evidence.session.nodes
    unit = unit_of(evidence.session.dimensions.names[d])
    return int((nodes.allocatable[d, evidence.rows].max() - nodes.allocatable[d, row]) // unit)


def _with_more(node: str, resource: str, now: float, amount: int) -> Step:
    more = amount * unit_of(resource)

    def enlarged(raw: Raw) -> Raw:
        status = raw.setdefault("status", {})
        for field in ("allocatable", "capacity"):
            if field == "allocatable" or resource in (status.get(field) or {}):
                status[field] = {**(status.get(field) or {}), resource: format_amount(resource, now + more)}
        return raw

    text = f"{quantity(resource, more)} {resource} more on node {node}"
    return Step(text, (Edit(NODE, "", node, enlarged),))
