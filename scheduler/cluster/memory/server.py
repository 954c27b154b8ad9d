"""The API server of a cluster in memory, with its garbage collector.

Objects are stored as they were written, so that they can be printed. Watchers are called with the decoded objects of
every change. A stored object is immutable: a new version is a new dictionary, which may share parts with the old one.
So copies of a cluster can share objects, and indices (``index``) stay valid.
"""

import uuid
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from typing import Any, TypeVar

from scheduler.api.kinds import CRON_JOB, POD, QUEUE, VCJOB, Kind
from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.api.objects import ENDED_PHASES, KubeObject, Pod, controller_of
from scheduler.api.reasons import Refusal
from scheduler.cluster.manifests import Manifest, ManifestError, decode
from scheduler.cluster.memory.defaults import set_defaults
from scheduler.cluster.memory.index import Index, IndexFunction
from scheduler.cluster.memory.raw_objects import (
    Json,
    ResourceVersions,
    ends_now,
    format_time,
    keeps,
    merged,
    mutable_copy,
    owner_uids,
)

Key = tuple[str, str, str]
"""Group and kind, namespace, name."""
T = TypeVar("T", bound=KubeObject)
Watcher = Callable[[Kind, KubeObject | None, KubeObject | None], None]
"""Called with the kind, the old object (None if it is new) and the new object (None if it was deleted)."""
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Later dates are refused, so that the clock can advance."""
_UIDS = uuid.UUID("6f1d1c5e-0b44-5a3c-9a53-1f7b3c6f2b10").bytes


def key_of(kind: Kind, namespace: str, name: str) -> Key:
    return (f"{kind.group}/{kind.name}", namespace, name)


def key_in(raw: Json) -> Key:
    """The key of an object."""
    meta = raw["metadata"]
    return (f"{raw['apiVersion'].rpartition('/')[0]}/{raw['kind']}", meta.get("namespace") or "", meta["name"])


def key_name(key: Key) -> str:
    """``namespace/name``, or the name of a cluster-scoped object."""
    return f"{key[1]}/{key[2]}" if key[1] else key[2]


class ForbiddenError(ManifestError):
    """A new object is refused as it would be by the admission of the API server or by a webhook."""


class MemoryServer:
    """Not thread-safe. Time is simulated: objects are created a second apart, and ``tick`` advances it by a second."""

    def __init__(self, start: datetime = EPOCH, *, follows_statuses: bool = False) -> None:
        """``start``: the creation time of the first object without a creationTimestamp. ``follows_statuses``: the clock
        begins after the times in statuses that controllers continue from, too, not only after those of creations."""
        self.clock = start
        self.terminating: list[Key] = []
        """Deleted Pods with a node, which the kubelet removes."""
        self.refusals: dict[tuple[str, str], Refusal] = {}
        """Namespace and name of an owner -> why the last Pod for it was not created."""
        self._objects: dict[Key, tuple[Kind | None, Json]] = {}
        self._keys: dict[Kind | None, dict[Key, int]] = {}
        """Kind -> the keys of its objects with their numbers, the oldest first."""
        self._next_number = 0
        self._decoded: dict[Key, Any] = {}
        self._loaded: dict[Key, KubeObject] = {}
        """Loaded objects that are not published yet, decoded; without those that ``load`` completed."""
        self._indices: dict[Kind | None, dict[IndexFunction, Index]] = {}
        self._uids: dict[str, Key] = {}
        self._generations: dict[Key, int] = {}
        """How often an object with the key was created; each gets its own uid."""
        self._owned: dict[str, dict[Key, None]] = {}
        """Uid of an owner -> the keys of the objects that it owns, the oldest first."""
        self._watchers: list[Watcher] = []
        self._changed: dict[Key, tuple[Kind, KubeObject | None]] | None = None
        """Within ``batched``: the changed objects of which watchers have not been notified, in their old version."""
        self._created = start
        self._follows_statuses = follows_statuses
        self._versions = ResourceVersions()
        self._sources: dict[Key, str] = {}
        self._admission: Callable[[Kind, Json], Json] | None = None
        self._pod_validator: Callable[[Pod], Refusal | None] | None = None

    # --- reading ------------------------------------------------------------------------------------------------------
    @property
    def now(self) -> float:
        """Simulated seconds since the epoch."""
        return self.clock.timestamp()

    def tick(self) -> None:
        """Advances the clock by a second."""
        self.clock += timedelta(seconds=1)

    def find(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """A stored object, or None; it must not be modified."""
        entry = self._objects.get(key_of(kind, namespace, name))
        return None if entry is None else entry[1]

    def get(self, key: Key) -> Json:
        """A stored object by its key; it must not be modified. Raises KeyError."""
        return self._objects[key][1]

    def has(self, key: Key) -> bool:
        """Whether there is an object with the key."""
        return key in self._objects

    def decoded(self, kind: Kind[T], namespace: str, name: str) -> T | None:
        """A stored object, decoded; None also for kinds that are not decoded."""
        found: T | None = self._decoded.get(key_of(kind, namespace, name))
        return found

    def of(self, kind: Kind) -> list[Json]:
        """All objects of a kind, the oldest first."""
        return [self._objects[key][1] for key in self._keys.get(kind, ())]

    def by_index(self, kind: Kind, function: IndexFunction, value: Hashable = True) -> list[Json]:
        """The objects of a kind for which ``function`` returns ``value``, the oldest first.

        The server keeps an index for each function, so the time depends on the objects found only.
        """
        indices = self._indices.setdefault(kind, {})
        index = indices.get(function)
        if index is None:
            numbers = self._keys.get(kind, {})
            index = indices[function] = Index(
                function, ((key, number, self._objects[key][1]) for key, number in numbers.items())
            )
        return [self._objects[key][1] for key in index.keys(value)]

    def structs(self, kind: Kind[T]) -> list[T]:
        """All objects of a kind, decoded, the oldest first."""
        return [self._decoded[key] for key in self._keys.get(kind, ())]

    def owned(self, kind: Kind, namespace: str, uid: str) -> list[Json]:
        """The objects of a kind in a namespace that have the owner with that uid, the oldest first."""
        entries = [self._objects[key] for key in self._owned.get(uid, ()) if key[1] == namespace]
        return [raw for of, raw in entries if of is kind]

    def exists(self, uid: str) -> bool:
        """Whether there is an object with the uid."""
        return uid in self._uids

    def has_generated_uid(self, kind: Kind, raw: Json) -> bool:
        """Whether the first object with the name was loaded without a uid, unlike objects of a live cluster, or is
        created here, and this is the object."""
        meta = raw["metadata"]
        return bool(meta["uid"] == _uid("/".join(key_of(kind, meta.get("namespace") or "", meta["name"]))))

    def __iter__(self) -> Iterator[tuple[Kind | None, Json]]:
        return iter(list(self._objects.values()))

    def source_of(self, key: Key) -> str:
        """The file and document of an object, or a general text if it was created."""
        return self._sources.get(key, "the cluster in memory")

    def watch(self, watcher: Watcher) -> None:
        """Calls the watcher for all further changes."""
        self._watchers.append(watcher)

    @contextmanager
    def batched(self) -> Iterator[None]:
        """Notifies watchers once of an object that changes several times, with its last version.

        The notification is sent at the end, or before the next object is added or deleted. Cannot be nested.
        """
        self._changed = {}
        try:
            yield
        finally:
            self._flush()
            self._changed = None

    def set_admission(self, admission: Callable[[Kind, Json], Json]) -> None:
        """Sets the function that every new object passes, as it passes webhooks: it returns the object to store, or
        raises ForbiddenError."""
        self._admission = admission

    def set_pod_validator(self, validator: Callable[[Pod], Refusal | None]) -> None:
        """Sets the function that returns why a Pod must not be created, or None."""
        self._pod_validator = validator

    # --- writing ------------------------------------------------------------------------------------------------------
    def load(self, manifest: Manifest) -> Key:
        """Stores an object of a manifest. Raises ManifestError.

        An object without a creationTimestamp is created a second after the one before, since Volcano orders PodGroups
        with the same timestamp arbitrarily. Queues are created at the same time, as if applied together; they are
        ordered by name.
        """
        kind, raw = manifest.kind, self._loadable(manifest)
        meta = raw["metadata"]
        decoded = decode(kind, raw, manifest.where) if kind is not None and kind.struct is not None else None
        key = key_in(raw)
        if key in self._objects:
            raise ManifestError(f"{manifest.where}: {raw['kind']} {key_name(key)} was given before")
        if kind is not QUEUE:
            self._created += timedelta(seconds=1)
        if meta.get("creationTimestamp"):
            created = _date(meta["creationTimestamp"])
            if created is None:
                raise ManifestError(
                    f"{manifest.where}: {raw['kind']}: metadata.creationTimestamp: not a date: "
                    f"{meta['creationTimestamp'][:64]!r}"
                )
            self._created = created
        else:
            meta["creationTimestamp"] = format_time(self._created)
        self.clock = max(
            self.clock, self._created, *(self._times_in_status(kind, raw) if self._follows_statuses else ())
        )
        self._identify(key, raw)
        if meta["uid"] in self._uids:
            raise ManifestError(f"{manifest.where}: {raw['kind']} {key_name(key)}: metadata.uid: another object has it")
        self._sources[key] = manifest.where
        self._store(key, kind, raw)
        if decoded is not None:
            given = decoded.metadata
            if (given.uid, given.creation_timestamp) == (meta["uid"], meta["creationTimestamp"]):
                self._loaded[key] = decoded
        return key

    def reload(self, manifest: Manifest) -> bool:
        """Replaces a loaded object by a later version from the same API server, and notifies watchers. Returns False if
        the object is not there or has another uid. Raises ManifestError."""
        kind, raw = manifest.kind, self._loadable(manifest)
        key = key_in(raw)
        known = self._objects.get(key)
        if known is None or known[1]["metadata"]["uid"] != raw["metadata"].get("uid"):
            return False
        decoded = None
        if kind is not None and kind.struct is not None:
            set_defaults(kind, raw, self)
            decoded = decode(kind, raw, manifest.where)
        self._disown(key, known[1])
        self._own(key, raw)
        self._put(key, kind, raw)
        if kind is not None and decoded is not None:
            old, self._decoded[key] = self._decoded.get(key), decoded
            self._notify(key, kind, old, decoded)
        return True

    def discard(self, key: Key) -> None:
        """Removes a loaded object, but nothing that it owned: the API server that it was loaded from does that."""
        self._take_out(key)
        self._generations.pop(key, None)
        self._sources.pop(key, None)

    def _loadable(self, manifest: Manifest) -> Json:
        """A copy of the object of a manifest, with the fields that every stored object has."""
        raw = mutable_copy(manifest.raw)
        meta, kind = raw["metadata"], manifest.kind
        if kind is not None and kind.namespaced:
            meta.setdefault("namespace", DEFAULT_NAMESPACE)
        elif kind is not None:
            meta.pop("namespace", None)
        self._versions.take(meta)
        if kind is POD:
            for field in ("spec", "status"):  # indices read them before ``publish``
                raw[field] = raw.get(field) or {}
        return raw

    def create(self, kind: Kind, manifest: Json) -> bool:
        """Creates an object. Returns False if it exists. Raises ForbiddenError, ManifestError."""
        meta = manifest["metadata"]
        key = key_of(kind, meta.get("namespace") or "", meta["name"])
        if key in self._objects:
            return False
        if self._admission is not None:
            manifest = self._admission(kind, manifest)
        raw = mutable_copy(manifest)
        meta = raw["metadata"]
        meta["creationTimestamp"] = format_time(self.clock)
        meta["resourceVersion"] = self._versions.next()
        self._identify(key, raw)
        set_defaults(kind, raw, self)
        if kind.struct is not None:
            decoded = decode(kind, raw, f"{kind.name} {key_name(key)}")
            if isinstance(decoded, Pod):
                self._admit(decoded)
            self._decoded[key] = decoded
        self._store(key, kind, raw)
        self._notify(key, kind, None, self._decoded.get(key))
        return True

    def patch(self, kind: Kind, namespace: str, name: str, body: Json) -> bool:
        """Applies a JSON merge patch. Returns whether the object exists. Raises ManifestError."""
        key = key_of(kind, namespace, name)
        entry = self._objects.get(key)
        if entry is None:
            return False
        self.update(kind, namespace, name, merged(entry[1], body))
        return True

    def update(self, kind: Kind, namespace: str, name: str, raw: Json) -> None:
        """Replaces an object by a new version; removes one that its last finalizer kept. Raises ManifestError,
        KeyError."""
        key = key_of(kind, namespace, name)
        before = self._objects[key][1]
        if before is not raw and before == raw:
            return
        raw = {**raw, "metadata": {**raw["metadata"], "resourceVersion": self._versions.next()}}
        old = self._decoded.get(key)
        if kind.struct is not None:
            self._decoded[key] = decode(kind, raw, self.source_of(key))
        self._put(key, kind, raw)
        self._notify(key, kind, old, self._decoded.get(key))
        if keeps(before) and ends_now(raw):
            self.remove(key)

    def publish(self, key: Key) -> None:
        """Makes a loaded object visible: sets its defaults in place, decodes it, and notifies watchers."""
        kind, raw = self._objects[key]
        if kind is None or kind.struct is None:
            return
        decoded = self._loaded.pop(key, None)
        if set_defaults(kind, raw, self) or decoded is None:
            decoded = decode(kind, raw, self.source_of(key))
        self._put(key, kind, raw)
        self._decoded[key] = decoded
        self._notify(key, kind, None, decoded)

    def replace_loaded(self, key: Key, raw: Json) -> None:
        """Replaces a loaded object before ``publish``."""
        self._loaded.pop(key, None)
        self._put(key, self._objects[key][0], raw)

    def delete(self, kind: Kind, namespace: str, name: str, *, force: bool = False) -> bool:
        """Deletes an object and what it owns; marks a Pod that has not ended on its node as terminating, unless
        ``force``. Returns whether it existed."""
        key = key_of(kind, namespace, name)
        entry = self._objects.get(key)
        if entry is None:
            return False
        raw = entry[1]
        on_node = kind is POD and raw["spec"].get("nodeName") and raw["status"].get("phase") not in ENDED_PHASES
        if not on_node or force:
            self.end(key)
        elif not raw["metadata"].get("deletionTimestamp"):
            raw = mutable_copy(raw)
            raw["metadata"]["deletionTimestamp"] = format_time(self.clock)
            self.terminating.append(key)
            self.update(kind, namespace, name, raw)
        return True

    def end(self, key: Key) -> None:
        """Removes an object that is deleted, or marks it as such while a finalizer keeps it."""
        kind, raw = self._objects[key]
        if kind is None or not keeps(raw):
            self.remove(key)
            return
        raw = mutable_copy(raw)
        raw["metadata"].setdefault("deletionTimestamp", format_time(self.clock))
        raw["metadata"]["deletionGracePeriodSeconds"] = 0
        self.update(kind, key[1], key[2], raw)

    def remove(self, key: Key) -> None:
        """Removes an object, and deletes the objects that it owned as the garbage collector does."""
        for owned in self._owned.pop(self._take_out(key), {}):
            entry = self._objects.get(owned)
            if entry is not None and entry[0] is not None and key[1] in ("", owned[1]):
                self.delete(entry[0], owned[1], owned[2])

    def _take_out(self, key: Key) -> str:
        """Removes an object, notifies watchers, and returns its uid."""
        self._flush()  # also for this object, before it is removed
        kind, raw = self._objects.pop(key)
        del self._keys[kind][key]
        for index in self._indices.get(kind, {}).values():
            index.remove(key)
        old = self._decoded.pop(key, None)
        uid: str = raw["metadata"]["uid"]
        self._uids.pop(uid, None)
        if kind is not None:
            self._notify(key, kind, old, None)
        self._disown(key, raw)
        return uid

    def _disown(self, key: Key, raw: Json) -> None:
        """Removes an object from those that its owners own."""
        for owner in owner_uids(raw):
            owned = self._owned.get(owner, {})
            owned.pop(key, None)
            if not owned:
                self._owned.pop(owner, None)

    def _admit(self, pod: Pod) -> None:
        """Raises ForbiddenError if the Pod must not be created."""
        owner = controller_of(pod)
        creator = (pod.metadata.namespace, owner.name if owner is not None else "")
        refusal = self._pod_validator(pod) if self._pod_validator is not None else None
        if refusal is not None:
            self.refusals[creator] = refusal
            raise ForbiddenError(f'pods "{pod.metadata.name}" is forbidden: {refusal.message}')
        self.refusals.pop(creator, None)

    # --- internals ----------------------------------------------------------------------------------------------------
    @staticmethod
    def _times_in_status(kind: Kind | None, raw: Json) -> Iterator[datetime]:
        """When controllers last acted: a schedule and the time to live of a job count from then."""
        status = raw.get("status")
        if not isinstance(status, dict) or kind not in (CRON_JOB, VCJOB):
            return
        state = status.get("state")
        inner = (state.get("lastTransitionTime"),) if isinstance(state, dict) else ()
        for text in (status.get("lastScheduleTime"), status.get("lastSuccessfulTime"), *inner):
            time = _date(text) if isinstance(text, str) else None
            if time is not None:
                yield time

    def _identify(self, key: Key, raw: Json) -> None:
        generation = self._generations[key] = self._generations.get(key, 0) + 1
        if generation > 1 or not raw["metadata"].get("uid"):
            raw["metadata"]["uid"] = _uid("/".join(key) + (f"#{generation}" if generation > 1 else ""))

    def _store(self, key: Key, kind: Kind | None, raw: Json) -> None:
        self._keys.setdefault(kind, {})[key] = self._next_number
        self._next_number += 1
        self._put(key, kind, raw)
        self._uids[raw["metadata"]["uid"]] = key
        self._own(key, raw)

    def _own(self, key: Key, raw: Json) -> None:
        """Adds an object to those that its owners own."""
        for owner in owner_uids(raw):
            self._owned.setdefault(owner, {})[key] = None

    def _put(self, key: Key, kind: Kind | None, raw: Json) -> None:
        self._objects[key] = (kind, raw)
        for index in self._indices.get(kind, {}).values():
            index.put(key, self._keys[kind][key], raw)

    def _notify(self, key: Key, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if self._changed is not None:
            if old is not None and new is not None:
                self._changed.setdefault(key, (kind, old))
                return
            self._flush()
        for watcher in self._watchers:
            watcher(kind, old, new)

    def _flush(self) -> None:
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        for key, (kind, old) in changed.items():
            new = self._decoded.get(key)
            for watcher in self._watchers:
                watcher(kind, old, new)


def _uid(name: str) -> str:
    """The version 5 UUID of a name; three times as fast as ``uuid.uuid5``."""
    text = sha1(_UIDS + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"


def _date(text: str) -> datetime | None:
    """Parses a date; None if it is invalid or out of range."""
    try:
        time = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return time if time < _LATEST else None
