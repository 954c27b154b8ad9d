"""``queue create``, ``delete`` and ``operate``.

The admission webhook decides whether a queue may be deleted; a Command to the queue controller opens or closes it.
"""

from typing import Final

import click

from scheduler.api.names import DEFAULT_NAMESPACE, ROOT_QUEUE
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import RESOURCE_LIST
from scheduler.cli.operations import delete_each, send_command
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import echo

OPEN: Final = "Open"
CLOSED: Final = "Closed"
_ACTIONS = ("open", "close", "update")


@click.command("create")
@name_argument("QUEUE", "-n", "--name", missing=None, default="test")
@click.option("-w", "--weight", type=int, default=1, show_default=True, help="Weight among its siblings.")
@click.option("-S", "--state", type=click.Choice([OPEN, CLOSED]), default=OPEN, show_default=True)
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
    optional = {
        "parent": parent,
        "capability": capability,
        "deserved": deserved,
        "guarantee": {"resource": guarantee} if guarantee else None,
    }
    spec: Raw = {"weight": weight, **{key: value for key, value in optional.items() if value}}

    async def work(cluster: Cluster) -> None:
        await create_queue(cluster, name, spec, state)
        echo(f"create queue {name} successfully")

    connection.run(work)


async def create_queue(cluster: Cluster, name: str, spec: Raw, state: str) -> None:
    """Creates a queue, and closes it if ``state`` is Closed. Raises CommandError."""
    from scheduler.api.batch import Action
    from scheduler.api.kinds import QUEUE

    status = {"status": {"state": state}}
    body = {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "metadata": {"name": name}, "spec": spec, **status}
    await cluster.create(QUEUE, "", body)
    if state == CLOSED:  # the API server drops the status on creation
        await cluster.patch(QUEUE, "", name, status, "status")
        if spec.get("parent", ROOT_QUEUE) != ROOT_QUEUE:  # the state alone would mean: closed with its parent
            await send_command(cluster, QUEUE, name, Action.CLOSE_QUEUE, DEFAULT_NAMESPACE)


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
    check_operation(name, action, weight)

    async def work(cluster: Cluster) -> None:
        command = await operate_queue(cluster, name, action, weight)
        if command:
            echo(f"{action} queue {name}: Command {command} created in namespace {DEFAULT_NAMESPACE}")
        else:
            echo(f"{action} queue {name} successfully")

    connection.run(work)


def check_operation(name: str, action: str, weight: int) -> None:
    """Raises CommandError for an action that is missing or does not exist, and for an update without a weight."""
    if not action:
        raise CommandError("action can not be null")
    if action not in _ACTIONS:
        raise CommandError(f"action {action} invalid, valid actions are open, close and update")
    if action == "update" and not weight:
        raise CommandError(f"when update queue {name}, weight must be specified, the value must be greater than 0")


async def operate_queue(cluster: Cluster, name: str, action: str, weight: int) -> str:
    """Carries out an action that ``check_operation`` accepts. Returns the name of the Command that opens or closes the
    queue; "" for an update, which needs none. Raises CommandError."""
    from scheduler.api.batch import Action
    from scheduler.api.kinds import QUEUE

    if action == "update":
        await cluster.patch(QUEUE, "", name, {"spec": {"weight": weight}})
        return ""
    wanted = Action.OPEN_QUEUE if action == "open" else Action.CLOSE_QUEUE
    return await send_command(cluster, QUEUE, name, wanted, DEFAULT_NAMESPACE)
