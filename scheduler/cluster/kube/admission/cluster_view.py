"""The ClusterView of the webhook server: the Queues and Namespaces that watches deliver.

A watch lags behind the API server. Before a write is refused because a queue does not exist, ``cluster_reader`` reads
the queue from the API server, and the decision is repeated.
"""

from collections.abc import Iterable, Mapping

from scheduler.api.kinds import NAMESPACE, QUEUE, Kind
from scheduler.api.names import PODS
from scheduler.api.objects import KubeObject, Namespace
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.scheduling import Queue

Keys = set[tuple[str, str]]
"""Kinds and names of objects."""


class WatchedView:
    """The objects that the informers have delivered."""

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._changed: Keys | None = None

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        if isinstance(obj, Queue):
            self._queues[obj.metadata.name] = obj
        elif isinstance(obj, Namespace):
            self._namespaces[obj.metadata.name] = obj
        if self._changed is not None:
            self._changed.add((kind.name, obj.metadata.name))

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        (self._queues if kind is QUEUE else self._namespaces).pop(name, None)
        if self._changed is not None:
            self._changed.add((kind.name, name))

    def track_changes(self) -> Keys:
        """Returns the keys of all objects, a set to which the keys of changed objects are added.

        The set is updated until the next call or ``stop_tracking``.
        """
        self._changed = {(QUEUE.name, name) for name in self._queues}
        self._changed |= {(NAMESPACE.name, name) for name in self._namespaces}
        return self._changed

    def stop_tracking(self) -> None:
        self._changed = None

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queues(self) -> Iterable[Queue]:
        return self._queues.values()

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)


class DecisionView:
    """A ClusterView for one decision: the watched objects and the queues read for it. Records the missing queues."""

    def __init__(self, view: WatchedView, read: Mapping[str, Queue]) -> None:
        self._view = view
        self._read = read
        self.missing_queues: set[str] = set()

    def queue(self, name: str) -> Queue | None:
        found = self._read.get(name) or self._view.queue(name)
        if found is None and name:
            self.missing_queues.add(name)
        return found

    def queues(self) -> Iterable[Queue]:
        watched = self._view.queues()
        if not self._read:
            return watched
        return [*(queue for queue in watched if queue.metadata.name not in self._read), *self._read.values()]

    def namespace(self, name: str) -> Namespace | None:
        return self._view.namespace(name)

    def bound_pods(self, queue: str) -> int:
        """The number in the queue's status, which the scheduler writes. Like Volcano's, the server watches no Pods."""
        found = self.queue(queue)
        allocated = found.status.allocated if found else None
        try:
            return parse_quantity((allocated or {}).get(PODS, 0))
        except QuantityError:
            return 0
