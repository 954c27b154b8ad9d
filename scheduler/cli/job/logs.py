"""``job logs``: the logs of the Pods of a vcjob, one after the other, or all at once with ``--follow``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from scheduler.api.names import DEFAULT_CONTAINER, JOB_NAME, TASK_INDEX, TASK_SPEC
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import NOT_FOUND, CommandError
from scheduler.cli.output import mapping_in
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import echo, echo_log, styled
from scheduler.cli.view import read_objects

if TYPE_CHECKING:
    from scheduler.cli.pod_state import ListedPod

_COLOURS = ("cyan", "magenta", "blue", "yellow", "green", "bright_cyan", "bright_magenta", "bright_blue")
_NOT_STARTED = ("waiting to start", "does not have a host assigned")
"""Parts of the API server's message about a Pod that has not started."""
_RETRY_SECONDS = 1.0
"""Time until the log of a Pod that has not started is read again."""


@dataclass(frozen=True, slots=True)
class LogStream:
    """The log of one Pod, and the prefix of its lines."""

    pod: "ListedPod"
    container: str
    prefix: str


@click.command("logs")
@name_argument("VCJOB", "-N", "--name", missing="job name is mandatory to show the logs of a particular job")
@click.option("--task", default="", help="Only Pods of this task.")
@click.option("--index", type=click.IntRange(0), help="Only Pods of this index within their task.")
@click.option(
    "--container", "-c", default="", show_default="the Pod's default one, else its first", help="Name of the container."
)
@click.option("--tail", type=click.IntRange(0), help="Number of last lines of each Pod.")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until all Pods have ended.")
@connection_options(namespaced=True)
def logs_command(
    connection: Connection, name: str, task: str, index: int | None, container: str, tail: int | None, follow: bool
) -> None:
    """Print the logs of a vcjob's Pods.

    If the vcjob has several Pods, each line begins with the name of its Pod.
    """

    import asyncio

    async def work(cluster: Cluster) -> None:
        pods = await _pods(cluster, name, task, index)
        params = {**({"follow": "true"} if follow else {}), **({"tailLines": str(tail)} if tail is not None else {})}
        streams = _streams(pods, container)
        if follow:
            failures = await asyncio.gather(*(_copy(cluster, stream, params, wait=True) for stream in streams))
        else:
            failures = [await _copy(cluster, stream, params, wait=False) for stream in streams]
        messages = [failure.message for failure in failures if failure is not None]
        if messages:
            raise CommandError("\n".join(messages))

    connection.run(work)


async def _pods(cluster: Cluster, name: str, task: str, index: int | None) -> "list[ListedPod]":
    """Returns the Pods, sorted by task and index. Raises CommandError if there are none."""
    from scheduler.api.kinds import VCJOB
    from scheduler.cli.pod_state import LISTED_POD
    from scheduler.cluster.kube.transport.sources import WatchSource

    labels = {JOB_NAME: name, TASK_SPEC: task, TASK_INDEX: "" if index is None else str(index)}
    selector = ",".join(f"{key}={value}" for key, value in labels.items() if value)
    found = await cluster.fetch(WatchSource(LISTED_POD, cluster.namespace, labels=selector))
    pods = read_objects(LISTED_POD, found)
    if not pods:
        raw = await cluster.get(VCJOB, cluster.namespace, name)  # a missing job is the better explanation
        state = mapping_in(mapping_in(raw, "status"), "state")
        waits = ": ".join(str(state[key]) for key in ("phase", "message") if state.get(key))
        why = f" (its phase is {waits})" if waits else ""
        raise CommandError(f"job {name} in namespace {cluster.namespace} has no Pods with the labels {selector}{why}")
    return sorted(pods, key=_task_and_index)


def _task_and_index(pod: "ListedPod") -> tuple[str, int, str]:
    labels = pod.metadata.labels or {}
    index = labels.get(TASK_INDEX, "")
    return labels.get(TASK_SPEC, ""), int(index) if index.isdecimal() else -1, pod.metadata.name


def _streams(pods: "Sequence[ListedPod]", container: str) -> list[LogStream]:
    streams = []
    for i, pod in enumerate(pods):
        prefix = f"[{pod.metadata.name}] " if len(pods) > 1 else ""
        prefix = styled(prefix, _COLOURS[i % len(_COLOURS)]) if prefix else ""
        streams.append(LogStream(pod, container or _default_container(pod), prefix))
    return streams


def _default_container(pod: "ListedPod") -> str:
    """The API server requires a name if the Pod has several containers."""
    names = [container.name for container in pod.spec.containers]
    wanted = (pod.metadata.annotations or {}).get(DEFAULT_CONTAINER, "")
    return wanted if wanted in names else names[0] if names else ""


async def _copy(cluster: Cluster, stream: LogStream, params: dict[str, str], *, wait: bool) -> CommandError | None:
    """Copies a log to standard output and returns the error, if any. ``wait``: wait until the Pod has started."""
    import asyncio

    if stream.container:
        params = {**params, "container": stream.container}
    name, waits = stream.pod.metadata.name, False
    empty = True

    def copy_lines(lines: list[bytes]) -> None:
        nonlocal empty
        echo_log(stream.prefix, lines)
        empty = empty and not lines

    while True:
        empty = True
        try:
            await cluster.log(cluster.namespace, name, params, copy_lines)
        except CommandError as failed:
            if wait and failed.status == NOT_FOUND:
                return None  # the Pod was deleted, and its log with it
            if not any(words in failed.message for words in _NOT_STARTED):
                return failed
            if not wait:
                return CommandError(_without_logs(stream) or failed.message, failed.status)
            if not waits:
                echo(f"note: {_without_logs(stream) or failed.message}; waiting", err=True)
            waits = True
        else:
            if empty and params.get("tailLines") != "0":
                echo(f"note: {_without_logs(stream) or f'Pod {name} has no logs'}", err=True)
            return None
        await asyncio.sleep(_RETRY_SECONDS)


def _without_logs(stream: LogStream) -> str:
    """Which Pod has no logs, and why; "" if its status does not say."""
    from scheduler.cli.pod_state import why_no_logs

    pod = stream.pod
    if not pod.status.phase:
        return ""
    return f"Pod {pod.metadata.name} has no logs: {why_no_logs(pod, stream.container)}"
