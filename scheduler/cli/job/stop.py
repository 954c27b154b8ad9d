"""``job suspend``, ``resume`` and ``delete``: Commands to the job controller, or the vcjob is deleted.

What was created for a vcjob is deleted with it, by its owner references.
"""

from typing import TYPE_CHECKING

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.deletion import delete_each
from scheduler.cli.orders import order
from scheduler.cli.target import connected, named
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.batch import Action


def _order(connection: Connection, name: str, action: "Action", done: str) -> None:
    from scheduler.api.kinds import VCJOB

    async def work(cluster: Cluster) -> None:
        namespace = cluster.namespace
        command = await order(cluster, VCJOB, name, action, namespace)
        echo(f"{done} job {name}: Command {command} created in namespace {namespace}")

    connection.run(work)


@click.command("suspend")
@named("VCJOB", "-N", "--name", missing="job name is mandatory to suspend a particular job")
@connected(namespaced=True)
def suspend_command(connection: Connection, name: str) -> None:
    """Stop a vcjob until it is resumed.

    By a Command AbortJob to the job controller.
    """
    from scheduler.api.batch import Action

    _order(connection, name, Action.ABORT_JOB, "suspend")


@click.command("resume")
@named("VCJOB", "-N", "--name", missing="job name is mandatory to resume a particular job")
@connected(namespaced=True)
def resume_command(connection: Connection, name: str) -> None:
    """Go on with a suspended vcjob.

    By a Command ResumeJob to the job controller.
    """
    from scheduler.api.batch import Action

    _order(connection, name, Action.RESUME_JOB, "resume")


@click.command("delete")
@named("VCJOB", "-N", "--name", missing="job name is mandatory to delete a particular job", many=True)
@connected(namespaced=True)
def delete_command(connection: Connection, names: tuple[str, ...]) -> None:
    """Delete vcjobs."""
    from scheduler.api.kinds import VCJOB

    delete_each(connection, VCJOB, names)
