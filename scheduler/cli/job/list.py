"""``job list``: vcctl's table of vcjobs."""

from typing import TYPE_CHECKING, Final

import click

from scheduler.api.names import JOB_TYPE
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.listing import ListFlags, list_flags, phase_option, show_list
from scheduler.cli.output import Column
from scheduler.cli.text import local_time
from scheduler.cli.view import View, key_of

if TYPE_CHECKING:
    from scheduler.api.batch import Job

_BATCH = "Batch"
PHASES: Final = (
    "Pending", "Running", "Restarting", "Aborting", "Aborted", "Completing", "Completed", "Terminating", "Terminated",
    "Failed",
)  # fmt: skip
"""The phases of ``JobPhase``, which takes long to import."""


def replicas(job: "Job") -> int:
    """The number of Pods that a vcjob requests."""
    return sum(task.replicas for task in job.spec.tasks)


COLUMNS: "Final[tuple[Column[Job], ...]]" = (
    Column("Name", lambda job: job.metadata.name, gap=3),
    Column("Creation", lambda job: local_time(job.metadata.creation_timestamp, "%Y-%m-%d"), 15),
    Column("Phase", lambda job: job.status.state.phase, 12, phase=True),
    Column("JobType", lambda job: (job.metadata.labels or {}).get(JOB_TYPE) or _BATCH, 12),
    Column("Replicas", replicas, 12),
    Column("Min", lambda job: job.status.min_available, 6),
    Column("Pending", lambda job: job.status.pending, 10),
    Column("Running", lambda job: job.status.running, 10),
    Column("Succeeded", lambda job: job.status.succeeded, 12),
    Column("Failed", lambda job: job.status.failed, 10),
    Column("Unknown", lambda job: job.status.unknown, 12),
    Column("RetryCount", lambda job: job.status.retry_count, 10),
    Column("Queue", lambda job: job.spec.queue, wide=True),
    Column("Scheduler", lambda job: job.spec.scheduler_name, wide=True),
    Column("Message", lambda job: job.status.state.message, wide=True, elastic=True),
)
NAMESPACE: "Final[Column[Job]]" = Column("Namespace", lambda job: job.metadata.namespace, gap=3)


def is_selected(job: "Job", queue: str, scheduler: str, part_of_name: str) -> bool:
    """Whether a vcjob has this queue and scheduler, and this part in its name; "" for any."""
    return (
        part_of_name in job.metadata.name
        and queue in ("", job.spec.queue)
        and scheduler in ("", job.spec.scheduler_name)
    )


@click.command("list")
@click.option("-q", "--queue", default="", help="Only vcjobs of this queue.", shell_complete=names_of("QUEUE"))
@click.option("-S", "--scheduler", default="", help="Only vcjobs of this scheduler.")
@click.option("--selector", default="", help="Only vcjobs whose name contains this text.")
@click.option(
    "--position", is_flag=True, help="Show the position of waiting jobs in their queue; reads the whole cluster."
)
@phase_option(*PHASES)
@list_flags()
def list_command(
    connection: Connection,
    flags: ListFlags,
    queue: str,
    scheduler: str,
    selector: str,
    position: bool,
    phases: tuple[str, ...],
) -> None:
    """List vcjobs."""
    from scheduler.api.kinds import VCJOB
    from scheduler.cluster.kube.transport.sources import WatchSource

    columns = COLUMNS
    if position:
        if flags.watch:
            raise click.UsageError("--position is computed once: leave out --watch")
        from scheduler.cli.visibility import positions

        known = positions(connection)
        columns = (*COLUMNS, Column("Position", lambda job: known.get(key_of(job), ""), 10))

    def wanted(job: "Job") -> bool:
        return is_selected(job, queue, scheduler, selector) and (not phases or job.status.state.phase in phases)

    def view(cluster: Cluster) -> "View[Job]":
        return View(
            (WatchSource(VCJOB, cluster.scope, labels=flags.labels),),
            lambda objects: [job for job in objects[VCJOB] if wanted(job)],
            columns if cluster.scope else (NAMESPACE, *columns),
        )

    show_list(connection, flags, view)
