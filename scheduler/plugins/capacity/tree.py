"""The hierarchy of queues, and the queues outside of it because of invalid parents.

A queue without a parent is a child of the root, whether or not a Queue object ``root`` exists. A queue whose ancestors
do not lead to the root (one does not exist, or they form a cycle) is invalid, and so are its descendants. Other queues
are not affected (in Volcano one such queue stops all queues).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.api.names import ROOT_QUEUE
from scheduler.api.queue import Queue


@dataclass(slots=True)
class QueueTree:
    """The queues of a session in their hierarchy."""

    ancestors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Queue -> its ancestors, the root first. An invalid queue has only the root."""
    children: dict[str, list[str]] = field(default_factory=dict)
    """Queue -> its children, sorted by name, without invalid queues."""
    faults: dict[str, str] = field(default_factory=dict)
    """Invalid queue -> the reason."""

    def is_leaf(self, name: str) -> bool:
        """Whether a queue has no children. Only such queues may have jobs."""
        return not self.children.get(name)

    def path(self, name: str) -> tuple[str, ...]:
        """Returns the queue and its ancestors, nearest first; the limits of all apply."""
        return (name, *reversed(self.ancestors[name]))


def queue_tree(queues: Mapping[str, Queue]) -> QueueTree:
    """Builds the hierarchy from ``spec.parent``."""
    tree = QueueTree(ancestors={ROOT_QUEUE: ()})
    for name in sorted(queues):
        above, fault = _find_ancestors(queues, name)
        tree.ancestors[name] = above
        if fault:
            tree.faults[name] = fault
        elif above:
            tree.children.setdefault(above[-1], []).append(name)
    return tree


def _find_ancestors(queues: Mapping[str, Queue], name: str) -> tuple[tuple[str, ...], str]:
    """Returns the ancestors of a queue, root first, and why they are invalid ("" if they are valid)."""
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
