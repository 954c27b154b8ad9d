"""The writes that controllers plan, as data, and the Events among them.

An effect names its object by kind, namespace and name, and by uid where a namesake made meanwhile must be left alone.
``diff`` makes the merge patch between two states of an object.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from scheduler.api.decisions import EventRecord, ObjectRef
from scheduler.api.kinds import Kind
from scheduler.api.names import EVENT_MALFORMED, EVENT_NORMAL, EVENT_WARNING
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed

Json = dict[str, Any]


class Create(msgspec.Struct, frozen=True):
    """Creates an object. An object that exists already counts as done."""

    kind: Kind
    manifest: Json
    """The whole object, with apiVersion, kind and metadata.namespace."""
    owner: str = ""
    """UID of the intended controller. The creation fails if an object with this name terminates or has another
    controller, because it would be deleted with that one. An object without a controller counts as done."""


class BuildAndCreate(msgspec.Struct, frozen=True):
    """Creates an object whose manifest takes processor time to build, such as a new key.

    The manifest is built only if no object has the name, and beside the work of the event loop.
    """

    kind: Kind
    namespace: str
    name: str
    build: Callable[[], Json]
    """Returns the whole manifest, and may be called in another thread. It returns an equal one when called again."""
    owner: str = ""
    """The owner, as in Create."""


class Patch(msgspec.Struct, frozen=True):
    """Changes an object by a JSON merge patch. An object that is gone counts as done."""

    kind: Kind
    namespace: str
    name: str
    body: Json
    uid: str = ""
    owner: str = ""
    """UID of the controller that the object must have; any other object of that name is left alone."""
    subresource: Literal["", "status"] = ""
    data_key: str = ""
    """A key that the data of a ConfigMap must have already. The patch of any other ConfigMap fails with the reason
    NOT_OURS."""
    deferrable: bool = False
    """Whether the patch only informs: all other writes go first, and the plan continues without it."""


NOT_OURS: Final = "NotOurs"
"""Reason of a failed patch of an object that is used for something else."""


class Delete(msgspec.Struct, frozen=True):
    """Deletes an object. An object that is gone counts as done."""

    kind: Kind
    namespace: str
    name: str
    uid: str = ""
    foreground: bool = False
    """The object stays until what it owns is gone."""
    owner: str = ""
    """UID of the controller that the object must have; any other object of that name is left alone."""
    grace_period: int | None = None
    """Seconds that a Pod has to stop; None: its own."""


class Read(msgspec.Struct, frozen=True):
    """Reads an object that is not watched into the store. An object that does not exist is removed from it."""

    kind: Kind
    namespace: str
    name: str


class RecordEvent(msgspec.Struct, frozen=True):
    """Records an Event. Plans do not wait for it, and it never fails a plan."""

    event: EventRecord


class WriteFile(msgspec.Struct, frozen=True):
    """Writes a file that Pods read. Without a directory for files it counts as done."""

    directory: str
    """Its directory, one level below that of all files."""
    name: str
    text: str


class RemoveFile(msgspec.Struct, frozen=True):
    """Removes a file, and its directory if that is empty then. A file that is gone counts as done."""

    directory: str
    name: str


ObjectEffect = Create | BuildAndCreate | Patch | Delete | Read
FileEffect = WriteFile | RemoveFile
Effect = ObjectEffect | FileEffect | RecordEvent


@dataclass(slots=True)
class Plan:
    """The result of planning for one object."""

    stages: list[list[Effect]] = field(default_factory=list)
    """The effects of a stage are carried out at once, in any order; a stage begins when all of the one before are done,
    and is left out when one of those failed."""
    after: float | None = None
    """Reconcile again after so many seconds, even if nothing happens."""
    problem: str = ""
    """Why nothing can be done now (a queue does not exist ...): reconcile again with increasing pauses."""

    @property
    def deferrable(self) -> bool:
        """Whether it has a deferrable effect."""
        return any(isinstance(effect, Patch) and effect.deferrable for stage in self.stages for effect in stage)

    def then(self, *effects: Effect) -> "Plan":
        """Appends a stage, unless it is empty."""
        if effects:
            self.stages.append(list(effects))
        return self


def diff(old: Json, new: Json) -> Json:
    """The JSON merge patch (RFC 7386) that makes ``new`` of ``old``; empty if they are equal."""
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if key in old and before == value:
            continue
        if isinstance(before, dict) and isinstance(value, dict):
            patch[key] = diff(before, value)
        else:
            patch[key] = value
    return patch


def event(kind: Kind, obj: KubeObject, type: str, reason: str, message: str) -> EventRecord:
    """An Event to record later."""
    meta = obj.metadata
    return EventRecord(
        ObjectRef(kind.api_version, kind.name, meta.namespace, meta.name, meta.uid), type, reason, message
    )


def normal(kind: Kind, obj: KubeObject, reason: str, message: str) -> RecordEvent:
    """A Normal Event."""
    return RecordEvent(event(kind, obj, EVENT_NORMAL, reason, message))


def warning(kind: Kind, obj: KubeObject, reason: str, message: str) -> RecordEvent:
    """A Warning Event."""
    return RecordEvent(event(kind, obj, EVENT_WARNING, reason, message))


def malformed(kind: Kind, obj: KubeObject, field: str, problem: str) -> RecordEvent:
    """A Warning Event about a field that is ignored."""
    meta = obj.metadata
    message = Malformed(kind.name, meta.namespace, meta.name, field, problem).message
    return warning(kind, obj, EVENT_MALFORMED, message)
