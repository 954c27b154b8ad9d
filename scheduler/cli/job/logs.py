"""``job logs``: what the Pods of a vcjob write, one after the other, or all at once while it is followed."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from scheduler.api.names import DEFAULT_CONTAINER, JOB_NAME, TASK_INDEX, TASK_SPEC
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.failure import NOT_FOUND, Failed
from scheduler.cli.target import connected, named
from scheduler.cli.text import echo_log, styled
from scheduler.cli.view import read_object

if TYPE_CHECKING:
    from scheduler.api.objects import Pod

_COLOURS = ("cyan", "magenta", "blue", "yellow", "green", "bright_cyan", "bright_magenta", "bright_blue")
_NOT_STARTED = ("waiting to start", "does not have a host assigned")
"""What the API server says of a Pod that has not come so far as to write anything."""
_BETWEEN_ATTEMPTS = 1.0
"""Seconds until a Pod that has not started is asked again."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The log of one Pod, and how its lines are told from others'."""

    pod: str
    container: str
    prefix: str


@click.command("logs")
@named("VCJOB", "-N", "--name", missing="job name is mandatory to show the logs of a particular job")
@click.option("--task", default="", help="Only Pods of this task.")
@click.option("--index", type=click.IntRange(0), help="Only Pods of this index within their task.")
@click.option("--container", "-c", default="", show_default="the Pod's default one, else its first", help="Container.")
@click.option("--tail", type=click.IntRange(0), help="Only so many of the last lines of each Pod.")
@click.option("-f", "--follow", is_flag=True, help="Go on as more is written, until all Pods have ended.")
@connected(namespaced=True)
def logs_command(
    connection: Connection, name: str, task: str, index: int | None, container: str, tail: int | None, follow: bool
) -> None:
    """Print the logs of a vcjob's Pods.

    If there are several, each line begins with the name of its Pod.
    """

    import asyncio

    async def work(cluster: Cluster) -> None:
        pods = await _pods(cluster, name, task, index)
        params = {**({"follow": "true"} if follow else {}), **({"tailLines": str(tail)} if tail is not None else {})}
        streams = _streams(pods, container)
        if follow:
            failures = await asyncio.gather(*(_copy(cluster, stream, params, patient=True) for stream in streams))
        else:
            failures = [await _copy(cluster, stream, params, patient=False) for stream in streams]
        told = [failure.message for failure in failures if failure is not None]
        if told:
            raise Failed("\n".join(told))

    connection.run(work)


async def _pods(cluster: Cluster, name: str, task: str, index: int | None) -> "list[Pod]":
    """By task and index. Raises Failed if there are none."""
    from scheduler.api.kinds import POD, VCJOB
    from scheduler.cluster.kube.transport.sources import Source

    labels = {JOB_NAME: name, TASK_SPEC: task, TASK_INDEX: "" if index is None else str(index)}
    selector = ",".join(f"{key}={value}" for key, value in labels.items() if value)
    found = await cluster.fetch(Source(POD, cluster.namespace, labels=selector))
    pods = [pod for raw in found if (pod := read_object(POD, raw)) is not None]
    if not pods:
        await cluster.get(VCJOB, cluster.namespace, name)  # a job that does not exist is the better explanation
        raise Failed(f"job {name} in namespace {cluster.namespace} has no Pods with the labels {selector}")
    return sorted(pods, key=_place)


def _place(pod: "Pod") -> tuple[str, int, str]:
    labels = pod.metadata.labels or {}
    index = labels.get(TASK_INDEX, "")
    return labels.get(TASK_SPEC, ""), int(index) if index.isdecimal() else -1, pod.metadata.name


def _streams(pods: "Sequence[Pod]", container: str) -> list[Stream]:
    streams = []
    for i, pod in enumerate(pods):
        prefix = f"[{pod.metadata.name}] " if len(pods) > 1 else ""
        prefix = styled(prefix, _COLOURS[i % len(_COLOURS)]) if prefix else ""
        streams.append(Stream(pod.metadata.name, container or _default_container(pod), prefix))
    return streams


def _default_container(pod: "Pod") -> str:
    """The server insists on a name where there are several."""
    names = [container.name for container in pod.spec.containers]
    wanted = (pod.metadata.annotations or {}).get(DEFAULT_CONTAINER, "")
    return wanted if wanted in names else names[0] if names else ""


async def _copy(cluster: Cluster, stream: Stream, params: dict[str, str], *, patient: bool) -> Failed | None:
    """Copy a log to standard output; why that failed, if it did. ``patient``: wait for the Pod to start."""
    import asyncio

    if stream.container:
        params = {**params, "container": stream.container}
    while True:
        try:
            log = cluster.log(cluster.namespace, stream.pod, params)
            async with aclosing(log):  # type: ignore[type-var]
                async for lines in log:
                    echo_log(stream.prefix, lines)
            return None
        except Failed as failed:
            if patient and failed.status == NOT_FOUND:
                return None  # gone, and with it the log
            if not patient or not any(words in failed.message for words in _NOT_STARTED):
                return failed
        await asyncio.sleep(_BETWEEN_ATTEMPTS)
