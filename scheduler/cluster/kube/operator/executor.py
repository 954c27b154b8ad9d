"""Carries out the effects that controllers plan, on the API server.

The answers of the server go into the store before the watch reports them. Each effect defines what counts as done and
what as failed.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.api.kinds import Kind, object_path
from scheduler.api.objects import KubeObject, ObjectMeta, controller_of, is_controlled_by
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.operator.change_receiver import ChangeReceiver
from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, is_namesake
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.controllers.effects import (
    NOT_OURS,
    BuildAndCreate,
    Create,
    Delete,
    FileEffect,
    Patch,
    Read,
    RecordEvent,
    RemoveFile,
    WriteFile,
)

READABLE: Final = 0o644
ENTERABLE: Final = 0o755
_encode = msgspec.json.Encoder().encode
_ALREADY_EXISTS = "AlreadyExists"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Requests metadata only: to check the owner of a Secret, its content is not needed."""


class FilesError(Exception):
    """A file could not be written or removed."""


class DirectoryFiles:
    """The files below a directory that all nodes share: rank tables, which Pods read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def carry_out(self, effect: FileEffect) -> None:
        """Carries out an effect in a thread, because a shared directory may be slow. Raises FilesError."""
        try:
            await asyncio.to_thread(self._carry_out, effect)
        except OSError as error:
            raise FilesError(f"{effect.directory}/{effect.name}: {error.strerror}") from error

    def _carry_out(self, effect: FileEffect) -> None:
        if isinstance(effect, WriteFile):
            self._write(effect)
        else:
            self._remove(effect)

    def _write(self, effect: WriteFile) -> None:
        """Replaces the file at once, so that no reader sees half of it."""
        directory = self._root / effect.directory
        directory.mkdir(mode=ENTERABLE, exist_ok=True)
        temporary = directory / f".{effect.name}.new"  # only the leader writes, and never two of one job at once
        temporary.write_text(effect.text, encoding="utf-8")
        temporary.chmod(READABLE)
        temporary.replace(directory / effect.name)

    def _remove(self, effect: RemoveFile) -> None:
        directory = self._root / effect.directory
        (directory / effect.name).unlink(missing_ok=True)
        with suppress(OSError):
            directory.rmdir()


class _WithKind(msgspec.Struct):
    kind: str = ""


class _WithMetadata(KubeObject):
    """An object in an answer; an answer without metadata is invalid."""

    metadata: ObjectMeta


class _ConfigMapData(_WithMetadata):
    data: dict[str, str] | None = None


class Executor:
    """Belongs to one event loop."""

    def __init__(
        self,
        client: ApiClient,
        fence: Fence,
        recorder: EventRecorder,
        results: ChangeReceiver,
        files: DirectoryFiles | None = None,
    ) -> None:
        """``files``: None if no files are written."""
        self._files = files
        self._client = client
        self._fence = fence
        self._recorder = recorder
        self._results = results
        self._decoders: dict[Kind, msgspec.json.Decoder[Any]] = {}

    def record(self, effect: RecordEvent) -> None:
        """Queues an Event."""
        self._recorder.record(effect.event)

    async def is_created(self, effect: BuildAndCreate) -> bool:
        """Whether the object exists already. Raises ApiError if it does not count as done, see ``Create.owner``;
        TransportError, and Fenced when this process no longer leads."""
        try:
            await self._require_ours(effect.kind, effect.namespace, effect.name, effect.owner)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    async def carry_out(self, effect: Create | Patch | Delete | Read | FileEffect) -> None:
        """Carries out one effect. Raises RequestError, FilesError, and Fenced when this process no longer
        leads."""
        match effect:
            case Create():
                await self._create(effect)
            case Patch():
                await self._patch(effect)
            case Delete():
                await self._delete(effect)
            case Read():
                await self._read_object(effect)
            case WriteFile() | RemoveFile():
                if self._files is not None:
                    self._fence.check()
                    await self._files.carry_out(effect)

    async def _create(self, effect: Create) -> None:
        namespace = effect.manifest["metadata"].get("namespace") or ""
        path = effect.kind.path_in(namespace if effect.kind.namespaced else "")
        try:
            body = await self._call("POST", path, _encode(effect.manifest))
        except ApiError as error:
            if error.status == 409 and error.reason == _ALREADY_EXISTS:
                if effect.owner:
                    await self._require_ours(effect.kind, namespace, effect.manifest["metadata"]["name"], effect.owner)
                return
            raise
        self._read(effect.kind, body, self._results.written)

    async def _require_ours(self, kind: Kind, namespace: str, name: str, owner: str) -> None:
        """Raises ApiError if the object does not exist, is being deleted, or is controlled by another one than
        ``owner``."""
        found = await self._metadata(object_path(kind, namespace, name))
        controller = controller_of(found)
        if found.metadata.deletion_timestamp is not None:
            problem = "is being deleted"
        elif controller is not None and controller.uid != owner:
            problem = f"belongs to {controller.kind} {controller.name} ({controller.uid})"
        else:
            return
        raise ApiError(409, _ALREADY_EXISTS, f"{kind} {name!r} is there already and {problem}")

    async def _patch(self, effect: Patch) -> None:
        path = object_path(effect.kind, effect.namespace, effect.name)
        if effect.subresource:
            path = f"{path}/{effect.subresource}"
        body, uid = effect.body, effect.uid
        try:
            if effect.owner:
                uid = await self._uid_if_owned(path, effect.owner)
                if not uid:
                    return
            if effect.data_key:
                uid = await self._uid_if_holding(path, effect.data_key)
            if uid:  # a namesake made meanwhile refuses a patch that would change its uid
                body = {**body, "metadata": {**(body.get("metadata") or {}), "uid": uid}}
            answer = await self._call("PATCH", path, _encode(body), MERGE_PATCH)
        except ApiError as error:
            if error.status == 404 or (uid and is_namesake(error)):
                return
            raise
        self._read(effect.kind, answer, self._results.written)

    async def _delete(self, effect: Delete) -> None:
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground" if effect.foreground else "Background",
        }
        if effect.grace_period is not None:
            options["gracePeriodSeconds"] = effect.grace_period
        path = object_path(effect.kind, effect.namespace, effect.name)
        uid = effect.uid
        try:
            if effect.owner:
                uid = await self._uid_if_owned(path, effect.owner)
                if not uid:
                    return
            if uid:
                options["preconditions"] = {"uid": uid}
            answer = await self._call("DELETE", path, _encode(options))
        except ApiError as error:
            if error.status == 404:
                self._results.removed(effect.kind, effect.namespace, effect.name, uid)
                return
            if uid and is_namesake(error):
                return
            raise
        if msgspec.json.decode(answer, type=_WithKind).kind == "Status":
            self._results.removed(effect.kind, effect.namespace, effect.name, uid)
        else:
            self._read(effect.kind, answer, self._results.terminating)

    async def _read_object(self, effect: Read) -> None:
        path = object_path(effect.kind, effect.namespace, effect.name)
        try:
            body = await self._client.request("GET", path, priority=CallPriority.WRITE, fence=self._fence)
        except ApiError as error:
            if error.status != 404:
                raise
            self._results.removed(effect.kind, effect.namespace, effect.name)
        else:
            self._read(effect.kind, body, self._results.written)

    async def _uid_if_owned(self, path: str, owner: str) -> str:
        """The uid of an object, or "" if it has no controller or another one."""
        found = await self._metadata(path)
        return found.metadata.uid if is_controlled_by(found, owner) else ""

    async def _uid_if_holding(self, path: str, key: str) -> str:
        """The uid of a ConfigMap that has a key. Raises ApiError if it has not."""
        body = await self._client.request("GET", path, priority=CallPriority.WRITE, fence=self._fence)
        found = msgspec.json.decode(body, type=_ConfigMapData)
        if key not in (found.data or {}):
            raise ApiError(409, NOT_OURS, f"the ConfigMap has no key {key}")
        return found.metadata.uid

    async def _metadata(self, path: str) -> KubeObject:
        body = await self._client.request("GET", path, accept=_METADATA, priority=CallPriority.WRITE, fence=self._fence)
        return msgspec.json.decode(body, type=_WithMetadata)

    async def _call(self, method: str, path: str, body: bytes, content_type: str = JSON) -> bytes:
        return await self._client.request(
            method, path, body=body, content_type=content_type, priority=CallPriority.WRITE, fence=self._fence
        )

    def _read(self, kind: Kind, body: bytes, apply: Callable[[Kind, KubeObject], None]) -> None:
        """Passes an answer on; one that cannot be decoded is left to the watch, which reports it."""
        if kind.struct is None:
            return
        decoder = self._decoders.get(kind)
        if decoder is None:
            decoder = self._decoders[kind] = msgspec.json.Decoder(kind.struct)
        try:
            obj: KubeObject = decoder.decode(body)
        except DECODE_ERRORS:
            return
        apply(kind, obj)
