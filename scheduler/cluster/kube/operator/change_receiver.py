"""Receives every change of the cluster: events of both kinds of watches, and the answers to our own writes.

A standby only keeps its store up to date. When it becomes the leader, the controllers observe every object in the store
as if it had just been added.
"""

import asyncio
import time
from collections.abc import Callable

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.store import Key, Store
from scheduler.controllers.worklist import ReconcileQueue

Observer = Callable[[Kind, KubeObject | None, KubeObject | None], None]


def _ignore(kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
    pass


class ChangeReceiver:
    """Belongs to one event loop."""

    def __init__(self, store: Store, worklist: ReconcileQueue, observer: Observer = _ignore) -> None:
        """``observer``: takes the kind and two versions of an object for each change while this process leads; None:
        the object was not known, or is gone."""
        self.changed = asyncio.Event()
        """Set whenever the worklist may have changed."""
        self._store = store
        self._worklist = worklist
        self._observer = observer
        self._leading = False

    def lead(self) -> None:
        """Starts to notify the controllers, beginning with every object in the store."""
        self._leading = True
        now = time.time()
        for kind, obj in list(self._store):
            self._worklist.observe(kind, None, obj, now)
        self.changed.set()

    def written(self, kind: Kind, obj: KubeObject) -> None:
        """Takes a version of an object, from a watch or from the answer to a write."""
        fresh, old = self._store.upsert(kind, obj)
        if fresh and self._leading:
            self._worklist.observe(kind, old, obj, time.time())
            self._observer(kind, old, obj)
            self.changed.set()

    def terminating(self, kind: Kind, obj: KubeObject) -> None:
        """Takes the answer to a deletion. Ignores it, whatever its version, if the watch has already reported that the
        object is gone."""
        known = self._store.get(kind, obj.metadata.namespace, obj.metadata.name)
        if known is not None and known.metadata.uid == obj.metadata.uid:
            self.written(kind, obj)

    def removed(self, kind: Kind, namespace: str, name: str, uid: str = "") -> None:
        """Removes an object that is gone. ``uid``: the uid of that object, if it is known; an object that was created
        since then with its name is another one."""
        old = self._store.delete(kind, namespace, name, uid)
        if old is not None and self._leading:
            self._worklist.observe(kind, old, None, time.time())
            self._observer(kind, old, None)
            self.changed.set()


class InformerSink:
    """Passes the objects of one informer to a receiver. Answers to our own writes arrive before the watch events: when
    the watch reports that an object is gone, its name may belong to a new object. So it remembers the uid of the object
    that the watch has delivered."""

    def __init__(self, receiver: ChangeReceiver) -> None:
        self._receiver = receiver
        self._uids: dict[Key, str] = {}

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        self._uids[obj.metadata.namespace, obj.metadata.name] = obj.metadata.uid
        self._receiver.written(kind, obj)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self._receiver.removed(kind, namespace, name, self._uids.pop((namespace, name), ""))
