"""Requests of the playground's own client, with the errors of commands."""

from collections.abc import Awaitable
from typing import TypeVar

from scheduler.cli.connection import Cluster
from scheduler.cli.errors import CommandError

T = TypeVar("T")


async def request(what: str, cluster: Cluster, awaitable: Awaitable[T]) -> T:
    """The result. Raises CommandError."""
    from scheduler.cluster.kube.transport.client import ApiError, TransportError

    try:
        return await awaitable
    except ApiError as error:
        raise CommandError(f"{what}: {error.message or error}", error.status) from None
    except TransportError as error:
        raise CommandError(f"{what}: no answer from the API server at {cluster.client.host} ({error})") from None
