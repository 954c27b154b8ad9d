"""``job suspend``, ``resume`` and ``delete``. The first two create Commands, which the job controller carries out.

Kubernetes deletes the objects that a vcjob owns with the vcjob.
"""

from typing import TYPE_CHECKING

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.operations import delete_each, send_command
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.batch import Action


def _send(connection: Connection, name: str, action: "Action", done: str) -> None:
    from scheduler.api.kinds import VCJOB

    async def work(cluster: Cluster) -> None:
        namespace = cluster.namespace
        command = await send_command(cluster, VCJOB, name, action, namespace)
        echo(f"{done} job {name}: Command {command} created in namespace {namespace}")

    connection.run(work)


@click.command("suspend")
@name_argument("VCJOB", "-N", "--name", missing="job name is mandatory to suspend a particular job")
@connection_options(namespaced=True)
def suspend_command(connection: Connection, name: str) -> None:
    """Stop a vcjob until it is resumed.

    Creates a Command AbortJob for the job controller.
    """
    from scheduler.api.batch import Action

    _send(connection, name, Action.ABORT_JOB, "suspend")


@click.command("resume")
@name_argument("VCJOB", "-N", "--name", missing="job name is mandatory to resume a particular job")
@connection_options(namespaced=True)
def resume_command(connection: Connection, name: str) -> None:
    """Resume a suspended vcjob.

    Creates a Command ResumeJob for the job controller.
    """
    from scheduler.api.batch import Action

    _send(connection, name, Action.RESUME_JOB, "resume")


@click.command("delete")
@name_argument("VCJOB", "-N", "--name", missing="job name is mandatory to delete a particular job", multiple=True)
@connection_options(namespaced=True)
def delete_command(connection: Connection, names: tuple[str, ...]) -> None:
    """Delete vcjobs."""
    from scheduler.api.kinds import VCJOB

    delete_each(connection, VCJOB, names)
