"""What admission knows of the cluster: the Queues and Namespaces that watches deliver.

A watch lags a little. A queue that a decision looks up in vain is read from the API server (``reader``) before a write
is refused because the queue does not exist, and the decision is made again.
"""

from collections.abc import Iterable, Mapping

from scheduler.api.kinds import NAMESPACE, QUEUE
from scheduler.api.names import PODS
from scheduler.api.objects import KubeObject, Namespace
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.scheduling import Queue

Keys = set[tuple[str, str]]
"""Kinds and names of objects."""


class WatchedView:
    """The sink of the informers, and what they have delivered."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._changed: Keys | None = None

    def upsert(self, kind: str, obj: KubeObject) -> None:
        if kind == QUEUE.name and isinstance(obj, Queue):
            self._queues[obj.metadata.name] = obj
        elif kind == NAMESPACE.name and isinstance(obj, Namespace):
            self._namespaces[obj.metadata.name] = obj
        if self._changed is not None:
            self._changed.add((kind, obj.metadata.name))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        (self._queues if kind == QUEUE.name else self._namespaces).pop(name, None)
        if self._changed is not None:
            self._changed.add((kind, name))

    def follow(self) -> Keys:
        """The keys of all objects, to which those that change are added. For one follower: until the next call, and
        until ``unfollow``."""
        self._changed = {(QUEUE.name, name) for name in self._queues}
        self._changed |= {(NAMESPACE.name, name) for name in self._namespaces}
        return self._changed

    def unfollow(self) -> None:
        self._changed = None

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)


class CompletedView:
    """A ClusterView for one decision: what watches delivered, and queues that were read for it. It notes which queues
    it lacks."""

    def __init__(self, view: WatchedView, read: Mapping[str, Queue]) -> None:
        self._view = view
        self._read = read
        self.missed: set[str] = set()

    def queue(self, name: str) -> Queue | None:
        found = self._read.get(name) or self._view.queue(name)
        if found is None and name:
            self.missed.add(name)
        return found

    def queues(self) -> Iterable[Queue]:
        watched = self._view.queues()
        if not self._read:
            return watched
        return [*(queue for queue in watched if queue.metadata.name not in self._read), *self._read.values()]

    def namespace(self, name: str) -> Namespace | None:
        return self._view.namespace(name)

    def bound_pods(self, queue: str) -> int:
        """As the scheduler last wrote it into the queue's status, which Volcano trusts as well: no Pod is watched."""
        found = self.queue(queue)
        allocated = found.status.allocated if found else None
        try:
            return parse_quantity((allocated or {}).get(PODS, 0))
        except QuantityError:
            return 0
