"""``job view``: one vcjob or AscendJob in sections, what it waits for, its restarts after faults, and its Events."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.errors import NOT_FOUND, CommandError
from scheduler.cli.job.fields import NONE, Field, about, containers, formatted, pod_group, template_labels, why_it_waits
from scheduler.cli.job.restarts import restarts
from scheduler.cli.output import JSON, NAME, TABLE, YAML, Column, RowTable, mapping_in, output_option, print_object
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import age, echo, pairs
from scheduler.cli.view import read_objects, read_one

if TYPE_CHECKING:
    from scheduler.api.acjob import AscendJob, RunPolicy, SchedulingPolicy
    from scheduler.api.batch import Job, TaskSpec
    from scheduler.api.kinds import Kind
    from scheduler.api.scheduling import PodGroup
    from scheduler.cli.job.gang import GangRow


_COUNTS = (
    "pending", "running", "succeeded", "failed", "terminating", "unknown", "version", "retry_count",
    "uncounted_restarts",
)  # fmt: skip
"""Fields of the status that are shown unless they are 0."""
_RUN_POLICY: Final = (
    ("Backoff Limit", "backoff_limit"),
    ("Active Deadline", "active_deadline_seconds"),
    ("TTL", "ttl_seconds_after_finished"),
)
"""Keys and fields of the run policy, which may be absent."""


@click.command("view")
@name_argument(
    ("VCJOB", "ACJOB"), "-N", "--name",
    missing="job name (specified by --name or -N) is mandatory to view a particular job",
)  # fmt: skip
@output_option(TABLE, JSON, YAML, NAME)
@connection_options(namespaced=True)
def view_command(connection: Connection, name: str, output: str) -> None:
    """Show a vcjob in detail, with its Events; or, if there is none of this name, an AscendJob."""

    async def work(cluster: Cluster) -> None:
        kind, raw = await _found(cluster, name)
        if output != TABLE:
            print_object(raw, output, kind)
            return
        for line in await _lines(cluster, kind, raw):
            echo(line)

    connection.run(work)


async def _found(cluster: Cluster, name: str) -> "tuple[Kind[Job | AscendJob], Raw]":
    """The vcjob of a name, else the AscendJob. Raises CommandError, about the vcjob."""
    from scheduler.api.kinds import ACJOB, VCJOB

    try:
        return VCJOB, await cluster.get(VCJOB, cluster.namespace, name)
    except CommandError as error:
        if error.status != NOT_FOUND:
            raise
        with suppress(CommandError):
            return ACJOB, await cluster.get(ACJOB, cluster.namespace, name)
        raise


async def _lines(cluster: Cluster, kind: "Kind[Job | AscendJob]", raw: Raw) -> list[str]:
    from scheduler.api.acjob import AscendJob
    from scheduler.api.kinds import POD_GROUP
    from scheduler.cli.job.gang import GangRow, group_of
    from scheduler.cluster.kube.transport.sources import WatchSource

    job = read_one(kind, raw)
    group = group_of(job, read_objects(POD_GROUP, await cluster.fetch(WatchSource(POD_GROUP, cluster.namespace))))
    if isinstance(job, AscendJob):
        templates = [role.template for role in (job.spec.replica_specs or {}).values()]
        shown = ascendjob_sections(job, group, raw)
    else:
        templates = [task.template for task in job.spec.tasks]
        shown = sections(GangRow(job, group), raw)
    labels = {**(template_labels(templates[0]) if templates else {}), **(job.metadata.labels or {})}
    name = group.metadata.name if group is not None else f"{job.metadata.name}-{job.metadata.uid}"
    history = await restarts(cluster, labels, f"{cluster.namespace}/{name}", time.time())
    events = await events_of(cluster, kind, job.metadata.name, job.metadata.uid)
    return [*formatted(shown), *formatted(history), *_events(events)]


# --- the vcjob --------------------------------------------------------------------------------------------------------
def sections(gang: "GangRow", raw: Raw) -> Iterator[Field]:
    """The job and its gang."""
    yield from about(gang.metadata, raw)
    yield from _spec(gang)
    yield from _status(gang)
    yield from pod_group(gang.group, gang.unschedulable_message)
    yield from _alternatives(gang)


def _spec(gang: "GangRow") -> Iterator[Field]:
    spec = gang.job.spec
    yield 0, "Spec", None
    yield 1, "Queue", spec.queue or NONE
    yield 1, "Scheduler Name", spec.scheduler_name or NONE
    yield 1, "Min Available", spec.min_available
    if spec.priority_class_name:
        yield 1, "Priority Class", spec.priority_class_name
    yield 1, "Max Retry", spec.max_retry
    if spec.plugins:
        yield 1, "Plugins", None
        for plugin, arguments in sorted(spec.plugins.items()):
            yield 2, plugin, " ".join(arguments or ()) or NONE
    for policy in spec.policies or ():
        trigger = policy.event or ",".join(policy.events or ()) or f"exit code {policy.exit_code}"
        yield 1, "Policy", f"{trigger} -> {policy.action}" + (f" after {policy.timeout}" if policy.timeout else "")
    yield 1, "Tasks", None
    for task in spec.tasks:
        yield from _task(task)


def _task(task: "TaskSpec") -> Iterator[Field]:
    yield 2, task.name or NONE, None
    yield 3, "Replicas", task.replicas
    if task.min_available is not None:
        yield 3, "Min Available", task.min_available
    yield from containers(task.template)


def _alternatives(gang: "GangRow") -> Iterator[Field]:
    """The accelerators of which the job uses one, each with its state or why it does not fit."""
    from scheduler.api.card_alternatives import alternative_reasons, job_alternatives

    alternatives = job_alternatives(gang.job.spec)
    if alternatives is None or not alternatives.names:
        return
    conditions = (gang.group.status.conditions if gang.group is not None else None) or ()
    reasons = alternative_reasons((each.type, each.message) for each in conditions)
    yield 0, "Alternatives", None
    for name in alternatives.names:
        yield 1, name, reasons.get(name) or "not tried"
        for index, of_task in alternatives.of_task.items():
            each = of_task[name]
            details = (f"{each.count} {each.resource}", each.image, f"{each.replicas} Pods" if each.replicas else "")
            yield 2, f"Task {gang.job.spec.tasks[index].name}", ", ".join(filter(None, details))


def _status(gang: "GangRow") -> Iterator[Field]:
    status = gang.job.status
    yield 0, "Status", None
    yield 1, "Phase", gang.phase
    for key, text in (("Reason", status.state.reason), ("Message", status.state.message)):
        if text:
            yield 1, key, text
    yield 1, "Min Available", status.min_available
    for field in _COUNTS:
        count = getattr(status, field)
        if count:
            yield 1, field.replace("_", " ").title(), count
    for task, state in sorted((status.task_status_count or {}).items()):
        yield 1, f"Task {task}", pairs(sorted((state.phase or {}).items()))
    for resource, value in sorted((status.controlled_resources or {}).items()):
        yield 1, "Controls", f"{resource}: {value}"
    for condition in status.conditions or ():
        yield 1, "Condition", f"{condition.status} since {condition.last_transition_time or '<unknown>'}"


# --- the AscendJob ---------------------------------------------------------------------------------------------------
def ascendjob_sections(job: "AscendJob", group: "PodGroup | None", raw: Raw) -> Iterator[Field]:
    """The AscendJob, and its PodGroup."""
    yield from about(job.metadata, raw)
    yield from _ascendjob_spec(job)
    yield from _ascendjob_status(job)
    yield from pod_group(group, "" if job.is_finished else why_it_waits(group))


def _ascendjob_spec(job: "AscendJob") -> Iterator[Field]:
    from scheduler.api.acjob import FRAMEWORK

    yield 0, "Spec", None
    yield 1, "Framework", (job.metadata.labels or {}).get(FRAMEWORK) or NONE
    yield from _run_policy(job.spec.run_policy)
    yield 1, "Scheduler Name", job.spec.scheduler_name or NONE
    yield 1, "Roles", None
    for name, role in (job.spec.replica_specs or {}).items():
        yield 2, name or NONE, None
        yield 3, "Replicas", 1 if role.replicas is None else role.replicas
        if role.restart_policy:
            yield 3, "Restart Policy", role.restart_policy
        yield from containers(role.template)


def _run_policy(policy: "RunPolicy") -> Iterator[Field]:
    scheduling: SchedulingPolicy | None = policy.scheduling_policy
    yield 1, "Queue", (scheduling.queue if scheduling else "") or NONE
    if scheduling is not None and scheduling.min_available is not None:
        yield 1, "Min Available", scheduling.min_available
    if scheduling is not None and scheduling.priority_class:
        yield 1, "Priority Class", scheduling.priority_class
    for key, field in _RUN_POLICY:
        if getattr(policy, field) is not None:
            yield 1, key, getattr(policy, field)
    if policy.clean_pod_policy:
        yield 1, "Clean Pod Policy", policy.clean_pod_policy
    if policy.suspend:
        yield 1, "Suspend", "true"


def _ascendjob_status(job: "AscendJob") -> Iterator[Field]:
    conditions = job.status.conditions or []
    yield 0, "Status", None
    newest = next((each for each in reversed(conditions) if each.status == "True"), None)
    yield 1, "Phase", newest.type if newest is not None else "Pending"
    for key, text in (("Reason", newest.reason), ("Message", newest.message)) if newest is not None else ():
        if text:
            yield 1, key, text
    for role, counts in (job.status.replica_statuses or {}).items():
        yield 1, f"Role {role}", pairs((word, count) for word, count in counts.items() if isinstance(count, int))
    for condition in conditions:
        since = condition.last_transition_time or "<unknown>"
        yield 1, "Condition", f"{condition.type} is {condition.status} since {since}"


# --- Events -----------------------------------------------------------------------------------------------------------
async def events_of(cluster: Cluster, kind: "Kind", name: str, uid: str) -> list[Raw]:
    """Fetches the Events of this job, without those of an earlier job with its name."""
    from scheduler.api.kinds import EVENT
    from scheduler.cluster.kube.transport.sources import WatchSource

    fields = f"involvedObject.kind={kind.name},involvedObject.name={name}"
    found = await cluster.fetch(WatchSource(EVENT, cluster.namespace), fields=fields)
    return [event for event in found if mapping_in(event, "involvedObject").get("uid", uid) in (uid, "")]


def _events(events: Sequence[Raw]) -> list[str]:
    if not events:
        return [f"{'Events:':<22}{NONE}"]
    return ["Events:", *(f"  {line}" for line in RowTable(_EVENTS).lines(sorted(events, key=_last)))]


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
