"""The hierarchy of queues: who stands above whom, and which queues are not in it because their parents are wrong.

A queue that names no parent stands below the root, whether or not there is a Queue object of that name. A queue whose
parents do not lead to the root (one does not exist, or they form a circle) is at fault, and so are those below it; all
others are none the worse (in Volcano one such queue stops every queue).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.api.names import ROOT_QUEUE
from scheduler.api.queue import Queue


@dataclass(slots=True)
class QueueTree:
    """The queues of a session in their hierarchy."""

    ancestors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Queue -> the queues above it, the root first. A queue at fault has only the root above it."""
    children: dict[str, list[str]] = field(default_factory=dict)
    """Queue -> the queues directly below it, in name order; those at fault are below none."""
    faults: dict[str, str] = field(default_factory=dict)
    """Queue -> why it is not in the hierarchy."""

    def leaf(self, name: str) -> bool:
        """Only queues with none below them have jobs."""
        return not self.children.get(name)

    def path(self, name: str) -> tuple[str, ...]:
        """The queue itself and those above it, nearest first: all that limit it."""
        return (name, *reversed(self.ancestors[name]))


def queue_tree(queues: Mapping[str, Queue]) -> QueueTree:
    """The hierarchy by ``spec.parent``."""
    tree = QueueTree(ancestors={ROOT_QUEUE: ()})
    for name in sorted(queues):
        above, fault = _climb(queues, name)
        tree.ancestors[name] = above
        if fault:
            tree.faults[name] = fault
        elif above:
            tree.children.setdefault(above[-1], []).append(name)
    return tree


def _climb(queues: Mapping[str, Queue], name: str) -> tuple[tuple[str, ...], str]:
    """The queues above one, root first, and what is wrong with the way up ("": nothing)."""
    if name == ROOT_QUEUE:
        return (), ""
    path = [name]
    while path[-1] != ROOT_QUEUE:
        parent = queues[path[-1]].parent or ROOT_QUEUE
        if parent != ROOT_QUEUE and parent not in queues:
            of = "" if len(path) == 1 else f"queue {path[-1]}, which is above it, has a parent that is missing: "
            return (ROOT_QUEUE,), f"{of}queue {parent} does not exist"
        if parent in path:
            circle = [*path[path.index(parent) :], parent]
            return (ROOT_QUEUE,), f"its parents form a circle: {', '.join(circle)}"
        path.append(parent)
    return tuple(reversed(path[1:])), ""
