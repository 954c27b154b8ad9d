"""Scales down other jobs that run more Pods than their minimum."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, VCJOB, Kind
from scheduler.api.names import KUBE_SYSTEM, TASK_SPEC
from scheduler.api.task import Task, TaskStatus
from scheduler.cluster.memory.raw_objects import controller_of
from scheduler.explain.changes.workloads import workload_of
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.nodes import compared_resources

_HOLDING: Final = (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING)
_MAX_PODS: Final = 24
_SCALED: Final = {kind.name: kind for kind in (REPLICA_SET, STATEFUL_SET)}


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
    session, wanted = evidence.session, next(iter(evidence.wanted), None)
    asked = np.flatnonzero(evidence.need)
    found: list[tuple[tuple[object, ...], Job, Task]] = []
    for other in session.jobs.values():
        if other is evidence.job or other.priority > evidence.job.priority or other.namespace == KUBE_SYSTEM:
            continue
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
