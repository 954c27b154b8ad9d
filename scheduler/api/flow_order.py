"""The order of the steps of a JobFlow, which must form a directed acyclic graph.

Admission refuses a flow without such an order, and the controllers run none that was stored without admission.
"""

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from scheduler.api.batch import Flow


class OrderProblem(NamedTuple):
    """Why the steps cannot be ordered: one of the two."""

    cycle: tuple[str, ...] = ()
    """Steps each of which waits for another of them; the first is also the last."""
    undefined: tuple[str, str] = ("", "")
    """A step, and a target of it that is no step."""


def order_problem(steps: Sequence[Flow]) -> OrderProblem | None:
    """The first problem; None if the steps can be ordered."""
    graph: dict[str, list[str]] = {}
    for each in steps:  # a step that occurs twice waits for the targets of both
        graph.setdefault(each.name, []).extend((each.depends_on.targets or []) if each.depends_on else [])
    for step, targets in graph.items():
        for target in targets:
            if target not in graph:
                return OrderProblem(undefined=(step, target))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return OrderProblem(cycle=tuple(error.args[1]))
    return None
