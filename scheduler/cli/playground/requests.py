"""Requests of the playground's own client, with the errors of commands."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from scheduler.cli.connection import Cluster
from scheduler.cli.errors import CommandError

if TYPE_CHECKING:
    from scheduler.cluster.kube.playground.role import Playground

T = TypeVar("T")


async def request(what: str, cluster: Cluster, awaitable: Awaitable[T]) -> T:
    """The result. Raises CommandError."""
    from scheduler.cluster.kube.transport.errors import ApiError, TransportError

    try:
        return await awaitable
    except ApiError as error:
        raise CommandError(f"{what}: {error.message or error}", error.status) from None
    except TransportError as error:
        raise CommandError(f"{what}: no answer from the API server at {cluster.client.host} ({error})") from None
    except ValueError as error:  # a name that no API server accepts makes no URL
        raise CommandError(
            f"{what}: the API server at {cluster.client.host} sent a malformed object: {error}"
        ) from None


@asynccontextmanager
async def watching(cluster: Cluster, playground: "Playground") -> AsyncIterator[None]:
    """Watches what a playground needs. Raises CommandError if the API server refuses to list it."""
    for source in playground.sources:
        await cluster.fetch(source, at_most=1)
    async with playground.watching():
        yield
