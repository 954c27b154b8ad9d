"""Changes to jobs: to the one that waits, so that it may be placed as it is, and to those that are in its way."""

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import POD, POD_GROUP, VCJOB
from scheduler.api.names import KUBE_SYSTEM
from scheduler.api.task import READY_STATUSES, TaskStatus
from scheduler.explain.target import owners
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step, listed, whole
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Held
from scheduler.framework.remedies.nodes import compared

_SINGLE: Final = 3
"""So many other jobs are tried one by one."""
_TOGETHER: Final = 12
"""Of so many some are tried together."""


# --- the job itself ---
def ungate(evidence: Evidence) -> Iterator[Plan]:
    """Take the scheduling gates off as many Pods as it takes."""
    gated = [task for task in evidence.wanted if task.gated]
    if not gated:
        return

    def at(degree: int) -> Step:
        names = [task.name for task in gated[:degree]]
        text = f"remove the scheduling gates of {len(names)} Pod{'s' * (len(names) > 1)}: {listed(names)}"
        return Step(text, tuple(Edit(POD, evidence.job.namespace, name, _without_gates) for name in names))

    yield (Adjustment(ChangeKind.GATES, len(gated), len(gated), at),)


def _without_gates(pod: Raw) -> Raw:
    pod["spec"]["schedulingGates"] = []
    return pod


def lower_minimum(evidence: Evidence) -> Iterator[Plan]:
    """Ask for fewer Pods at once, of all or of a task, where there are not as many as the job asks for."""
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


def _with_minimum(job: Job, there: int, degree: int) -> Step:
    minimum = job.min_member - degree
    text = f"lower minMember of PodGroup {job.key} from {job.min_member} to {minimum} (it has {there} Pods)"

    def lowered(group: Raw) -> Raw:
        group["spec"]["minMember"] = minimum
        return group

    return Step(text, (Edit(POD_GROUP, job.namespace, job.name, lowered),))


def _with_role_minimum(job: Job, role: str, there: int, degree: int) -> Step:
    before = job.role_minimum[role]
    text = (
        f"lower minTaskMember of task {role} of PodGroup {job.key} from {before} to {before - degree} (it has {there})"
    )

    def lowered(group: Raw) -> Raw:
        group["spec"]["minTaskMember"] = {**group["spec"]["minTaskMember"], role: before - degree}
        return group

    return Step(text, (Edit(POD_GROUP, job.namespace, job.name, lowered),))


def allow_tiers(evidence: Evidence) -> Iterator[Plan]:
    """Let the Pods be further apart in the network."""
    job, topology = evidence.job, evidence.job.topology
    if topology is None or topology.highest_tier_allowed is None or not evidence.shortages("HyperNode"):
        return
    allowed, top = topology.highest_tier_allowed, evidence.session.hyper_nodes.top.tier

    def at(degree: int) -> Step:
        text = f"raise highestTierAllowed of PodGroup {job.key} from {allowed} to {allowed + degree}"
        return Step(text, (Edit(POD_GROUP, job.namespace, job.name, partial(_with_tier, tier=allowed + degree)),))

    if top > allowed:
        yield (Adjustment(ChangeKind.TOPOLOGY, 1, top - allowed, at),)


def _with_tier(group: Raw, tier: int) -> Raw:
    group["spec"]["networkTopology"] = {**(group["spec"].get("networkTopology") or {}), "highestTierAllowed": tier}
    return group


def move_to_leaf(evidence: Evidence) -> Iterator[Plan]:
    """Put the job into a queue below its own, where its own takes none."""
    job, queues = evidence.job, evidence.session.queues
    if not evidence.held(Held.VALIDITY, Held.ENQUEUE):
        return
    below = [name for name, queue in sorted(queues.items()) if queue.parent == job.queue]
    for name in below[:_SINGLE]:
        edit = Edit(POD_GROUP, job.namespace, job.name, partial(_with_queue, queue=name))
        step = Step(f"put PodGroup {job.key} into queue {name}, below {job.queue}", (edit,))
        yield (whole(ChangeKind.QUEUE_OF_JOB, step, name),)


def _with_queue(group: Raw, queue: str) -> Raw:
    group["spec"]["queue"] = queue
    return group


# --- others ---
def delete_others(evidence: Evidence) -> Iterator[Plan]:
    """Delete jobs that are no more important and hold, or were promised, what is lacking: one, else several."""
    others = _in_the_way(evidence)
    for other in others[:_SINGLE]:
        yield _each_deleted(evidence, [other], 1)
    if len(others) > 1:
        change = partial(_deleted, evidence, others)
        yield (Adjustment(ChangeKind.DELETE, 2, len(others), change, apart=partial(_each_deleted, evidence, others)),)


def _each_deleted(evidence: Evidence, others: list[Job], degree: int) -> Plan:
    each = others[:degree]
    return tuple(Adjustment(ChangeKind.DELETE, 1, 1, partial(_deleted, evidence, [job]), job.key) for job in each)


def _deleted(evidence: Evidence, others: list[Job], degree: int) -> Step:
    gone = others[:degree]
    return Step(
        "delete " + " and ".join(_described(evidence, other) for other in gone),
        tuple(_deletion(evidence, other) for other in gone),
    )


def _described(evidence: Evidence, job: Job) -> str:
    kind, name = owner_of(evidence, job)
    pods = f"{job.size} Pod{'s' * (job.size != 1)}"
    return f"{kind} {job.namespace}/{name} ({pods} in queue {job.queue}, priority {job.priority})"


def owner_of(evidence: Evidence, job: Job) -> tuple[str, str]:
    """Kind and name of the vcjob that a PodGroup is of, or of the PodGroup itself."""
    group = evidence.objects.find(POD_GROUP, job.namespace, job.name)
    uids = owners(group) if group is not None else []
    for raw in evidence.objects.of(VCJOB):
        if raw["metadata"]["uid"] in uids:
            return "job", raw["metadata"]["name"]
    return "PodGroup", job.name


def _deletion(evidence: Evidence, job: Job) -> Edit:
    kind, name = owner_of(evidence, job)
    return Edit(VCJOB if kind == "job" else POD_GROUP, job.namespace, name, lambda raw: None)


def _in_the_way(evidence: Evidence) -> list[Job]:
    """The least important first, of these the smallest that would do by itself, the youngest."""
    session, job, need = evidence.session, evidence.job, evidence.need
    asked = np.flatnonzero(need)
    found: list[tuple[tuple[object, ...], Job]] = []
    for other in session.jobs.values():
        if other is job or other.priority > job.priority or other.namespace == KUBE_SYSTEM:
            continue
        holds = other.allocated if other.min_resources is None else np.maximum(other.allocated, other.min_resources)
        if holds[asked].any():
            enough = _frees_enough(evidence, other)
            found.append(((not enough, other.priority, other.size, -other.creation, other.key), other))
    return [other for _, other in sorted(found, key=lambda entry: entry[0])[:_TOGETHER]]


def _frees_enough(evidence: Evidence, other: Job) -> bool:
    """Whether some node would have room for one of the Pods that find none, were the other job gone."""
    session = evidence.session
    task = next(iter(evidence.wanted), None)
    if task is None:
        return True
    dims = compared(task.cls)
    freed: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for status in (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING):
        for held in other.of(status).values():
            row = session.nodes.index.get(held.node)
            if row is not None:
                freed[row] = freed.get(row, session.nodes.idle[:, row]) + held.cls.request
    return any((amounts[dims] >= task.cls.request[dims]).all() for amounts in freed.values())
