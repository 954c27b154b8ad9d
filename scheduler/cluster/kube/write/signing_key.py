"""The key with which the scheduler signs its decisions, kept in a Secret that its replicas share.

The chart creates the Secret without data. The first replica that reads it writes a key into it, and the first leader
writes the time from which the key is in use. Without access to the Secret the process uses a key of its own: nothing
that it signs can be verified after a restart, so the annotations are then believed as they are.
"""

import asyncio
import base64
import binascii
import math
import secrets
import time
from typing import Final

import msgspec
import structlog

from scheduler.api.kinds import SECRET, object_path
from scheduler.api.objects import Secret
from scheduler.api.signed_records import SigningKey
from scheduler.cluster.kube.transport.client import MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, RequestError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority

KEY: Final = "key"
"""The entry of the Secret's data with the key."""
IN_USE_SINCE: Final = "in-use-since"
"""The entry of the Secret's data with the Unix time, in whole seconds, since which the key signs every binding."""
LENGTH: Final = 32
MIN_LENGTH: Final = 16
"""Bytes of a key."""
MARGIN: Final = 60
"""Seconds after the first replica leads until every binding has to be signed: clocks differ."""
log = structlog.get_logger(__name__)
_encode = msgspec.json.Encoder().encode


class SharedKey:
    """Call ``load``, then ``begin`` once this process leads. Until the key is loaded, ``key`` belongs to this
    process."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        """``name``: the name of the Secret; "": there is none."""
        self.key = SigningKey(secrets.token_bytes(LENGTH), math.inf)
        self._client = client
        self._name = f"{namespace}/{name}"
        self._path = object_path(SECRET, namespace, name) if name else ""

    async def load(self) -> None:
        """Reads the key, or creates it where the Secret is empty. Retries until the API server answers."""
        await self._try(None)

    async def begin(self, fence: Fence) -> None:
        """Records, as the leader, that every binding is signed from now on. Retries until that is written or this
        process no longer leads."""
        await self._try(fence)

    async def _try(self, fence: Fence | None) -> None:
        backoff = Backoff(0.2, 30.0)
        while self._path:
            try:
                if await self._step(fence):
                    return
                backoff.reset()
                continue
            except Fenced:
                return
            except RequestError as error:
                if error.status in (403, 404):
                    self._use_own_key(str(error))
                    return
                why = str(error)
            except (ValueError, msgspec.MsgspecError) as error:
                self._use_own_key(str(error))
                return
            log.warning("the signing key could not be read or written", secret=self._name, why=why)
            await asyncio.sleep(backoff.next())

    def _use_own_key(self, why: str) -> None:
        log.warning(
            "no shared signing key: this process signs with a key of its own, so after a restart, or in another "
            "replica, annotations of Pods are believed as they are and users' changes of them are not noticed",
            secret=self._name,
            why=why,
        )
        self._path = ""

    async def _step(self, fence: Fence | None) -> bool:
        """Reads the Secret and adds missing keys. Returns False if another replica was faster. Raises ValueError, and
        as ``request`` does."""
        body = await self._client.request("GET", self._path, priority=CallPriority.CONTROL, fence=fence)
        secret = msgspec.json.decode(body, type=Secret)
        data = secret.data or {}
        more: dict[str, bytes] = {}
        if KEY not in data:
            # The date of a key that was removed from the Secret does not hold for the new one.
            more = {KEY: secrets.token_bytes(LENGTH), IN_USE_SINCE: b""}
        if fence is not None and (more or not data.get(IN_USE_SINCE)):
            more[IN_USE_SINCE] = str(math.ceil(time.time()) + MARGIN).encode()
        data |= {name: base64.b64encode(value).decode() for name, value in more.items()}
        key = _key_of(data)
        if more:
            metadata = {"resourceVersion": secret.metadata.resource_version}
            try:
                await self._client.request(
                    "PATCH",
                    self._path,
                    body=_encode({"metadata": metadata, "data": {name: data[name] for name in more}}),
                    content_type=MERGE_PATCH,
                    priority=CallPriority.CONTROL,
                    fence=fence,
                )
            except ApiError as error:
                if error.status == 409:
                    return False
                raise
        self.key = key
        return True


def _key_of(data: dict[str, str]) -> SigningKey:
    """Raises ValueError, with a message that holds nothing of the key."""
    try:
        key = base64.b64decode(data[KEY], validate=True)
        since = base64.b64decode(data.get(IN_USE_SINCE, ""), validate=True).decode("ascii")
    except (binascii.Error, UnicodeError):
        raise ValueError("its data is not base64") from None
    if len(key) < MIN_LENGTH:
        raise ValueError(f"its {KEY} has {len(key)} bytes, at least {MIN_LENGTH} are needed")
    if since and not (since.isdecimal() and len(since) < 13):
        raise ValueError(f"its {IN_USE_SINCE} is not a whole number of seconds")
    return SigningKey(key, float(since) if since else math.inf)
