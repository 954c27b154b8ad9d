"""On which nodes evictions could make room for a task: a question to all nodes at once, answered by columns.

The answer errs on one side only: a node that is left out could not be opened, one that is named has to be tried.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Vector
from scheduler.api.task import Task
from scheduler.framework.extension import ExtensionPoint
from scheduler.framework.session import Session
from scheduler.framework.tenants import Mask


def compared(request: Vector) -> NDArray[np.intp]:
    """The resources in which a request is compared with a node: those asked for, and cpu and memory always (a node
    that has less than none of these takes nobody, as in ``ClassView``)."""
    return np.union1d(np.flatnonzero(request > 0), (CPU_INDEX, MEMORY_INDEX)).astype(np.intp)


def with_room(session: Session, request: Vector) -> Mask:
    """Nodes, shape (nodes,), that have the amounts now or will have them when what terminates is gone."""
    dims = compared(request)
    room: Mask = np.all(request[dims][:, np.newaxis] <= session.nodes.future_idle()[dims], axis=0)
    return room


def openings(session: Session, point: ExtensionPoint, claimant: Task, scope: Mask) -> Mask:
    """Nodes, shape (nodes,), that might have room for the task if all those of ``scope`` went of which some tier of the
    victim functions at ``point`` could approve."""
    request = claimant.cls.request
    dims = compared(request)
    future = session.nodes.future_idle()[dims]
    wanted = request[dims][:, np.newaxis]
    result: Mask = np.zeros(len(session.nodes), dtype=bool)
    if not scope.any():
        return result
    for tier in session.functions(point):
        if not tier:
            continue
        masks = [scope & _bound(session, function, claimant) for function in tier]
        reached = np.logical_and.reduce([_nodes_of(session, mask) for mask in masks])
        if not reached.any():
            continue
        going = _most(masks)
        result |= reached & (wanted <= future + freed(session, going, dims)).all(axis=0)
    return result


def freed(session: Session, going: Mask, dims: NDArray[np.intp]) -> Column:
    """What each node would have besides if all tasks of a mask went; shape (resources given, nodes)."""
    return np.stack([_sums(session, going, session.tenants.requests[d]) for d in dims.tolist()])


def _bound(session: Session, function: Any, claimant: Task) -> Mask:
    bound = session.bound(function)
    return session.tenants.present if bound is None else bound(claimant, session.tenants)


def _most(masks: Sequence[Mask]) -> Mask:
    """At least the victims of a tier. From its third function on a tier may begin anew with one function's list, if the
    lists before it have nothing in common (``Session``); then only the last function's word is sure."""
    most: Mask = np.logical_and.reduce(masks) if len(masks) < 3 else masks[-1]
    return most


def _nodes_of(session: Session, mask: Mask) -> Mask:
    nodes = np.zeros(len(session.nodes), dtype=bool)
    nodes[session.tenants.rows[mask]] = True
    return nodes


def _sums(session: Session, mask: Mask, amounts: Column) -> Column:
    """What the tasks of a mask hold, per node."""
    rows, number = session.tenants.rows[mask], len(session.nodes)
    return np.bincount(rows, weights=amounts[mask], minlength=number).astype(np.float64)
