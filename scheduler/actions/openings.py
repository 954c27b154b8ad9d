"""On which nodes evictions could make room for a task: a question to all nodes at once, answered by columns.

The answer errs on one side only: a node that is left out could not be opened, one that is named has to be tried. From
one claimant to the next little changes of who might go, and only that is counted again.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column, Mask
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Vector
from scheduler.api.task import Task
from scheduler.framework.combining import Function
from scheduler.framework.extension import ExtensionPoint
from scheduler.framework.session import Session


def compared(request: Vector) -> NDArray[np.intp]:
    """The resources in which a request is compared with a node: those asked for, and cpu and memory always (a node
    that has less than none of these takes nobody, as in ``ClassView``)."""
    matters = request > 0
    matters[[CPU_INDEX, MEMORY_INDEX]] = True
    return np.flatnonzero(matters)


class Lacking:
    """What the nodes will have too little of for a request when what terminates is gone."""

    def __init__(self, session: Session, request: Vector) -> None:
        self.dims = compared(request)
        """The resources in question."""
        nodes, dims = session.nodes, self.dims
        future = nodes.idle[dims] + nodes.releasing[dims] - nodes.pipelined[dims]
        self._amounts: Column = request[dims][:, np.newaxis] - future

    def within(self, amounts: Column) -> Mask:
        """Nodes, shape (nodes,), that would have enough with so much more; shape (resources, nodes)."""
        enough: Mask = np.all(self._amounts <= amounts[self.dims], axis=0)
        return enough

    def nothing(self) -> Mask:
        """Nodes, shape (nodes,), that have enough now or will have it."""
        enough: Mask = np.all(self._amounts <= 0, axis=0)
        return enough


def freed(session: Session, going: Mask, dims: NDArray[np.intp]) -> Column:
    """What each node would have besides if all tasks of a mask went; shape (resources given, nodes)."""
    result: Column = Freed(session).by(going)[dims]
    return result


class Freed:
    """What each node would have besides if some of the tenants went."""

    def __init__(self, session: Session) -> None:
        self._tenants = tenants = session.tenants
        self._going: Mask = np.zeros(len(tenants.tasks), dtype=bool)
        self._dims: list[int] = np.flatnonzero(tenants.requests.any(axis=1)).tolist()
        self._amounts: Column = np.zeros((len(tenants.requests), len(session.nodes)))

    def by(self, going: Mask) -> Column:
        """Shape (resources, nodes), if all of a mask went; not to be changed, and good until asked again."""
        changed = np.flatnonzero(going != self._going)
        if len(changed):
            rows, signs = self._tenants.rows[changed], np.where(going[changed], 1.0, -1.0)
            for d in self._dims:  # whole numbers: what is added and taken away again leaves the same bits
                np.add.at(self._amounts[d], rows, signs * self._tenants.requests[d, changed])
            self._going = going.copy()
        return self._amounts


class Openings:
    """The nodes that evictions at one extension point could open, asked for one claimant after the other."""

    def __init__(self, session: Session, point: ExtensionPoint) -> None:
        self._session = session
        self._point = point

    @cached_property
    def _tiers(self) -> "list[_Tier]":
        """Made for the first who finds anybody in scope; many do not."""
        return [_Tier(self._session, functions) for functions in self._session.functions(self._point) if functions]

    def for_task(self, claimant: Task, lacking: Lacking, scope: Mask) -> Mask:
        """Nodes, shape (nodes,), that might have room for the task, which lacks so much, if all those of ``scope`` went
        of which some tier of the victim functions could approve."""
        result: Mask = np.zeros(len(self._session.nodes), dtype=bool)
        if scope.any():
            for tier in self._tiers:
                reached, amounts = tier.freed(claimant, scope)
                result |= reached & lacking.within(amounts)
        return result


class _Tier:
    """The victim functions of one tier."""

    def __init__(self, session: Session, functions: Sequence[Function]) -> None:
        self._session = session
        # From its third function on a tier may begin anew with one function's list, if the lists before it have nothing
        # in common (``Functions.victims``); then only the last function's word is sure, and that each has named some.
        together = [functions] if len(functions) < 3 else [[function] for function in functions]
        self._groups = [(group, Freed(session)) for group in together]

    def freed(self, claimant: Task, scope: Mask) -> tuple[Mask, Column]:
        """(nodes on which somebody might go, what each node would have besides if all those went who might)."""
        reached: Mask = np.ones(len(self._session.nodes), dtype=bool)
        for group, freed in self._groups:
            going = scope
            for function in group:
                bound = self._session.bound(function)
                if bound is not None:
                    going = going & bound(claimant, self._session.tenants)
            amounts = freed.by(going)
            reached &= amounts[PODS_INDEX] > 0
        return reached, amounts
