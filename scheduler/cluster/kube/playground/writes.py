"""The requests of simulated components: Nodes, Leases, ConfigMaps, Pods and Events."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from scheduler.api.kinds import EVENT, Kind, object_path
from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.api.objects import KubeObject
from scheduler.api.times import format_timestamp
from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, RequestError
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.playground.objects import CREATED, LEASE, Json, Patch, Put, Remove, Warn, Write

COMPONENT: Final = "volcano-py-playground"
"""The source of Events."""
LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
_ATTEMPTS: Final = 5
_MAX_MESSAGE_LENGTH: Final = 1024
_encode = msgspec.json.Encoder().encode
T = TypeVar("T")


class PlaygroundWriter:
    """Sends writes, and repeats those that the server could not carry out."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._created: set[str] = set()
        """Paths of objects that were put."""

    async def carry_out(self, write: Write) -> KubeObject | None:
        """Returns the object as it is stored now; None if it is gone, or its kind has no struct. Raises
        RequestError."""
        match write:
            case Put():
                return await self._put(write)
            case Patch():
                return await self._patch(write)
            case Remove():
                await self.remove(write.kind, write.namespace, write.name, write.uid)
            case Warn():
                await self._warn(write)
        return None

    async def create(self, kind: Kind, namespace: str, body: Json) -> bool:
        """Creates an object. Returns whether it was not there before. Raises RequestError."""
        try:
            await self._send("POST", kind.path_in(namespace), body=_encode(body))
        except ApiError as error:
            if error.status == 409:
                return False
            raise
        return True

    async def is_foreign(self, kind: Kind, namespace: str, name: str) -> bool:
        """Whether an object exists that no playground created. Raises RequestError."""
        answer = await _unless_gone(self._send("GET", object_path(kind, namespace, name), body=None))
        if answer is None:
            return False
        found = msgspec.json.decode(answer, type=KubeObject)
        return CREATED not in (found.metadata.labels or {})

    async def remove(self, kind: Kind, namespace: str, name: str, uid: str = "") -> None:
        """Deletes an object without grace period. Raises RequestError."""
        body: Json = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        path = object_path(kind, namespace, name)
        self._created.discard(path)
        await _unless_gone(self._send("DELETE", path, body=_encode(body)))

    async def renew_lease(self, node: str, uid: str) -> None:
        """Renews the Lease by which a kubelet shows that it lives. Raises RequestError."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        manifest = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": {"name": node, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        }
        await self._put(Put(LEASE, manifest))

    async def _put(self, write: Put) -> KubeObject | None:
        """Most objects were put before: a JSON merge patch costs the API server less than a server-side apply."""
        metadata = write.manifest["metadata"]
        collection = write.kind.path_in(metadata.get("namespace", ""))
        path = f"{collection}/{metadata['name']}"
        body = _encode(write.manifest)
        create = partial(self._send, "POST", collection, body=body)
        update = partial(self._send, "PATCH", path, body=body, content_type=MERGE_PATCH)
        first, second = (update, create) if path in self._created else (create, update)
        try:
            answer = await first()
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            answer = await second()
        self._created.add(path)
        return _decoded(write.kind, answer)

    async def _patch(self, write: Patch) -> KubeObject | None:
        meta = write.metadata
        path = object_path(write.kind, meta.namespace, meta.name)
        path += f"/{write.subresource}" if write.subresource else ""
        # The API server refuses the patch with a conflict if another object has the name now.
        body = {**write.body, "metadata": {**write.body.get("metadata", {}), "uid": meta.uid}}
        request = self._send("PATCH", path, body=_encode(body), content_type=STRATEGIC_MERGE_PATCH)
        answer = await _unless_gone(request)
        return None if answer is None else _decoded(write.kind, answer)

    async def _warn(self, write: Warn) -> None:
        meta, now = write.metadata, format_timestamp(time.time())
        namespace = meta.namespace or DEFAULT_NAMESPACE
        body = {
            "metadata": {"name": f"{meta.name[:230]}.{secrets.token_hex(8)}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": write.kind.api_version,
                "kind": write.kind.name,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            "type": "Warning",
            "reason": write.reason,
            "message": write.message[:_MAX_MESSAGE_LENGTH],
            "source": {"component": COMPONENT},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        await self._send("POST", EVENT.path_in(namespace), body=_encode(body))

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None,
        content_type: str = JSON,
    ) -> bytes:
        """Sends a request, and again while the server cannot carry it out. Raises RequestError."""
        backoff = Backoff(0.2, 5.0)
        while True:
            try:
                return await self._client.request(
                    method, path, priority=CallPriority.WRITE, body=body, content_type=content_type
                )
            except RequestError as error:
                if not error.transient or backoff.failures >= _ATTEMPTS:
                    raise
                await asyncio.sleep(backoff.next(error.retry_after))


async def _unless_gone(request: Awaitable[T]) -> T | None:
    """The answer to a request; None if the object does not exist, or another one has its name."""
    try:
        return await request
    except ApiError as error:
        if error.status in (404, 409):
            return None
        raise


def _decoded(kind: Kind, answer: bytes) -> KubeObject | None:
    return msgspec.json.decode(answer, type=kind.struct) if kind.struct is not None else None


Progress = Callable[[str, str, str], Any]
"""Receives news: its kind (``node``, ``pod`` or ``error``), the node or "", and what happened."""
