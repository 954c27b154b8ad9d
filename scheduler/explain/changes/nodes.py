"""Changes to nodes that are there: make them fit for the Pods, free amounts on one of them."""

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
from scheduler.explain.changes.mending import Mend, mended, mends, words
from scheduler.framework.columns import AmountFilter
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.node_amounts import amount_adjustment, amounts_on, growth
from scheduler.framework.remedies.nodes import compared, passing, room
from scheduler.framework.remedies.registry import node_labels_of

_MOST_NODES: Final = 256
_SPARE: Final = 4


# --- nodes that are there ---
def mend_nodes(evidence: Evidence) -> Iterator[Plan]:
    """Take away the taints, the cordon or the want of labels that keep the Pods off nodes with room."""
    with evidence.crowded() as left:
        if not left:
            return
        idle = evidence.session.nodes.idle
        found = [
            (mend.size, -fitting, row, mend)
            for row, mend in mendable(evidence, left[0]).items()
            if (fitting := room(idle[:, row], left[0].cls)) > 0
        ]
        number = len(left)
    found.sort(key=lambda entry: entry[:3])
    if found:
        guess = int(np.searchsorted(np.cumsum([-fitting for _, fitting, _, _ in found]), number)) + 1
        chosen = [mend for _, _, _, mend in found[:_MOST_NODES]]
        yield (mend_adjustment(chosen, min(guess, len(chosen))),)


def mend_adjustment(chosen: Sequence[Mend], guess: int, what: str = "") -> Adjustment:
    def at(degree: int) -> Step:
        return Step(words(chosen[:degree]), tuple(_mend_edit(mend) for mend in chosen[:degree]))

    def apart(degree: int) -> Plan:
        return tuple(mend_adjustment([mend], 1, mend.node) for mend in chosen[:degree])

    return Adjustment(ChangeKind.NODES_MADE_FIT, guess, len(chosen), at, what, apart=apart)


def _mend_edit(mend: Mend) -> Edit:
    return Edit(NODE, "", mend.node, partial(mended, mend))


def free_amounts(evidence: Evidence) -> Iterator[Plan]:
    """More of what is short on the one node where that is least, as far as there are machines of that size; on a node
    that has to be made fit first only if there is no other."""
    session = evidence.session
    with evidence.crowded() as left:
        if not left:
            yield from _in_hyper_node(evidence)
            return
        classes = {task.cls.id: task.cls for task in left}.values()
        fits = np.zeros(len(session.nodes), dtype=bool)
        fits[evidence.rows] = True
        for cls in classes:
            filters = [f for f in session.filters(cls, evidence.job) if not isinstance(f, AmountFilter)]
            fits &= passing(session, filters)
        fits &= _offering(evidence, left)
        mend_of = {} if fits.any() else mendable(evidence, left[0])
        rows: Rows = np.flatnonzero(fits if fits.any() else _offering(evidence, left))
        rows = rows if fits.any() else np.intersect1d(rows, np.array(list(mend_of), dtype=np.intp))
        if not len(rows):
            return
        dims = sorted({d for cls in classes for d in compared(cls)} | {PODS_INDEX})
        need = session.dimensions.zeros()
        for task in left:
            need += task.cls.request
        short = np.maximum(need[dims][:, np.newaxis] - session.nodes.idle[dims][:, rows], 0)
        largest = session.nodes.allocatable[dims][:, evidence.rows].max(axis=1)
        exists = (session.nodes.allocatable[dims][:, rows] + short <= largest[:, np.newaxis]).all(axis=0)
        rows, short = rows[exists], short[:, exists]
        if not len(rows):
            return
        weighed = (short / np.maximum(session.total[dims], 1)[:, np.newaxis]).sum(axis=0)
        row = int(rows[int(weighed.argmin())])
        adjustments = amounts_on(evidence, row, left)
    if adjustments and row in mend_of:
        adjustments.insert(0, mend_adjustment([mend_of[row]], 1, session.nodes.names[row]))
    if adjustments:
        yield tuple(adjustments)


def _in_hyper_node(evidence: Evidence) -> Iterator[Plan]:
    """The Pods find nodes, though not close enough to each other: more on the emptiest node of the HyperNode that comes
    nearest."""
    session = evidence.session
    adjustments = []
    for shortage in evidence.shortages("HyperNode"):
        hyper_node, d = session.hyper_nodes.get(shortage.name), session.dimensions.find(shortage.resource)
        rows = np.intersect1d(hyper_node.rows, evidence.rows) if hyper_node is not None else ()
        guess = units(shortage.resource, shortage.missing)
        if d is not None and len(rows) and guess > 0:
            row = int(rows[session.nodes.idle[d, rows].argmax()])
            if guess <= growth(evidence, row, d):
                adjustments.append(amount_adjustment(evidence, row, d, guess))
    if adjustments:
        yield tuple(adjustments)


def _offering(evidence: Evidence, left: Sequence[Task]) -> NDArray[np.bool_]:
    """Shape (nodes,): nodes that have some of every device that is asked for; a machine does not grow one."""
    nodes = evidence.session.nodes
    offers = np.ones(len(nodes), dtype=bool)
    for task in left:
        for d in np.flatnonzero(task.cls.request).tolist():
            if d not in (CPU_INDEX, MEMORY_INDEX, PODS_INDEX):
                offers &= nodes.allocatable[d] > 0
    return offers


def mendable(evidence: Evidence, task: Task) -> dict[int, Mend]:
    """Row -> what has to change about its taints, cordon and labels."""
    nodes, labels = evidence.session.nodes.facts.objects, node_labels_of(evidence)
    return {
        row: mend
        for row in evidence.rows.tolist()
        if (mend := mends(nodes[row], task.cls.spec, labels)) is not None and mend.needed
    }
