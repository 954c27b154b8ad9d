"""Where everything that is learned of the cluster comes in: watches of two kinds and the answers to our own writes.

While this process stands by, only the store is kept up to date; when it comes to lead, the controllers are told of all
there is, as if it had just come.
"""

import asyncio
import time

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.store import Key, Store
from scheduler.controllers.worklist import Worklist


class Intake:
    """For one event loop."""

    def __init__(self, store: Store, worklist: Worklist) -> None:
        self.changed = asyncio.Event()
        """Set whenever something may have come into the worklist."""
        self._store = store
        self._worklist = worklist
        self._leading = False

    def lead(self) -> None:
        """From now on the controllers are told; first of all that is known."""
        self._leading = True
        now = time.time()
        for kind, obj in list(self._store):
            self._worklist.observe(kind, None, obj, now)
        self.changed.set()

    def written(self, kind: Kind, obj: KubeObject) -> None:
        """A version of an object."""
        fresh, old = self._store.upsert(kind, obj)
        if fresh and self._leading:
            self._worklist.observe(kind, old, obj, time.time())
            self.changed.set()

    def terminating(self, kind: Kind, obj: KubeObject) -> None:
        """The answer to a deletion. The watch may have told meanwhile that the object is gone; then it is old news, of
        whatever version it may be."""
        known = self._store.get(kind, KubeObject, obj.metadata.namespace, obj.metadata.name)
        if known is not None and known.metadata.uid == obj.metadata.uid:
            self.written(kind, obj)

    def removed(self, kind: Kind, namespace: str, name: str, uid: str = "") -> None:
        """An object is gone. ``uid``: which one, where that is known: a namesake that we made since is another."""
        old = self._store.delete(kind, namespace, name, uid)
        if old is not None and self._leading:
            self._worklist.observe(kind, old, None, time.time())
            self.changed.set()


class KindSink:
    """An intake as an informer wants it. The answers to our own writes run ahead of the watch: when it tells that an
    object is gone, the name may be another's by then, so it is remembered which object the watch means."""

    def __init__(self, intake: Intake, kind: Kind) -> None:
        self._intake = intake
        self._kind = kind
        self._uids: dict[Key, str] = {}

    def upsert(self, kind: str, obj: KubeObject) -> None:
        self._uids[obj.metadata.namespace, obj.metadata.name] = obj.metadata.uid
        self._intake.written(self._kind, obj)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._intake.removed(self._kind, namespace, name, self._uids.pop((namespace, name), ""))
