"""vsub, vjobs, vqueues, vcancel, vsuspend and vresume: the programs of one command that Volcano has beside ``vcctl``.

Their ``-n`` is a name and their ``-N`` a namespace.
"""

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.output import Column
from scheduler.cli.vcctl.flags import connection_flags, name_flag, required
from scheduler.cli.vcctl.job import delete_job, job_flags, job_of_flags, list_jobs, run_jobs, send_to_job, view_job
from scheduler.cli.vcctl.program import HELP, Program
from scheduler.cli.vcctl.table import print_view
from scheduler.cli.view import View

if TYPE_CHECKING:
    from scheduler.api.scheduling import Queue


def _program(name: str) -> Callable[[Callable[..., None]], click.Command]:
    return click.command(name, cls=Program, context_settings=HELP)


@_program("vsub")
@name_flag("VCJOB", "-n")
@click.option(
    "-i", "--image", default="busybox", show_default=True, envvar="VOLCANO_DEFAULT_IMAGE", show_envvar=True,
    help="Image of the container.",
)  # fmt: skip
@click.option("-c", "--command", default="", help="Command of the container, in the notation of a shell.")
@job_flags
@connection_flags("-N", variable="VOLCANO_DEFAULT_JOB_NAMESPACE")
def vsub(connection: Connection, command: str, **flags: Any) -> None:
    """Create a vcjob of one task."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError as error:
        raise CommandError(f"--command: {error}") from None
    job = job_of_flags(command=words, **flags)
    run_jobs(connection, lambda namespace: [(namespace, job)])


@_program("vjobs")
@name_flag("VCJOB", "-n")
@click.option("-S", "--scheduler", default="", help="Only vcjobs of this scheduler.")
@click.option("--selector", default="", help="Only vcjobs whose name contains this text.")
@connection_flags("-N", all_namespaces=True)
def vjobs(connection: Connection, name: str, scheduler: str, selector: str) -> None:
    """List vcjobs, or show one in detail."""
    if name:
        view_job(connection, name, conditions=False)
    else:
        list_jobs(connection, scheduler=scheduler, selector=selector)


@_program("vqueues")
@name_flag("QUEUE", "-n")
@connection_flags()
def vqueues(connection: Connection, name: str) -> None:
    """List queues, or show one of them."""
    from scheduler.api.kinds import QUEUE
    from scheduler.cluster.kube.transport.sources import WatchSource

    async def work(cluster: Cluster) -> None:
        if name:
            await cluster.get(QUEUE, "", name)
        view: View[Queue] = View(
            (WatchSource(QUEUE),),
            lambda objects: [queue for queue in objects[QUEUE] if name in ("", queue.metadata.name)],
            _QUEUE_COLUMNS,
        )
        await print_view(cluster, view)

    connection.run(work)


_QUEUE_COLUMNS: "Final[tuple[Column[Queue], ...]]" = (
    Column("Name", lambda queue: queue.metadata.name, 25),
    Column("Weight", lambda queue: queue.spec.weight, 8),
    Column("State", lambda queue: queue.status.state, 8),
    Column("Inqueue", lambda queue: queue.status.inqueue or 0, 8),
    Column("Pending", lambda queue: queue.status.pending or 0, 8),
    Column("Running", lambda queue: queue.status.running or 0, 8),
    Column("Unknown", lambda queue: queue.status.unknown or 0, 8),
)


@_program("vcancel")
@name_flag("VCJOB", "-n")
@connection_flags("-N")
def vcancel(connection: Connection, name: str) -> None:
    """Delete a vcjob."""
    delete_job(connection, required(name, "job name is mandatory to cancel a particular job"), "cancel")


@_program("vsuspend")
@name_flag("VCJOB", "-n")
@connection_flags("-N")
def vsuspend(connection: Connection, name: str) -> None:
    """Stop a vcjob until it is resumed."""
    from scheduler.api.batch import Action

    send_to_job(connection, required(name, "job name is mandatory to suspend a particular job"), Action.ABORT_JOB)


@_program("vresume")
@name_flag("VCJOB", "-n")
@connection_flags("-N")
def vresume(connection: Connection, name: str) -> None:
    """Resume a suspended vcjob."""
    from scheduler.api.batch import Action

    send_to_job(connection, required(name, "job name is mandatory to resume a particular job"), Action.RESUME_JOB)
