"""Changes to jobs: to the waiting job itself, and to jobs that hold what it needs."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import POD, POD_GROUP
from scheduler.api.names import KUBE_SYSTEM
from scheduler.api.resource import Vector
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.explain.changes.workloads import workload_of
from scheduler.framework.remedies.adjustments import (
    Adjustment,
    ChangeKind,
    Edit,
    Plan,
    Raw,
    Step,
    indivisible,
    join_names,
)
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import GateKind
from scheduler.framework.remedies.nodes import compared_resources
from scheduler.framework.session import Session

_MAX_SINGLE: Final = 3
"""The number of other jobs that are tried one by one."""
_MAX_TOGETHER: Final = 12
"""The maximum number of other jobs that are tried together."""


# --- the job itself ---
def remove_scheduling_gates(evidence: Evidence) -> Iterator[Plan]:
    """Removes the scheduling gates of as many Pods as needed."""
    gated = [task for task in evidence.wanted if task.gated]
    if not gated:
        return

    def at(amount: int) -> Step:
        names = [task.name for task in gated[:amount]]
        text = f"remove the scheduling gates of {len(names)} Pod{'s' * (len(names) > 1)}: {join_names(names)}"
        return Step(text, tuple(Edit(POD, evidence.job.namespace, name, _without_gates) for name in names))

    yield (Adjustment(ChangeKind.GATES, len(gated), len(gated), at),)


def _without_gates(pod: Raw) -> Raw:
    pod["spec"]["schedulingGates"] = []
    return pod


def lower_minimum(evidence: Evidence) -> Iterator[Plan]:
    """Lowers the minimum of the gang or of a role that has fewer Pods than its minimum."""
    job = evidence.job
    there = job.ready_count + job.count(TaskStatus.PIPELINED, TaskStatus.PENDING)
    adjustments = []
    if 0 < there < job.min_member:
        change = partial(_with_minimum, job, there)
        adjustments.append(Adjustment(ChangeKind.MINIMUM, job.min_member - there, job.min_member - 1, change))
    counts = job.role_counts(*READY_STATUSES, TaskStatus.PIPELINED, TaskStatus.PENDING)
    for role, minimum in sorted(job.role_minimum.items()):
        if there and counts.get(role, 0) < minimum and job.enforces_role_minimum:
            change = partial(_with_role_minimum, job, role, counts.get(role, 0))
            adjustments.append(Adjustment(ChangeKind.MINIMUM, minimum - counts.get(role, 0), minimum, change, role))
    if adjustments:
        yield tuple(adjustments)


def _with_minimum(job: Job, there: int, amount: int) -> Step:
    minimum = job.min_member - amount
    text = f"lower minMember of PodGroup {job.key} from {job.min_member} to {minimum} (it has {there} Pods)"

    def lowered(group: Raw) -> Raw:
        group["spec"]["minMember"] = minimum
        return group

    return Step(text, (Edit(POD_GROUP, job.namespace, job.name, lowered),))


def _with_role_minimum(job: Job, role: str, there: int, amount: int) -> Step:
    before = job.role_minimum[role]
    text = (
        f"lower minTaskMember of task {role} of PodGroup {job.key} from {before} to {before - amount} (it has {there})"
    )

    def lowered(group: Raw) -> Raw:
        group["spec"]["minTaskMember"] = {**group["spec"]["minTaskMember"], role: before - amount}
        return group

    return Step(text, (Edit(POD_GROUP, job.namespace, job.name, lowered),))


def raise_highest_tier(evidence: Evidence) -> Iterator[Plan]:
    """Raises the highest tier of the network topology that the job allows."""
    job, topology = evidence.job, evidence.job.topology
    if topology is None or topology.highest_tier_allowed is None or not evidence.shortages("HyperNode"):
        return
    allowed, top = topology.highest_tier_allowed, evidence.session.hyper_nodes.top.tier

    def at(amount: int) -> Step:
        text = f"raise highestTierAllowed of PodGroup {job.key} from {allowed} to {allowed + amount}"
        return Step(text, (Edit(POD_GROUP, job.namespace, job.name, partial(_with_tier, tier=allowed + amount)),))

    if top > allowed:
        yield (Adjustment(ChangeKind.TOPOLOGY, 1, top - allowed, at),)


def _with_tier(group: Raw, tier: int) -> Raw:
    group["spec"]["networkTopology"] = {**(group["spec"].get("networkTopology") or {}), "highestTierAllowed": tier}
    return group


def move_to_child_queue(evidence: Evidence) -> Iterator[Plan]:
    """Moves the job to a child of its queue, where its own queue accepts no jobs."""
    job, queues = evidence.job, evidence.session.queues
    if not evidence.has_gate(GateKind.VALIDITY, GateKind.ENQUEUE):
        return
    children = [name for name, queue in sorted(queues.items()) if queue.parent == job.queue]
    for name in children[:_MAX_SINGLE]:
        edit = Edit(POD_GROUP, job.namespace, job.name, partial(_with_queue, queue=name))
        step = Step(f"put PodGroup {job.key} into queue {name}, below {job.queue}", (edit,))
        yield (indivisible(ChangeKind.QUEUE_OF_JOB, step, name),)


def _with_queue(group: Raw, queue: str) -> Raw:
    group["spec"]["queue"] = queue
    return group


# --- other jobs ---
def delete_others(evidence: Evidence) -> Iterator[Plan]:
    """Deletes jobs of no higher priority that hold or reserve what the job lacks: one of them, else several."""
    others = _deletion_candidates(evidence)
    for other in others[:_MAX_SINGLE]:
        yield _each_deleted(evidence, [other], 1)
    if len(others) > 1:
        change = partial(_deleted, evidence, others)
        yield (Adjustment(ChangeKind.DELETE, 2, len(others), change, split=partial(_each_deleted, evidence, others)),)


def _each_deleted(evidence: Evidence, others: list[Job], amount: int) -> Plan:
    each = others[:amount]
    return tuple(Adjustment(ChangeKind.DELETE, 1, 1, partial(_deleted, evidence, [job]), job.key) for job in each)


def _deleted(evidence: Evidence, others: list[Job], amount: int) -> Step:
    deleted = others[:amount]
    return Step(
        "delete " + " and ".join(_described(evidence, other) for other in deleted),
        tuple(edit for other in deleted for edit in workload_of(evidence, other).deletion),
    )


def _described(evidence: Evidence, job: Job) -> str:
    workload = workload_of(evidence, job)
    pods = f"{job.size} Pod{'s' * (job.size != 1)}"
    return f"{workload.kind} {job.namespace}/{workload.name} ({pods} in queue {job.queue}, priority {job.priority})"


def _deletion_candidates(evidence: Evidence) -> list[Job]:
    """The jobs to delete, in order: those that free enough alone first, then lowest priority, smallest size,
    youngest."""
    session, job, need = evidence.session, evidence.job, evidence.need
    asked, task = np.flatnonzero(need), next(iter(evidence.wanted), None)
    found: list[tuple[tuple[object, ...], Job]] = []
    for other in session.jobs.values():
        if other is job or other.priority > job.priority or other.namespace == KUBE_SYSTEM:
            continue
        holds = other.allocated if other.min_resources is None else np.maximum(other.allocated, other.min_resources)
        if holds[asked].any():
            enough = task is None or _frees_enough(session, other, task)
            found.append(((not enough, other.priority, other.size, -other.creation, other.key), other))
    return [other for _, other in sorted(found, key=lambda entry: entry[0])[:_MAX_TOGETHER]]


def _frees_enough(session: Session, other: Job, task: Task) -> bool:
    """Whether deleting the other job makes room on one node for a task that has none."""
    dims = compared_resources(task.cls)
    freed: dict[int, Vector] = {}
    for status in (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING):
        for held in other.of(status).values():
            row = session.nodes.index.get(held.node)
            if row is not None:
                freed[row] = freed.get(row, session.nodes.idle[:, row]) + held.cls.request
    return any((amounts[dims] >= task.cls.request[dims]).all() for amounts in freed.values())
