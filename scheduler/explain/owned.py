"""The PodGroups of a workload: those of the objects that it owns, directly or not, and of their Pods. Of a JobFlow,
also its steps: which job it waits for now, and which steps wait for which.

A Deployment owns ReplicaSets, which own PodGroups; a JobSet owns Jobs; a CronJob owns vcjobs. The owner itself may be
missing in the cluster in memory, such as a RayCluster: what it owns refers to it.
"""

from typing import Any, Final

import msgspec

from scheduler.api.batch import FINISHED_PHASES, Job, JobFlow, JobPhase
from scheduler.api.explained_kinds import is_kind
from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD,
    POD_GROUP,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from scheduler.api.messages import listed
from scheduler.api.names import GROUP_NAME
from scheduler.api.objects import ENDED_PHASES
from scheduler.api.start_order import order_problem
from scheduler.cluster.memory import MemoryCluster
from scheduler.cluster.memory.index import group_of
from scheduler.controllers.jobflow.status import FAILED, SUCCEED, gone_completed, read_status
from scheduler.controllers.jobflow.steps import job_name, order_text
from scheduler.controllers.owners import manages

Raw = dict[str, Any]
_OWNERS: Final = (
    DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, REPLICATION_CONTROLLER, BATCH_JOB, VCJOB, ACJOB, JOB_FLOW,
    CRON_JOB,
)  # fmt: skip
"""The kinds that own others of these, PodGroups and Pods."""


class Owned(msgspec.Struct, frozen=True):
    """What a workload owns."""

    groups: tuple[str, ...]
    """Names of its PodGroups, the oldest first."""
    pods: tuple[Raw, ...]
    """Its Pods."""


def owned_by(cluster: MemoryCluster, namespace: str, roots: list[str]) -> Owned:
    """What the objects with the uids ``roots`` own in a namespace, directly or not."""
    server, pending, pods = cluster.server, list(roots), list[Raw]()
    found: dict[str, None] = {}
    seen = set(pending)
    while pending:
        uid = pending.pop()
        found |= dict.fromkeys(str(raw["metadata"]["name"]) for raw in server.owned(POD_GROUP, namespace, uid))
        pods += server.owned(POD, namespace, uid)
        below = {str(raw["metadata"]["uid"]) for kind in _OWNERS for raw in server.owned(kind, namespace, uid)} - seen
        seen |= below
        pending += sorted(below)
    named = (str((pod["metadata"].get("annotations") or {}).get(GROUP_NAME) or "") for pod in pods)
    found |= dict.fromkeys(name for name in named if name and server.find(POD_GROUP, namespace, name) is not None)
    return Owned(tuple(sorted(found, key=lambda name: _age(cluster, namespace, name))), tuple(pods))


def _age(cluster: MemoryCluster, namespace: str, group: str) -> tuple[str, str]:
    raw = cluster.server.find(POD_GROUP, namespace, group) or {}
    return str((raw.get("metadata") or {}).get("creationTimestamp") or ""), group


def references_to(cluster: MemoryCluster, word: str, namespace: str, name: str) -> tuple[Kind | None, list[str]]:
    """The kind and the uids of an owner, according to objects that it owns; None if it owns nothing. ``word``: the
    user's word for the kind."""
    kind, uids = None, dict[str, None]()
    for of in (POD_GROUP, *_OWNERS, POD):
        for raw in cluster.server.of(of):
            if raw["metadata"].get("namespace") != namespace:
                continue
            for owner in raw["metadata"].get("ownerReferences") or ():
                if owner.get("name") == name and is_kind(word, str(owner.get("kind"))):
                    kind = Kind(str(owner["kind"]), str(owner.get("apiVersion")), "", True)
                    uids[str(owner.get("uid"))] = None
    return kind, list(uids)


def waiting_groups(cluster: MemoryCluster, namespace: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """The PodGroups of which Pods wait for a node, or that wait for their Pods."""
    return tuple(name for name in groups if _waits(cluster, namespace, name))


def _waits(cluster: MemoryCluster, namespace: str, name: str) -> bool:
    pods = cluster.server.by_index(POD, group_of, f"{namespace}/{name}")
    active = [
        pod
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") not in ENDED_PHASES
    ]
    if active:
        return any(not pod["spec"].get("nodeName") for pod in active)
    phase = ((cluster.server.find(POD_GROUP, namespace, name) or {}).get("status") or {}).get("phase")
    return not pods and phase in (None, "", "Pending", "Inqueue")


ENDED_FLOWS: Final = (SUCCEED, FAILED)
"""Phases in which a JobFlow creates no more jobs."""
_SHOWN: Final = 3


class FlowSteps(msgspec.Struct, frozen=True):
    """The steps of a JobFlow at a time."""

    waiting: tuple[str, ...]
    """Names of the vcjobs that wait, in the order of their steps."""
    unfinished: tuple[str, ...]
    """Names of all vcjobs that have not finished."""
    text: str
    """Which steps have no job, and what they wait for; "": none."""


def steps_of(cluster: MemoryCluster, raw: Raw) -> FlowSteps:
    """Looks at the jobs of a JobFlow. ``raw``: the JobFlow."""
    try:
        flow = msgspec.convert(raw, JobFlow)
        raws = cluster.server.owned(VCJOB, raw["metadata"]["namespace"], raw["metadata"]["uid"])
        owned = [msgspec.convert(job, Job) for job in raws]
    except msgspec.ValidationError:
        return FlowSteps((), (), "")  # an Event says what is malformed
    namespace = flow.metadata.namespace
    jobs = {job.metadata.name: job for job in owned if manages(flow, job)}
    done = {name for name, job in jobs.items() if job.status.state.phase == JobPhase.COMPLETED}
    done |= set(gone_completed(read_status(flow), list(jobs.values())))
    unfinished, waits, blocked = list[str](), list[str](), list[str]()
    for step in flow.spec.flows or ():
        name = job_name(flow, step.name)
        job = jobs.get(name)
        if job is not None:
            if job.status.state.phase not in FINISHED_PHASES:
                unfinished.append(name)
                groups = owned_by(cluster, namespace, [job.metadata.uid]).groups
                if not groups or waiting_groups(cluster, namespace, groups):
                    waits.append(name)
            continue
        if name in done:
            continue
        targets = dict.fromkeys((step.depends_on.targets if step.depends_on is not None else None) or ())
        missing = [target for target in targets if job_name(flow, target) not in done]
        if missing:
            blocked.append(
                f"step {step.name} waits for {listed([_target(flow, jobs, target) for target in missing], _SHOWN)}"
            )
        elif cluster.server.find(JOB_TEMPLATE, namespace, step.name) is None:
            blocked.append(f"step {step.name} waits for JobTemplate {namespace}/{step.name}, which does not exist")
    problem = order_problem(flow.spec.flows or ())
    text = listed(blocked, _SHOWN, "steps wait", "; ") if problem is None else order_text(problem)
    return FlowSteps(tuple(waits), tuple(unfinished), text)


def _target(flow: JobFlow, jobs: dict[str, Job], target: str) -> str:
    """A step with the state of its job, unless that has not been created."""
    job = jobs.get(job_name(flow, target))
    return target if job is None else f"{target} ({job.status.state.phase or JobPhase.PENDING})"
