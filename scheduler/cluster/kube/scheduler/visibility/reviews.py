"""The manifests that a tenant asks about before submitting them: which rights they take, and their bounds.

The scheduler's process reads only kinds and names, with a fast decoder. The process that answers reads the whole.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.api.kinds import BESIDE_KINDS, SUBMITTED_KINDS, Kind
from scheduler.cluster.kube.scheduler.visibility.user import RefusedError, is_name

MAX_OBJECTS: Final = 32
"""Objects in a question."""
MAX_BYTES: Final = 256 * 1024
"""Bytes of a question."""
ACCEPTED: Final = (*SUBMITTED_KINDS, *BESIDE_KINDS)
_BY_NAME: Final = {(kind.group, kind.name): kind for kind in ACCEPTED}


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Document(_Object, rename="camel"):
    items: list[_Object] | None = None


class AskedObject(msgspec.Struct, frozen=True):
    """An object that a tenant asks about."""

    kind: Kind
    name: str
    """"": the API server generates it."""


def asked_objects(body: bytes, namespace: str) -> list[AskedObject]:
    """The objects of a question about a namespace: one object or a List, as JSON. Raises RefusedError."""
    try:
        document = msgspec.json.decode(body, type=_Document)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RefusedError(400, f"expected an object or a List as JSON: {error}") from None
    objects = [document] if document.items is None else document.items
    if not 0 < len(objects) <= MAX_OBJECTS:
        raise RefusedError(400, f"{len(objects)} objects; a question has 1 to {MAX_OBJECTS}")
    return list(dict.fromkeys(_asked(objects, namespace)))


def _asked(objects: Iterable[_Object], namespace: str) -> Iterable[AskedObject]:
    for each in objects:
        kind = _BY_NAME.get((each.api_version.rpartition("/")[0], each.kind))
        if kind is None:
            known = ", ".join(dict.fromkeys(kind.name for kind in ACCEPTED))
            raise RefusedError(400, f"{each.kind[:64]} of {each.api_version[:64]} cannot be asked about, only {known}")
        if each.metadata.namespace not in ("", namespace):
            where = each.metadata.namespace[:64]
            raise RefusedError(400, f"{each.kind} {each.metadata.name[:64]} is in namespace {where}, not {namespace}")
        if each.metadata.name and not is_name(each.metadata.name):
            raise RefusedError(400, f"{each.metadata.name[:64]!r} cannot be a name")
        yield AskedObject(kind, each.metadata.name)
