"""Fetches custom metrics from the API server for ``cluster.usage``, which knows only paths."""

from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.usage.custom_metrics import Get
from scheduler.cluster.usage.http_client import NotSupportedError, SourceError


def getter(client: ApiClient) -> Get:
    """Returns a function that GETs a path of the API server."""

    async def get(path: str) -> bytes:
        try:
            return await client.request("GET", path, priority=CallPriority.READ)
        except ApiError as error:
            kind = NotSupportedError if error.status == 404 else SourceError
            raise kind(f"{path}: {error}") from None
        except TransportError as error:
            raise SourceError(str(error)) from None

    return get
