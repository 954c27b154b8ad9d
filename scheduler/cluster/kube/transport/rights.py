"""Asks the API server whether this client may list objects, by a SelfSubjectAccessReview.

Every authenticated client may ask this (Kubernetes' ``system:basic-user``), so that no request of a role is refused.
"""

from typing import Final

import msgspec

from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.transport.sources import WatchSource

_PATH: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Result(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Result


_decoder = msgspec.json.Decoder(_Review)


async def may_list(client: ApiClient, source: WatchSource) -> bool:
    """Whether the client may list the objects of a source. Raises ApiError, TransportError, and msgspec's errors."""
    asked = {"verb": "list", "group": source.kind.group, "resource": source.kind.plural, "namespace": source.namespace}
    if source.name:
        asked["name"] = source.name
    body = msgspec.json.encode({"spec": {"resourceAttributes": asked}})
    return _decoder.decode(await client.request("POST", _PATH, priority=CallPriority.READ, body=body)).status.allowed
