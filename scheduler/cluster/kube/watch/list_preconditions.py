"""Before a list is requested, the API server has to have the objects in its memory, and this client the right to list.

An API server that has just started reads the objects of a kind that a CustomResourceDefinition defines when they are
first requested, and refuses to watch them until it has read all. Pages of a list that are requested meanwhile it reads
from etcd and decodes once more, which takes the processor time that the first reading needs.

Whether this client may list objects is the result of a SelfSubjectAccessReview. Every authenticated client may create
one (Kubernetes' ``system:basic-user``), so that no request of a role is refused.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.transport.sources import WatchSource

PATIENCE: Final = 120.0
"""Seconds after which a list is requested all the same."""
FIRST_PAUSE: Final = 0.05
"""Seconds between the first two questions; each pause after that is twice as long. A few objects are read in less."""
PAUSE: Final = 0.5
"""Seconds between two questions, at most."""
TOO_MANY_REQUESTS: Final = 429
_ONE_OBJECT: Final = {"fieldSelector": "metadata.name=none", "resourceVersion": "0"}
"""Asks for one object from memory, in which API servers find it by its name. They answer 429 while it is not ready."""
_ANY_NAMESPACE: Final = "default"
log = structlog.get_logger(__name__)
_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def until_cached(client: ApiClient, source: WatchSource) -> None:
    """Waits until the API server has the objects of a source in its memory. Returns at once for built-in kinds, which
    it reads before it is ready, and if it does not say that it is reading them."""
    if not source.kind.custom:
        return
    path = source.kind.path_in((source.namespace or _ANY_NAMESPACE) if source.kind.namespaced else "")
    params = {**source.selection, **_ONE_OBJECT}
    pause = FIRST_PAUSE
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while await _is_reading(client, path, params):
                if pause == FIRST_PAUSE:
                    log.info("waiting for the API server to load the objects", source=str(source))
                await asyncio.sleep(pause)
                pause = min(2 * pause, PAUSE)


async def _is_reading(client: ApiClient, path: str, params: Mapping[str, str]) -> bool:
    """Whether the API server says that it is not ready to answer. The list, which follows, reports other errors."""
    try:
        await client.request("GET", path, params=params, priority=CallPriority.READ)
    except RequestError as error:
        return error.status == TOO_MANY_REQUESTS
    return False


class _Result(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Result


_decoder = msgspec.json.Decoder(_Review)


async def may_list(client: ApiClient, source: WatchSource) -> bool:
    """Whether the client may list the objects of a source. Raises RequestError, and msgspec's errors."""
    asked = {"verb": "list", "group": source.kind.group, "resource": source.kind.plural, "namespace": source.namespace}
    if source.name:
        asked["name"] = source.name
    body = msgspec.json.encode({"spec": {"resourceAttributes": asked}})
    return _decoder.decode(await client.request("POST", _PATH, priority=CallPriority.READ, body=body)).status.allowed
