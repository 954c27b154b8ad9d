"""The objects of a cluster in memory, and what an API server with its garbage collector does to them.

They are kept as they were written, so that they can be printed back; watchers are told of every change with the decoded
objects. An object that is stored never changes: a new version is a new dictionary, which may share parts with the old
one. So objects are shared by copies of a cluster, and indices of them (``index``) stay true.
"""

import copy
import uuid
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha1
from typing import Any

from scheduler.api.kinds import POD, PRIORITY_CLASS, QUEUE, Kind
from scheduler.api.names import DEFAULT_NAMESPACE, DEFAULT_QUEUE, POD_SCHEDULED
from scheduler.api.objects import KubeObject
from scheduler.cluster.manifests import Manifest, ManifestError, decode
from scheduler.cluster.memory.index import Index, Word

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Group and kind, namespace, name."""
Watcher = Callable[[Kind, KubeObject | None, KubeObject | None], None]
"""Told the kind, the object before (None: it came) and after (None: it went)."""
_WRITABLE = ("metadata", "spec", "status")
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
_LATEST = datetime(9000, 1, 1, tzinfo=UTC)
"""Dates beyond are refused, so that the clock has room to go on."""
_UIDS = uuid.UUID("6f1d1c5e-0b44-5a3c-9a53-1f7b3c6f2b10").bytes


def key_of(kind: Kind, namespace: str, name: str) -> Key:
    return (f"{kind.group}/{kind.name}", namespace, name)


def display(key: Key) -> str:
    """namespace/name, or the name alone."""
    return f"{key[1]}/{key[2]}" if key[1] else key[2]


@lru_cache(maxsize=16)  # most of what happens, happens at the same moment
def stamp(moment: datetime) -> str:
    return f"{moment.isoformat(timespec='seconds')[:19]}Z"  # strftime takes ten times as long


class MemoryServer:
    """For one thread. Time is simulated: objects are created a second apart, and ``tick`` lets a second pass."""

    def __init__(self, start: datetime = EPOCH) -> None:
        """``start``: when the first object is created that says nothing else."""
        self.clock = start
        self.terminating: list[Key] = []
        """Pods with a node that were deleted: the kubelet has the last word."""
        self._objects: dict[Key, tuple[Kind | None, Json]] = {}
        self._keys: dict[Kind | None, dict[Key, int]] = {}
        """Kind -> the keys of its objects, the oldest first, numbered in that order."""
        self._stored = 0
        self._decoded: dict[Key, KubeObject] = {}
        self._indices: dict[Kind | None, dict[Word, Index]] = {}
        self._uids: dict[str, Key] = {}
        self._lives: dict[Key, int] = {}
        """How often an object of that name was created: a namesake gets another uid."""
        self._owned: dict[str, dict[Key, None]] = {}
        """Uid of an owner -> the keys of what it owns, the oldest first."""
        self._watchers: list[Watcher] = []
        self._changed: dict[Key, tuple[Kind, KubeObject | None]] | None = None
        """Within ``together``: the objects of which watchers have not been notified yet, as they last knew them."""
        self._created = start
        self._where: dict[Key, str] = {}
        self._complete: Callable[[Json], Json] | None = None

    # --- reading ------------------------------------------------------------------------------------------------------
    @property
    def now(self) -> float:
        """Simulated seconds since the epoch."""
        return self.clock.timestamp()

    def tick(self) -> None:
        """A second passes."""
        self.clock += timedelta(seconds=1)

    def find(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """An object as it is stored; not to be changed."""
        entry = self._objects.get(key_of(kind, namespace, name))
        return None if entry is None else entry[1]

    def raw(self, key: Key) -> Json:
        """An object as it is stored, by its key; not to be changed. Raises KeyError."""
        return self._objects[key][1]

    def decoded(self, kind: Kind, namespace: str, name: str) -> KubeObject | None:
        """The same, decoded; None also for kinds that are only carried through."""
        return self._decoded.get(key_of(kind, namespace, name))

    def of(self, kind: Kind) -> list[Json]:
        """Every object of a kind, the oldest first."""
        return [self._objects[key][1] for key in self._keys.get(kind, ())]

    def by(self, kind: Kind, word: Word, value: Hashable = True) -> list[Json]:
        """The objects of a kind for which ``word``, a function of an object alone, gives a value, the oldest first. An
        index is kept for each function: finding a few objects of many takes no longer than those few."""
        indices = self._indices.setdefault(kind, {})
        index = indices.get(word)
        if index is None:
            index = indices[word] = Index(word)
            for key, number in self._keys.get(kind, {}).items():
                index.put(key, number, self._objects[key][1])
        return [self._objects[key][1] for key in index.keys(value)]

    def structs(self, kind: Kind) -> list[KubeObject]:
        """The same, decoded."""
        return [self._decoded[key] for key in self._keys.get(kind, ())]

    def owned(self, kind: Kind, uid: str) -> list[Json]:
        """The objects of a kind that name the owner with that uid, the oldest first."""
        entries = [self._objects[key] for key in self._owned.get(uid, ())]
        return [raw for of, raw in entries if of is kind]

    def exists(self, uid: str) -> bool:
        return uid in self._uids

    def __iter__(self) -> Iterator[tuple[Kind | None, Json]]:
        return iter(list(self._objects.values()))

    def where(self, key: Key) -> str:
        """File and document an object was read from, or what made it."""
        return self._where.get(key, "the cluster in memory")

    def watch(self, watcher: Watcher) -> None:
        """Tell of all changes from now on."""
        self._watchers.append(watcher)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Notify watchers of an object that changes several times within this once, of its last version; at the end, or
        before the next object comes or goes. Not to be nested."""
        self._changed = {}
        try:
            yield
        finally:
            self._notify()
            self._changed = None

    def complete_pods(self, complete: Callable[[Json], Json]) -> None:
        """Let a webhook fill in Pods that are created from now on."""
        self._complete = complete

    # --- writing ------------------------------------------------------------------------------------------------------
    def read(self, manifest: Manifest) -> Key:
        """Take an object as it was read. Raises ManifestError.

        Objects that do not say when they were made are a second younger than the one before, for of two PodGroups of
        one second Volcano takes any; but queues are as old as it, as if applied together: of these the name decides.
        """
        raw = writable(manifest.raw)
        meta, kind = raw["metadata"], manifest.kind
        if kind is not None and kind.namespaced:
            meta.setdefault("namespace", DEFAULT_NAMESPACE)
        elif kind is not None:
            meta.pop("namespace", None)
        if kind is not None and kind.struct is not None:
            decode(kind, raw, manifest.where)
        key = (f"{raw['apiVersion'].rpartition('/')[0]}/{raw['kind']}", meta.get("namespace") or "", meta["name"])
        if key in self._objects:
            raise ManifestError(f"{manifest.where}: {raw['kind']} {display(key)} was given before")
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
            meta["creationTimestamp"] = stamp(self._created)
        if self._created > self.clock:
            self.clock = self._created
        self._identify(key, raw)
        if meta["uid"] in self._uids:
            raise ManifestError(f"{manifest.where}: {raw['kind']} {display(key)}: metadata.uid: another object has it")
        self._where[key] = manifest.where
        self._store(key, kind, raw)
        return key

    def create(self, kind: Kind, manifest: Json) -> bool:
        """Create an object as a client would; False if it is there already. Raises ManifestError."""
        meta = manifest["metadata"]
        key = key_of(kind, meta.get("namespace") or "", meta["name"])
        if key in self._objects:
            return False
        if kind is POD and self._complete is not None:
            manifest = self._complete(manifest)
        raw = writable(manifest)
        meta = raw["metadata"]
        meta["creationTimestamp"] = stamp(self.clock)
        self._identify(key, raw)
        fill_in(kind, raw, self)
        if kind.struct is not None:
            self._decoded[key] = decode(kind, raw, f"{kind.name} {display(key)}")
        self._store(key, kind, raw)
        self._tell(key, kind, None, self._decoded.get(key))
        return True

    def patch(self, kind: Kind, namespace: str, name: str, body: Json) -> bool:
        """Change an object by a JSON merge patch; whether it is there. Raises ManifestError."""
        key = key_of(kind, namespace, name)
        entry = self._objects.get(key)
        if entry is None:
            return False
        self.update(kind, namespace, name, _merged(entry[1], body))
        return True

    def update(self, kind: Kind, namespace: str, name: str, raw: Json) -> None:
        """Put a new version in place of an object. Raises ManifestError, KeyError."""
        key = key_of(kind, namespace, name)
        if self._objects[key][1] is not raw and self._objects[key][1] == raw:
            return
        old = self._decoded.get(key)
        if kind.struct is not None:
            self._decoded[key] = decode(kind, raw, self.where(key))
        self._put(key, kind, raw)
        self._tell(key, kind, old, self._decoded.get(key))

    def admit(self, key: Key) -> None:
        """An object that was read becomes visible: completed as the API server would, decoded, told of. Nothing else
        refers to it before, so it is completed in place."""
        kind, raw = self._objects[key]
        if kind is None or kind.struct is None:
            return
        fill_in(kind, raw, self)
        self._put(key, kind, raw)
        self._decoded[key] = decode(kind, raw, self.where(key))
        self._tell(key, kind, None, self._decoded[key])

    def replace_raw(self, key: Key, raw: Json) -> None:
        """Change what was read, before ``admit``."""
        self._put(key, self._objects[key][0], raw)

    def delete(self, kind: Kind, namespace: str, name: str) -> bool:
        """Delete an object and what it owns; whether it was there. A Pod on a node terminates first."""
        key = key_of(kind, namespace, name)
        entry = self._objects.get(key)
        if entry is None:
            return False
        if kind.name == "Pod" and entry[1]["spec"].get("nodeName"):
            if not entry[1]["metadata"].get("deletionTimestamp"):
                raw = writable(entry[1])
                raw["metadata"]["deletionTimestamp"] = stamp(self.clock)
                self.terminating.append(key)
                self.update(kind, namespace, name, raw)
        else:
            self.remove(key)
        return True

    def remove(self, key: Key) -> None:
        """An object is gone, and the garbage collector takes what it owned."""
        self._notify()  # of this object as well, while it is there
        kind, raw = self._objects.pop(key)
        del self._keys[kind][key]
        for index in self._indices.get(kind, {}).values():
            index.drop(key)
        old = self._decoded.pop(key, None)
        uid = raw["metadata"]["uid"]
        self._uids.pop(uid, None)
        if kind is not None:
            self._tell(key, kind, old, None)
        for owner in _owner_uids(raw):
            self._owned.get(owner, {}).pop(key, None)
        for owned in self._owned.pop(uid, {}):
            entry = self._objects.get(owned)
            if entry is not None and entry[0] is not None:
                self.delete(entry[0], owned[1], owned[2])

    # --- within -------------------------------------------------------------------------------------------------------
    def _identify(self, key: Key, raw: Json) -> None:
        life = self._lives[key] = self._lives.get(key, 0) + 1
        if life > 1 or not raw["metadata"].get("uid"):
            raw["metadata"]["uid"] = _uid("/".join(key) + (f"#{life}" if life > 1 else ""))

    def _store(self, key: Key, kind: Kind | None, raw: Json) -> None:
        self._keys.setdefault(kind, {})[key] = self._stored
        self._stored += 1
        self._put(key, kind, raw)
        self._uids[raw["metadata"]["uid"]] = key
        for owner in _owner_uids(raw):
            self._owned.setdefault(owner, {})[key] = None

    def _put(self, key: Key, kind: Kind | None, raw: Json) -> None:
        self._objects[key] = (kind, raw)
        for index in self._indices.get(kind, {}).values():
            index.put(key, self._keys[kind][key], raw)

    def _tell(self, key: Key, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if self._changed is not None:
            if old is not None and new is not None:
                self._changed.setdefault(key, (kind, old))
                return
            self._notify()
        for watcher in self._watchers:
            watcher(kind, old, new)

    def _notify(self) -> None:
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        for key, (kind, old) in changed.items():
            new = self._decoded.get(key)
            for watcher in self._watchers:
                watcher(kind, old, new)


def _uid(name: str) -> str:
    """The UUID of version 5 of a name, as of ``uuid.uuid5``, which takes three times as long."""
    text = sha1(_UIDS + name.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"


def writable(raw: Json) -> Json:
    """A copy of an object whose metadata, spec and status can be written to; what these hold is shared and is not to be
    changed."""
    return {k: dict(v) if k in _WRITABLE and isinstance(v, dict) else v for k, v in raw.items()}


def fill_in(kind: Kind, raw: Json, server: MemoryServer) -> None:
    """What the API server and the schemas of our kinds fill in, as far as it concerns scheduling."""
    if kind.name == "Pod":
        spec, status = raw.setdefault("spec", {}), raw.setdefault("status", {})
        status.setdefault("phase", "Pending")
        importance = _priority_class(server, spec.get("priorityClassName") or "")
        if spec.get("priority") is None:
            spec["priority"] = int(importance.get("value", 0))
        if importance.get("preemptionPolicy"):
            spec.setdefault("preemptionPolicy", importance["preemptionPolicy"])
        if spec.get("schedulingGates") and not spec.get("nodeName"):
            message = "Scheduling is blocked due to non-empty scheduling gates"
            set_condition(status, POD_SCHEDULED, "False", "SchedulingGated", message)
        if spec.get("nodeName"):
            set_condition(status, POD_SCHEDULED, "True", "", "", stamp(server.clock))
    elif kind.name == "PodGroup":
        raw.setdefault("spec", {}).setdefault("queue", DEFAULT_QUEUE)
    elif kind.name == "Queue":
        spec = raw.setdefault("spec", {})
        spec.setdefault("weight", 1)
        spec.setdefault("reclaimable", True)
        raw.setdefault("status", {}).setdefault("state", "Open")


def controller_of(raw: Json) -> Json | None:
    """The reference to the owner that manages an object."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if isinstance(owner, dict) and owner.get("controller")), None)


def _owner_uids(raw: Json) -> list[str]:
    return [str(owner.get("uid")) for owner in raw["metadata"].get("ownerReferences") or () if isinstance(owner, dict)]


def _priority_class(server: MemoryServer, name: str) -> Json:
    """The class of that name, or without a name the default of the cluster; empty if there is none."""
    classes = server.of(PRIORITY_CLASS)
    return next((raw for raw in classes if (raw["metadata"]["name"] == name if name else raw.get("globalDefault"))), {})


def set_condition(status: Json, type_: str, value: str, reason: str, message: str, since: str = "") -> bool:
    """Set a Pod condition, in a new list; whether it changed. ``since``: its transition time if its status changes by
    this."""
    conditions = status["conditions"] = list(status.get("conditions") or ())
    new = {"type": type_, "status": value, **({"reason": reason} if reason else {})}
    if message:
        new["message"] = message
    if since:
        new["lastTransitionTime"] = since
    for i, old in enumerate(conditions):
        if isinstance(old, dict) and old.get("type") == type_:
            if old.get("status") == value and old.get("lastTransitionTime"):
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[i] = new
            return bool(old != new)
    conditions.append(new)
    return True


def _merged(target: Any, patch: Json) -> Json:
    """RFC 7386."""
    result: Json = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key), value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _date(text: str) -> datetime | None:
    """The moment written, or None if it is none."""
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if moment < _LATEST else None
