"""``queue create``, ``delete`` and ``operate``.

The admission webhook decides whether a queue may be deleted; a Command to the queue controller opens or closes it.
"""

from typing import Any

import click

from scheduler.api.names import DEFAULT_NAMESPACE, ROOT_QUEUE
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import RESOURCE_LIST
from scheduler.cli.operations import delete_each, send_command
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import echo

_OPEN, _CLOSED = "Open", "Closed"
_ACTIONS = ("open", "close", "update")


@click.command("create")
@name_argument("QUEUE", "-n", "--name", missing=None, default="test")
@click.option("-w", "--weight", type=int, default=1, show_default=True, help="Weight among its siblings.")
@click.option("-S", "--state", type=click.Choice([_OPEN, _CLOSED]), default=_OPEN, show_default=True)
@click.option("--parent", default="", help="Parent queue.", shell_complete=names_of("QUEUE"))
@click.option("--capability", type=RESOURCE_LIST, help="The most that the queue may use.")
@click.option("--deserved", type=RESOURCE_LIST, help="The amount that the queue may reclaim from others.")
@click.option("--guarantee", type=RESOURCE_LIST, help="The amount that is reserved for the queue.")
@connection_options()
def create_command(
    connection: Connection, name: str, weight: int, state: str, parent: str, capability: dict[str, str] | None,
    deserved: dict[str, str] | None, guarantee: dict[str, str] | None,
) -> None:  # fmt: skip
    """Create a queue.

    The default name is test.
    """
    from scheduler.api.batch import Action
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
        if state != _OPEN:  # the API server drops the status on creation
            await cluster.patch(QUEUE, "", name, status, "status")
            if parent not in ("", ROOT_QUEUE):  # below a closed one, the state alone would mean: closed with its parent
                await send_command(cluster, QUEUE, name, Action.CLOSE_QUEUE, DEFAULT_NAMESPACE)
        echo(f"create queue {name} successfully")

    connection.run(work)


@click.command("delete")
@name_argument("QUEUE", "-n", "--name", missing="queue name must be specified", multiple=True)
@connection_options()
def delete_command(connection: Connection, names: tuple[str, ...]) -> None:
    """Delete queues."""
    from scheduler.api.kinds import QUEUE

    delete_each(connection, QUEUE, names)


@click.command("operate")
@name_argument("QUEUE", "-n", "--name", missing="queue name must be specified")
@click.option("-a", "--action", default="", metavar=f"[{'|'.join(_ACTIONS)}]", help="The action.")
@click.option("-w", "--weight", type=int, default=0, help="The new weight, for update.")
@connection_options()
def operate_command(connection: Connection, name: str, action: str, weight: int) -> None:
    """Open or close a queue, or change its weight."""
    from scheduler.api.batch import Action
    from scheduler.api.kinds import QUEUE

    if not action:
        raise CommandError("action can not be null")
    if action not in _ACTIONS:
        raise CommandError(f"action {action} invalid, valid actions are open, close and update")
    if action == "update" and not weight:
        raise CommandError(f"when update queue {name}, weight must be specified, the value must be greater than 0")

    async def work(cluster: Cluster) -> None:
        if action == "update":
            await cluster.patch(QUEUE, "", name, {"spec": {"weight": weight}})
            echo(f"update queue {name} successfully")
            return
        wanted = Action.OPEN_QUEUE if action == "open" else Action.CLOSE_QUEUE
        command = await send_command(cluster, QUEUE, name, wanted, DEFAULT_NAMESPACE)
        echo(f"{action} queue {name}: Command {command} created in namespace {DEFAULT_NAMESPACE}")

    connection.run(work)
