"""``job delete``: the vcjob and, by its owner references, all that was made for it."""

import click

from scheduler.cli.connection import Connection
from scheduler.cli.deletion import delete_each
from scheduler.cli.target import connected, named


@click.command("delete")
@named("VCJOB", "-N", "--name", missing="job name is mandatory to delete a particular job", many=True)
@connected(namespaced=True)
def delete_command(connection: Connection, names: tuple[str, ...]) -> None:
    """Delete vcjobs."""
    from scheduler.api.kinds import VCJOB

    delete_each(connection, VCJOB, names)
