"""Changes to other jobs that hold what the job lacks: deletes them, or scales down those that run more Pods than their
minimum."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, VCJOB, Kind
from scheduler.api.names import KUBE_SYSTEM, TASK_SPEC
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskStatus
from scheduler.cluster.memory.raw_objects import controller_of
from scheduler.explain.changes.workloads import workload_of
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.nodes import compared_resources
from scheduler.framework.session import Session

_MAX_SINGLE: Final = 3
"""The number of other jobs that are tried one by one."""
_MAX_TOGETHER: Final = 12
"""The maximum number of other jobs that are tried together."""
_HOLDING: Final = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING)
_MAX_PODS: Final = 24
_SCALED: Final = {kind.name: kind for kind in (REPLICA_SET, STATEFUL_SET)}


def _others(evidence: Evidence) -> Iterator[Job]:
    """The jobs that may give what the job lacks: those of no higher priority, without the system's."""
    job = evidence.job
    for other in evidence.session.jobs.values():
        if other is not job and other.priority <= job.priority and other.namespace != KUBE_SYSTEM:
            yield other


# --- their sizes ---
def scale_down_others(evidence: Evidence) -> Iterator[Plan]:
    """Removes Pods of jobs of no higher priority that run more than their minimum: one Pod, else several."""
    removable = _removable(evidence)
    if removable:
        change = partial(_without_pods, evidence, removable)
        yield (Adjustment(ChangeKind.SHRINK, 1, len(removable), change, split=partial(_one_each, evidence, removable)),)


def _one_each(evidence: Evidence, removable: Sequence[tuple[Job, Task]], amount: int) -> Plan:
    return tuple(
        Adjustment(ChangeKind.SHRINK, 1, 1, partial(_without_pods, evidence, [one]), one[1].key)
        for one in removable[:amount]
    )


def _removable(evidence: Evidence) -> list[tuple[Job, Task]]:
    """Pods above the minimum of their jobs, those first that make room for a waiting Pod; of one job, the youngest
    first."""
    wanted = next(iter(evidence.wanted), None)
    asked = np.flatnonzero(evidence.need)
    found: list[tuple[tuple[object, ...], Job, Task]] = []
    for other in _others(evidence):
        surplus = other.ready_count - max(other.min_member, 1)
        if surplus <= 0 or other.enforces_role_minimum or other.has_sub_groups:
            continue
        holding = [task for status in _HOLDING for task in other.of(status).values() if task.cls.request[asked].any()]
        holding.sort(key=lambda task: (-task.index, -task.creation, task.name))
        for task in holding[:surplus]:
            enough = wanted is not None and _leaves_room(evidence, task, wanted)
            found.append(((not enough, other.priority, other.key), other, task))
    return [(job, task) for _, job, task in sorted(found, key=lambda entry: entry[0])[:_MAX_PODS]]


def _leaves_room(evidence: Evidence, held: Task, wanted: Task) -> bool:
    nodes = evidence.session.nodes
    row, dims = nodes.index.get(held.node), compared_resources(wanted.cls)
    return row is not None and bool((nodes.idle[dims, row] + held.cls.request[dims] >= wanted.cls.request[dims]).all())


def _without_pods(evidence: Evidence, removable: Sequence[tuple[Job, Task]], amount: int) -> Step:
    removed: dict[str, tuple[Job, list[Task]]] = {}
    for job, task in removable[:amount]:
        removed.setdefault(job.key, (job, []))[1].append(task)
    texts: list[str] = []
    edits: list[Edit] = []
    for job, tasks in removed.values():
        fewer = "1 Pod fewer" if len(tasks) == 1 else f"{len(tasks)} Pods fewer"
        workload = workload_of(evidence, job)
        names, least = ", ".join(task.name for task in tasks), max(job.min_member, 1)
        texts.append(f"{fewer} of {workload.kind} {job.namespace}/{workload.name}, which needs {least}: {names}")
        for task in tasks:
            edits += _scaled_down(evidence, task)
            edits.append(Edit(POD, task.namespace, task.name, lambda raw: None))
    return Step(" and ".join(texts), tuple(edits))


def _scaled_down(evidence: Evidence, task: Task) -> Iterator[Edit]:
    """Removes one replica from the workload that would create the Pod again."""
    server = evidence.objects
    raw = server.find(POD, task.namespace, task.name)
    owner = None if raw is None else controller_of(raw)
    if raw is None or owner is None:
        return
    if owner["kind"] == VCJOB.name and str(owner.get("apiVersion")) == VCJOB.api_version:
        name = (raw["metadata"].get("annotations") or {}).get(TASK_SPEC, "")
        yield Edit(VCJOB, task.namespace, str(owner["name"]), partial(_task_with_fewer, name))
    kind: Kind | None = _SCALED.get(str(owner["kind"]))
    if kind is not None:
        yield Edit(kind, task.namespace, str(owner["name"]), _with_fewer)
        workload = server.find(kind, task.namespace, str(owner["name"]))
        above = None if workload is None else controller_of(workload)
        if above is not None and above["kind"] == DEPLOYMENT.name:
            yield Edit(DEPLOYMENT, task.namespace, str(above["name"]), _with_fewer)


def _with_fewer(workload: Raw) -> Raw:
    workload["spec"]["replicas"] = max(int(workload["spec"].get("replicas", 1)) - 1, 0)
    return workload


def _task_with_fewer(name: str, job: Raw) -> Raw:
    for task in job["spec"].get("tasks") or ():
        if task.get("name") == name:
            task["replicas"] = max(int(task.get("replicas", 1)) - 1, 0)
    return job


# --- deletion ---
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
    session, need = evidence.session, evidence.need
    asked, task = np.flatnonzero(need), next(iter(evidence.wanted), None)
    found: list[tuple[tuple[object, ...], Job]] = []
    for other in _others(evidence):
        holds = other.allocated if other.min_resources is None else np.maximum(other.allocated, other.min_resources)
        if holds[asked].any():
            enough = task is None or _frees_enough(session, other, task)
            found.append(((not enough, other.priority, other.size, -other.creation, other.key), other))
    return [other for _, other in sorted(found, key=lambda entry: entry[0])[:_MAX_TOGETHER]]


def _frees_enough(session: Session, other: Job, task: Task) -> bool:
    """Whether deleting the other job makes room on one node for a task that has none."""
    dims = compared_resources(task.cls)
    freed: dict[int, Vector] = {}
    for status in _HOLDING:
        for held in other.of(status).values():
            row = session.nodes.index.get(held.node)
            if row is not None:
                freed[row] = freed.get(row, session.nodes.idle[:, row]) + held.cls.request
    return any((amounts[dims] >= task.cls.request[dims]).all() for amounts in freed.values())
