"""Why Pods wait that no session has considered: they are left to another scheduler, the API server refuses to create
them, or their tasks wait for other tasks (``dependsOn``). And what a policy does if a Pod waits for too long."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from scheduler.api.acjob import POD_CREATE_FAILED
from scheduler.api.batch import Action, Job, JobEvent, JobPhase
from scheduler.api.kinds import ACJOB, POD, POD_GROUP, VCJOB, find_kind
from scheduler.api.messages import did_you_mean
from scheduler.api.names import EVENT_WARNING, GROUP_NAME, KUBE_SCHEDULER
from scheduler.api.objects import Pod
from scheduler.api.times import format_duration, parse_timestamp
from scheduler.cluster.memory import MemoryCluster
from scheduler.cluster.memory.server import MemoryServer
from scheduler.controllers.job.parsed_spec import ParsedSpec, first_policy
from scheduler.controllers.job.podgroup import why_waiting
from scheduler.controllers.job.pods import PENDING, members_of
from scheduler.framework.remedies.gates import Gate, GateKind

Raw = dict[str, Any]


def scheduler_of(pod: Raw) -> str:
    """The schedulerName of a Pod, with the API server's default."""
    return str(pod["spec"].get("schedulerName") or KUBE_SCHEDULER)


def other_scheduler(name: str, schedulers: Sequence[str]) -> str:
    """Why a Pod of another scheduler is left alone."""
    hint = did_you_mean(name, schedulers)
    return f"its schedulerName is {name}, and this scheduler answers to {', '.join(schedulers)}{hint}"


def why_unconsidered(cluster: MemoryCluster, pod: Raw, schedulers: Sequence[str], warnings: Sequence[Raw]) -> str:
    """Returns the reason of a waiting Pod without a PodScheduled condition. ``warnings``: the Events about it."""
    meta = pod["metadata"]
    if meta.get("deletionTimestamp"):
        return "it terminates"
    name = scheduler_of(pod)
    if name not in schedulers:
        return other_scheduler(name, schedulers)
    for event in warnings:
        if event["type"] == EVENT_WARNING:
            return str(event["message"])
    group = (meta.get("annotations") or {}).get(GROUP_NAME, "")
    stored = cluster.server.find(POD_GROUP, meta["namespace"], group) if group else None
    if group and stored is None:
        return f"its PodGroup {meta['namespace']}/{group} does not exist"
    conditions = ((stored or {}).get("status") or {}).get("conditions") or ()
    message = next((str(each.get("message") or "") for each in reversed(conditions)), "")
    return message or "no session has considered it"


def why_without_pods(server: MemoryServer, group: Raw) -> str:
    """Why the owner of a PodGroup has not created its Pods: what an AscendJob says about its scaling rule; "" if
    nothing is known."""
    owners = group["metadata"].get("ownerReferences") or ()
    for owner in owners:
        if find_kind(owner.get("apiVersion", ""), owner.get("kind", "")) is ACJOB:
            raw = server.find(ACJOB, group["metadata"]["namespace"], owner.get("name", "")) or {}
            last: Raw = next(reversed((raw.get("status") or {}).get("conditions") or ()), {})
            return str(last.get("message", "")) if last.get("reason") == POD_CREATE_FAILED else ""
    return ""


def refused_pods(server: MemoryServer, job: str) -> Iterator[Gate]:
    """The reasons why the owners of a job's PodGroup cannot create more Pods. ``job``: its key."""
    namespace, _, group = job.partition("/")
    raw = server.find(POD_GROUP, namespace, group)
    for owner in (raw["metadata"].get("ownerReferences") or ()) if raw is not None else ():
        refusal = server.refusals.get((namespace, str(owner.get("name"))))
        if refusal is not None:
            yield Gate(GateKind.OWNER, f"more Pods cannot be created: {refusal.message}", shortages=refusal.shortages)


def ordered_tasks(cluster: MemoryCluster, raw: Raw) -> str:
    """What the waiting tasks of a vcjob wait for, or "". ``raw``: the vcjob, or a PodGroup of one."""
    found = vcjob_of(cluster, raw)
    if found is None:
        return ""
    job, pods = found
    parsed_spec = ParsedSpec(job)
    if parsed_spec.refusal:
        return parsed_spec.refusal
    return why_waiting(parsed_spec, members_of(parsed_spec, pods, job))


def time_out(cluster: MemoryCluster, raw: Raw) -> str:
    """The action that a policy of a vcjob takes when one of its Pods has been pending for too long, or "". ``raw``: the
    vcjob, or a PodGroup of one."""
    found = vcjob_of(cluster, raw)
    if found is None or found[0].status.state.phase not in (JobPhase.PENDING, JobPhase.RUNNING):
        return ""
    job, pods = found
    parsed_spec = ParsedSpec(job)
    due = []
    for member in members_of(parsed_spec, pods, job).values():
        task = parsed_spec.tasks.get(member.task)
        own = task.policies if task is not None else ()
        policy = first_policy(JobEvent.POD_PENDING, 0, own, parsed_spec.policies)
        created = parse_timestamp(member.pod.metadata.creation_timestamp)
        if member.phase != PENDING or member.deleting or created is None:
            continue
        if policy is not None and policy.timeout is not None and policy.action is not Action.SYNC_JOB:
            due.append((created + policy.timeout, policy.action, member.name, policy.timeout))
    if not due:
        return ""
    at, action, name, timeout = min(due)
    left = format_duration(max(0.0, round(at - cluster.now)))
    return f"{action} follows in {left}, when Pod {name} has been pending for {format_duration(timeout)}"


def vcjob_of(cluster: MemoryCluster, raw: Raw) -> tuple[Job, list[Pod]] | None:
    """A vcjob with its Pods; None for other objects, and if something is malformed, which an Event says. ``raw``: the
    vcjob, or a PodGroup of one."""
    if raw.get("kind") == POD_GROUP.name:
        owners = [owner.get("uid") for owner in raw["metadata"].get("ownerReferences") or ()]
        found = next((each for each in cluster.server.of(VCJOB) if each["metadata"]["uid"] in owners), None)
        return None if found is None else vcjob_of(cluster, found)
    if (raw.get("apiVersion"), raw.get("kind")) != (VCJOB.api_version, VCJOB.name):
        return None
    try:
        job = msgspec.convert(raw, Job)
        pods = cluster.server.owned(POD, job.metadata.namespace, job.metadata.uid)
        return job, [msgspec.convert(pod, Pod) for pod in pods]
    except msgspec.ValidationError:
        return None
