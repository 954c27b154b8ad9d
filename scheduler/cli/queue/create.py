"""``queue create``: a queue from flags."""

from typing import Any

import click

from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.resource_list import RESOURCE_LIST
from scheduler.cli.target import connected, named
from scheduler.cli.text import echo

_OPEN, _CLOSED = "Open", "Closed"


@click.command("create")
@named("QUEUE", "-n", "--name", missing=None, default="test")
@click.option("-w", "--weight", type=int, default=1, show_default=True, help="Share, against its siblings.")
@click.option("-S", "--state", type=click.Choice([_OPEN, _CLOSED]), default=_OPEN, show_default=True)
@click.option("--parent", default="", help="The queue it is part of.", shell_complete=names_of("QUEUE"))
@click.option("--capability", type=RESOURCE_LIST, help="The most it may use.")
@click.option("--deserved", type=RESOURCE_LIST, help="What it may take back from others.")
@click.option("--guarantee", type=RESOURCE_LIST, help="What is kept free for it.")
@connected()
def create_command(
    connection: Connection, name: str, weight: int, state: str, parent: str, capability: dict[str, str] | None,
    deserved: dict[str, str] | None, guarantee: dict[str, str] | None,
) -> None:  # fmt: skip
    """Create a queue.

    Without a name, one called test.
    """
    from scheduler.api.kinds import QUEUE

    optional = {
        "parent": parent,
        "capability": capability,
        "deserved": deserved,
        "guarantee": {"resource": guarantee} if guarantee else None,
    }
    spec: dict[str, Any] = {"weight": weight, **{key: value for key, value in optional.items() if value}}
    status = {"status": {"state": state}}
    body = {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "metadata": {"name": name}, "spec": spec, **status}

    async def work(cluster: Cluster) -> None:
        await cluster.create(QUEUE, "", body)
        if state != _OPEN:  # the server drops the status of what is created
            await cluster.patch(QUEUE, "", name, status, "status")
        echo(f"create queue {name} successfully")

    connection.run(work)
