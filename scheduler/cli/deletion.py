"""The verb ``delete`` by name, for the kinds whose objects vcctl deletes alike."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind


def delete_each(connection: Connection, kind: "Kind", names: Sequence[str]) -> None:
    """One after the other, up to the first that is refused. Raises Failed."""

    async def work(cluster: Cluster) -> None:
        for name in names:
            await cluster.delete(kind, cluster.namespace, name)
            echo(f"delete {kind.name.lower()} {name} successfully")

    connection.run(work)
