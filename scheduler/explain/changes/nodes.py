"""Changes to existing nodes: adapts taints and labels to the Pods, frees amounts on one node."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.kinds import NODE
from scheduler.api.node import Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX
from scheduler.api.task import Task
from scheduler.api.written_amounts import units
from scheduler.explain.changes.node_fixes import NodeFix, fix_for, fixed_node, words
from scheduler.framework.columns import AmountFilter
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.node_amounts import amount_adjustment, growth, missing_amounts
from scheduler.framework.remedies.nodes import compared_resources, passing_nodes, room
from scheduler.framework.remedies.registry import node_labels_of

_MAX_NODES: Final = 256
_MAX_FACTOR: Final = 4


def fix_nodes(evidence: Evidence) -> Iterator[Plan]:
    """Removes taints and cordons and sets labels, so that nodes with room accept the Pods."""
    with evidence.unplaced_tasks() as unplaced:
        if not unplaced:
            return
        idle = evidence.session.nodes.idle
        found = [
            (fix.size, -fitting, row, fix)
            for row, fix in node_fixes(evidence, unplaced[0]).items()
            if (fitting := room(idle[:, row], unplaced[0].cls)) > 0
        ]
        number = len(unplaced)
    found.sort(key=lambda entry: entry[:3])
    if found:
        estimate = int(np.searchsorted(np.cumsum([-fitting for _, fitting, _, _ in found]), number)) + 1
        chosen = [fix for _, _, _, fix in found[:_MAX_NODES]]
        yield (fix_adjustment(chosen, min(estimate, len(chosen))),)


def fix_adjustment(chosen: Sequence[NodeFix], estimate: int, what: str = "") -> Adjustment:
    def at(amount: int) -> Step:
        return Step(words(chosen[:amount]), tuple(_fix_edit(fix) for fix in chosen[:amount]))

    def split(amount: int) -> Plan:
        return tuple(fix_adjustment([fix], 1, fix.node) for fix in chosen[:amount])

    return Adjustment(ChangeKind.NODES_MADE_FIT, estimate, len(chosen), at, what, split=split)


def _fix_edit(fix: NodeFix) -> Edit:
    return Edit(NODE, "", fix.node, partial(fixed_node, fix))


def free_amounts(evidence: Evidence) -> Iterator[Plan]:
    """Frees what is short on the node with the smallest shortage, up to the size of the largest node. A node whose
    taints or labels must change first is used only if there is no other."""
    session = evidence.session
    with evidence.unplaced_tasks() as unplaced:
        if not unplaced:
            yield from _in_hyper_node(evidence)
            return
        classes = {task.cls.id: task.cls for task in unplaced}.values()
        fits = np.zeros(len(session.nodes), dtype=bool)
        fits[evidence.rows] = True
        for cls in classes:
            filters = [f for f in session.filters(cls, evidence.job) if not isinstance(f, AmountFilter)]
            fits &= passing_nodes(session, filters)
        fits &= _with_requested_devices(evidence, unplaced)
        fixes = {} if fits.any() else node_fixes(evidence, unplaced[0])
        rows: Rows = np.flatnonzero(fits if fits.any() else _with_requested_devices(evidence, unplaced))
        rows = rows if fits.any() else np.intersect1d(rows, np.array(list(fixes), dtype=np.intp))
        if not len(rows):
            return
        dims = sorted({d for cls in classes for d in compared_resources(cls)} | {PODS_INDEX})
        need = session.dimensions.zeros()
        for task in unplaced:
            need += task.cls.request
        short = np.maximum(need[dims][:, np.newaxis] - session.nodes.idle[dims][:, rows], 0)
        largest = session.nodes.allocatable[dims][:, evidence.rows].max(axis=1)
        exists = (session.nodes.allocatable[dims][:, rows] + short <= largest[:, np.newaxis]).all(axis=0)
        rows, short = rows[exists], short[:, exists]
        if not len(rows):
            return
        weighed = (short / np.maximum(session.total[dims], 1)[:, np.newaxis]).sum(axis=0)
        row = int(rows[int(weighed.argmin())])
        adjustments = missing_amounts(evidence, row, unplaced)
    if adjustments and row in fixes:
        adjustments.insert(0, fix_adjustment([fixes[row]], 1, session.nodes.names[row]))
    if adjustments:
        yield tuple(adjustments)


def _in_hyper_node(evidence: Evidence) -> Iterator[Plan]:
    """Frees amounts where the Pods find nodes, but not within one HyperNode: on the emptiest node of the HyperNode
    with the smallest shortage."""
    session = evidence.session
    adjustments = []
    for shortage in evidence.shortages("HyperNode"):
        hyper_node, d = session.hyper_nodes.get(shortage.name), session.dimensions.find(shortage.resource)
        rows = np.intersect1d(hyper_node.rows, evidence.rows) if hyper_node is not None else ()
        estimate = units(shortage.resource, shortage.missing)
        if d is not None and len(rows) and estimate > 0:
            row = int(rows[session.nodes.idle[d, rows].argmax()])
            if estimate <= growth(evidence, row, d):
                adjustments.append(amount_adjustment(evidence, row, d, estimate))
    if adjustments:
        yield tuple(adjustments)


def _with_requested_devices(evidence: Evidence, unplaced: Sequence[Task]) -> NDArray[np.bool_]:
    """Shape (nodes,): the nodes that have some of every requested device. Devices cannot be added to a node."""
    nodes = evidence.session.nodes
    offers = np.ones(len(nodes), dtype=bool)
    for task in unplaced:
        for d in np.flatnonzero(task.cls.request).tolist():
            if d not in (CPU_INDEX, MEMORY_INDEX, PODS_INDEX):
                offers &= nodes.allocatable[d] > 0
    return offers


def node_fixes(evidence: Evidence, task: Task) -> dict[int, NodeFix]:
    """Row -> the changes to its taints, cordon and labels."""
    nodes, labels = evidence.session.nodes.facts.objects, node_labels_of(evidence)
    return {
        row: fix
        for row in evidence.rows.tolist()
        if (fix := fix_for(nodes[row], task.cls.spec, labels)) is not None and fix.needed
    }
