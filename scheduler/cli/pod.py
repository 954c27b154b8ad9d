"""``pod list``: the Pods of vcjobs, or all Pods of one queue."""

import time
from typing import TYPE_CHECKING, Final

import click

from scheduler.api.names import JOB_NAME, QUEUE_NAME, QUEUE_NAME_ANNOTATION
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.listing import ListFlags, list_flags, show_list
from scheduler.cli.output import Column
from scheduler.cli.text import age
from scheduler.cli.view import View

if TYPE_CHECKING:
    from scheduler.cli.pod_state import ListedPod, PodState

_GAP = 8


def queue_of(pod: "ListedPod") -> str:
    """The queue of a Pod: a label on Pods of vcjobs, an annotation on others."""
    metadata = pod.metadata
    return (metadata.labels or {}).get(QUEUE_NAME) or (metadata.annotations or {}).get(QUEUE_NAME_ANNOTATION) or ""


def _state(pod: "ListedPod") -> "PodState":
    from scheduler.cli.pod_state import pod_state

    return pod_state(pod)


def _ready(pod: "ListedPod") -> str:
    state = _state(pod)
    return f"{state.ready}/{state.containers}"


def _restarts(pod: "ListedPod") -> str:
    state = _state(pod)
    ago = f" ({age(state.restarted, time.time())} ago)" if state.restarts and state.restarted else ""
    return f"{state.restarts}{ago}"


COLUMNS: "Final[tuple[Column[ListedPod], ...]]" = (
    Column("Namespace", lambda pod: pod.metadata.namespace, gap=_GAP),
    Column("Name", lambda pod: pod.metadata.name, gap=_GAP),
    Column("Ready", _ready, gap=_GAP),
    Column("Status", lambda pod: _state(pod).status, gap=_GAP, phase=True),
    Column("Restart", _restarts, gap=_GAP),
    Column("Age", lambda pod: age(pod.metadata.creation_timestamp, time.time()), gap=_GAP),
    Column("Node", lambda pod: pod.spec.node_name or "<none>", wide=True),
    Column("Job", lambda pod: (pod.metadata.labels or {}).get(JOB_NAME, "<none>"), wide=True),
    Column("Queue", lambda pod: queue_of(pod) or "<none>", wide=True),
)


@click.group("pod")
def pod_group() -> None:
    """Show the Pods of vcjobs."""


@pod_group.command("list")
@click.option("-j", "--job", default="", help="Only Pods of this vcjob.", shell_complete=names_of("VCJOB"))
@click.option("-q", "--queue", default="", help="All Pods of this queue.", shell_complete=names_of("QUEUE"))
@list_flags()
def list_command(connection: Connection, flags: ListFlags, job: str, queue: str) -> None:
    """List the Pods of vcjobs, or of a queue.

    With -q, Pods without a vcjob are listed as well.
    """
    from scheduler.cli.pod_state import LISTED_POD
    from scheduler.cluster.kube.transport.sources import WatchSource

    of_jobs = f"{JOB_NAME}={job}" if job else "" if queue else JOB_NAME
    labels = ",".join(selector for selector in (of_jobs, flags.labels) if selector)

    def view(cluster: Cluster) -> "View[ListedPod]":
        return View(
            (WatchSource(LISTED_POD, cluster.scope, labels=labels),),
            lambda objects: [pod for pod in objects[LISTED_POD] if queue in ("", queue_of(pod))],
            COLUMNS,
        )

    show_list(connection, flags, view)
