"""``job view``: one vcjob in sections, what its gang waits for, its restarts after faults, and its Events."""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from scheduler.api.printable import printable
from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.job.restarts import restarts
from scheduler.cli.layout import hanging
from scheduler.cli.output import (
    JSON,
    NAME,
    TABLE,
    YAML,
    Column,
    Table,
    mapping_in,
    output_option,
    print_object,
    terminal_width,
)
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import age, coloured_by_phase, echo, pairs
from scheduler.cli.view import read_object, read_one

if TYPE_CHECKING:
    from scheduler.api.batch import TaskSpec
    from scheduler.cli.job.gang import Gang

_NONE = "<none>"
_VALUES: Final = 22
"""The column in which values begin."""
Field = tuple[int, str, object]
"""Depth, key and value. A heading has the value None."""


@click.command("view")
@name_argument(
    "VCJOB", "-N", "--name", missing="job name (specified by --name or -N) is mandatory to view a particular job"
)
@output_option(TABLE, JSON, YAML, NAME)
@connection_options(namespaced=True)
def view_command(connection: Connection, name: str, output: str) -> None:
    """Show a vcjob in detail, with its Events."""
    from scheduler.api.kinds import POD_GROUP, VCJOB
    from scheduler.cli.job.gang import gangs
    from scheduler.cluster.kube.transport.sources import Source

    async def work(cluster: Cluster) -> None:
        namespace = cluster.namespace
        raw = await cluster.get(VCJOB, namespace, name)
        if output != TABLE:
            print_object(raw, output, VCJOB)
            return
        job = read_one(VCJOB, raw)
        found = await cluster.fetch(Source(POD_GROUP, namespace))
        groups = [group for each in found if (group := read_object(POD_GROUP, each)) is not None]
        gang = gangs([job], groups)[0]
        for line in sections(gang, raw):
            echo(line)
        for line in formatted(await restarts(cluster, job.metadata.labels or {}, gang.group, time.time())):
            echo(line)
        for line in _events(await _events_of(cluster, namespace, name, job.metadata.uid)):
            echo(line)

    connection.run(work)


# --- the job ----------------------------------------------------------------------------------------------------------
def sections(gang: "Gang", raw: Raw) -> Iterator[str]:
    """The lines of the job and its gang."""
    return formatted([*_about(gang, raw), *_spec(gang), *_status(gang), *_group(gang)])


def formatted(fields: Iterable[Field]) -> Iterator[str]:
    """The lines of fields."""
    for depth, key, value in fields:
        if value is None:
            yield f"{'  ' * depth}{key}:"
            continue
        start = f"{'  ' * depth}{key + ':':<{_VALUES - 2 * depth}}"
        if key == "Phase":
            yield start + coloured_by_phase(str(value), str(value))
        else:
            yield from hanging(f"{start}{printable(value)}", terminal_width(), indent=_VALUES)


def _about(gang: "Gang", raw: Raw) -> Iterator[Field]:
    metadata = gang.job.metadata
    yield 0, "Name", metadata.name
    yield 0, "Namespace", metadata.namespace
    yield 0, "Labels", pairs((metadata.labels or {}).items())
    yield 0, "Annotations", pairs((metadata.annotations or {}).items())
    yield 0, "API Version", raw.get("apiVersion", "")
    yield 0, "Kind", raw.get("kind", "")
    yield 0, "Metadata", None
    yield 1, "Creation Timestamp", metadata.creation_timestamp or "<unknown>"
    yield 1, "Resource Version", metadata.resource_version
    yield 1, "UID", metadata.uid


def _spec(gang: "Gang") -> Iterator[Field]:
    spec = gang.job.spec
    yield 0, "Spec", None
    yield 1, "Queue", spec.queue or _NONE
    yield 1, "Scheduler Name", spec.scheduler_name or _NONE
    yield 1, "Min Available", spec.min_available
    if spec.priority_class_name:
        yield 1, "Priority Class", spec.priority_class_name
    yield 1, "Max Retry", spec.max_retry
    if spec.plugins:
        yield 1, "Plugins", None
        for plugin, arguments in sorted(spec.plugins.items()):
            yield 2, plugin, " ".join(arguments or ()) or _NONE
    for policy in spec.policies or ():
        trigger = policy.event or ",".join(policy.events or ()) or f"exit code {policy.exit_code}"
        yield 1, "Policy", f"{trigger} -> {policy.action}" + (f" after {policy.timeout}" if policy.timeout else "")
    yield 1, "Tasks", None
    for task in spec.tasks:
        yield from _task(task)


def _task(task: "TaskSpec") -> Iterator[Field]:
    yield 2, task.name or _NONE, None
    yield 3, "Replicas", task.replicas
    if task.min_available is not None:
        yield 3, "Min Available", task.min_available
    pod = task.template.get("spec")
    containers = pod.get("containers") if isinstance(pod, dict) else None
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, dict):
            yield 3, "Container", f"{container.get('name', '')} ({container.get('image', '')})"
            resources = container.get("resources")
            for key in ("requests", "limits"):
                amounts = resources.get(key) if isinstance(resources, dict) else None
                if isinstance(amounts, dict):
                    yield 3, key.capitalize(), pairs(amounts.items())


def _status(gang: "Gang") -> Iterator[Field]:
    status = gang.job.status
    yield 0, "Status", None
    yield 1, "Phase", gang.phase
    for key, text in (("Reason", status.state.reason), ("Message", status.state.message)):
        if text:
            yield 1, key, text
    yield 1, "Min Available", status.min_available
    for field in ("pending", "running", "succeeded", "failed", "terminating", "unknown", "version", "retry_count"):
        count = getattr(status, field)
        if count:
            yield 1, field.replace("_", " ").title(), count
    for task, state in sorted((status.task_status_count or {}).items()):
        yield 1, f"Task {task}", pairs(sorted((state.phase or {}).items()))
    for resource, value in sorted((status.controlled_resources or {}).items()):
        yield 1, "Controls", f"{resource}: {value}"
    for condition in status.conditions or ():
        yield 1, "Condition", f"{condition.status} since {condition.last_transition_time or '<unknown>'}"


def _group(gang: "Gang") -> Iterator[Field]:
    if gang.group is None:
        yield 0, "PodGroup", _NONE
        return
    yield 0, "PodGroup", None
    yield 1, "Name", gang.group.metadata.name
    yield 1, "Phase", gang.group.status.phase
    yield 1, "Min Member", gang.group.spec.min_member
    if gang.unschedulable_message:
        yield 1, "Waits", gang.unschedulable_message


# --- Events -----------------------------------------------------------------------------------------------------------
async def _events_of(cluster: Cluster, namespace: str, name: str, uid: str) -> list[Raw]:
    """Fetches the Events of this job, without those of an earlier job of the same name."""
    from scheduler.api.kinds import EVENT, VCJOB
    from scheduler.cluster.kube.transport.sources import Source

    fields = f"involvedObject.kind={VCJOB.name},involvedObject.name={name}"
    found = await cluster.fetch(Source(EVENT, namespace), fields=fields)
    return [event for event in found if mapping_in(event, "involvedObject").get("uid", uid) in (uid, "")]


def _events(events: Sequence[Raw]) -> list[str]:
    if not events:
        return [f"{'Events:':<22}{_NONE}"]
    return ["Events:", *(f"  {line}" for line in Table(_EVENTS).lines(sorted(events, key=_last)))]


def _last(event: Raw) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or "")


def _when(event: Raw) -> str:
    now = time.time()
    count = event.get("count")
    if isinstance(count, int) and count > 1:
        return f"{age(_last(event), now)} (x{count} over {age(str(event.get('firstTimestamp')), now)})"
    return age(_last(event), now)


def _source(event: Raw) -> object:
    return mapping_in(event, "source").get("component") or event.get("reportingComponent") or ""


_EVENTS: tuple[Column[Raw], ...] = (
    Column("Type", lambda event: event.get("type", "")),
    Column("Reason", lambda event: event.get("reason", "")),
    Column("Age", _when),
    Column("From", _source),
    Column("Message", lambda event: str(event.get("message", "")).strip(), elastic=True),
)
