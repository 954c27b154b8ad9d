"""``vcctl job``: run, list, view, suspend, resume and delete vcjobs.

The programs of one command (``single``) call the same functions.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import RESOURCE_LIST
from scheduler.cli.job.list import COLUMNS, NAMESPACE, is_selected
from scheduler.cli.job.run import DEFAULT_RESOURCES, job_of_one_task
from scheduler.cli.operations import read_files, send_command
from scheduler.cli.output import key_in
from scheduler.cli.text import echo, echo_tabbed, pairs
from scheduler.cli.vcctl.flags import connection_flags, name_flag, required
from scheduler.cli.vcctl.table import print_view
from scheduler.cli.view import View

if TYPE_CHECKING:
    from scheduler.api.batch import Action, Job

_RESOURCES: Final = pairs(DEFAULT_RESOURCES.items())
Command = Callable[..., None]


def job_flags(command: Command) -> Command:
    """Adds flags of a vcjob of one task to a command, whose function passes their values to ``job_of_flags``."""
    options = (
        click.option(
            "-m", "--min", "min_available", type=int, default=1, show_default=True, help="Pods that must run at once."
        ),
        click.option("-r", "--replicas", type=int, default=1, show_default=True, help="Number of Pods."),
        click.option("-R", "--requests", default=_RESOURCES, show_default=True, help="Requests of each Pod."),
        click.option("-L", "--limits", default=_RESOURCES, show_default=True, help="Limits of each Pod."),
        click.option(
            "-S", "--scheduler", default="", show_default="set by admission", envvar="VOLCANO_SCHEDULER_NAME",
            show_envvar=True, help="schedulerName of the job.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def job_of_flags(*, name: str, requests: str, limits: str, **flags: Any) -> Raw:
    """A vcjob of one task. Raises CommandError if it has no name, or for malformed amounts."""
    required(name, "job name cannot be left blank")
    amounts = {"requests": _amounts(requests), "limits": _amounts(limits)}
    return job_of_one_task(name=name, resources={key: value for key, value in amounts.items() if value}, **flags)


def _amounts(text: str) -> dict[str, str]:
    try:
        return RESOURCE_LIST.convert(text, None, None)
    except click.BadParameter as error:
        raise CommandError(error.message) from None


def run_jobs(connection: Connection, jobs_in: Callable[[str], Sequence[tuple[str, Raw]]]) -> None:
    """Creates vcjobs. ``jobs_in``: returns them with their namespaces, given the namespace of the flags."""
    from scheduler.api.kinds import VCJOB

    async def work(cluster: Cluster) -> None:
        for namespace, job in jobs_in(cluster.namespace):
            echo(f"run job {key_in(await cluster.create(VCJOB, namespace, job))[1]} successfully")

    connection.run(work)


def list_jobs(connection: Connection, *, queue: str = "", scheduler: str, selector: str) -> None:
    """Prints the table of vcjobs. ``selector``: a part of the name."""
    from scheduler.api.kinds import VCJOB
    from scheduler.cluster.kube.transport.sources import WatchSource

    async def work(cluster: Cluster) -> None:
        view: View[Job] = View(
            (WatchSource(VCJOB, cluster.scope),),
            lambda objects: [job for job in objects[VCJOB] if is_selected(job, queue, scheduler, selector)],
            COLUMNS if cluster.scope else (NAMESPACE, *COLUMNS),
        )
        await print_view(cluster, view)

    connection.run(work)


def view_job(connection: Connection, name: str, *, conditions: bool) -> None:
    """Prints a vcjob in detail, and its Events. ``conditions``: whether to show the phases that it has had."""
    from scheduler.api.kinds import VCJOB
    from scheduler.cli.job.view import events_of
    from scheduler.cli.vcctl.job_view import event_lines, job_lines

    async def work(cluster: Cluster) -> None:
        job = await cluster.get(VCJOB, cluster.namespace, name)
        for line in job_lines(job, conditions=conditions):
            echo_tabbed(line)
        events: list[Raw] = []
        try:
            events = await events_of(cluster, VCJOB, name, str(job.get("metadata", {}).get("uid", "")))
        except CommandError as error:
            echo(f"Failed to list events: {error.answer or error.message}", err=True)
        for line in event_lines(events):
            echo_tabbed(line)

    connection.run(work)


def send_to_job(connection: Connection, name: str, action: "Action") -> None:
    """Creates a Command for a vcjob."""
    from scheduler.api.kinds import VCJOB

    connection.run(lambda cluster: send_command(cluster, VCJOB, name, action, cluster.namespace))


def delete_job(connection: Connection, name: str, done: str) -> None:
    """Deletes a vcjob. ``done``: the word printed before its name."""
    from scheduler.api.kinds import VCJOB

    async def work(cluster: Cluster) -> None:
        await cluster.delete(VCJOB, cluster.namespace, name)
        echo(f"{done} job {name} successfully")

    connection.run(work)


# --- the commands of vcctl --------------------------------------------------------------------------------------------
@click.group("job")
def job_group() -> None:
    """Run, show and stop vcjobs."""


@job_group.command("run")
@click.option("-f", "--filename", "file", default="", metavar="FILE", help="Manifest of the job.")
@name_flag("VCJOB", "-N")
@click.option("-i", "--image", default="busybox", show_default=True, help="Image of the container.")
@job_flags
@connection_flags("-n")
def run_command(connection: Connection, file: str, **flags: Any) -> None:
    """Create a vcjob from a manifest or from flags."""
    from scheduler.api.kinds import VCJOB

    if file:
        run_jobs(connection, lambda namespace: read_files([file], VCJOB, namespace, namespace))
    else:
        job = job_of_flags(**flags)
        run_jobs(connection, lambda namespace: [(namespace, job)])


@job_group.command("list")
@click.option("-q", "--queue", default="", help="Only vcjobs of this queue.")
@click.option("-S", "--scheduler", default="", help="Only vcjobs of this scheduler.")
@click.option("--selector", default="", help="Only vcjobs whose name contains this text.")
@connection_flags("-n", all_namespaces=True)
def list_command(connection: Connection, queue: str, scheduler: str, selector: str) -> None:
    """List vcjobs."""
    list_jobs(connection, queue=queue, scheduler=scheduler, selector=selector)


@job_group.command("view")
@name_flag("VCJOB", "-N")
@connection_flags("-n")
def view_command(connection: Connection, name: str) -> None:
    """Show a vcjob in detail, with its Events."""
    required(name, "job name (specified by --name or -N) is mandatory to view a particular job")
    view_job(connection, name, conditions=True)


@job_group.command("suspend")
@name_flag("VCJOB", "-N")
@connection_flags("-n")
def suspend_command(connection: Connection, name: str) -> None:
    """Stop a vcjob until it is resumed."""
    from scheduler.api.batch import Action

    send_to_job(connection, required(name, "job name is mandatory to suspend a particular job"), Action.ABORT_JOB)


@job_group.command("resume")
@name_flag("VCJOB", "-N")
@connection_flags("-n")
def resume_command(connection: Connection, name: str) -> None:
    """Resume a suspended vcjob."""
    from scheduler.api.batch import Action

    send_to_job(connection, required(name, "job name is mandatory to resume a particular job"), Action.RESUME_JOB)


@job_group.command("delete")
@name_flag("VCJOB", "-N")
@connection_flags("-n")
def delete_command(connection: Connection, name: str) -> None:
    """Delete a vcjob."""
    delete_job(connection, required(name, "job name is mandatory to delete a particular job"), "delete")
