"""The PodGroup of a job: its name, its content, and the fields that follow the job."""

from collections.abc import Mapping

import msgspec

from scheduler.api import batch
from scheduler.api.kinds import POD_GROUP, PRIORITY_CLASS, VCJOB
from scheduler.api.names import ORDERED_TASKS, PARTITION_ID, TASK_SPEC
from scheduler.api.pod_amounts import summed
from scheduler.api.quantity import QuantityError
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.effects import Create, Json, Patch, diff
from scheduler.controllers.job.dependencies import GangSpec
from scheduler.controllers.job.events import job_of
from scheduler.controllers.job.parsed_spec import ParsedSpec, ParsedTask
from scheduler.controllers.owners import owned
from scheduler.controllers.resources import pod_usage, printed, scaled
from scheduler.controllers.store import Store, key_of

_FOLLOWS = ("minMember", "minTaskMember", "minResources", "priorityClassName")
"""Fields that are brought up to date when the job changes."""


def group_name(job: batch.Job) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def find_group(store: Store, job: batch.Job) -> PodGroup | None:
    """The PodGroup of a job, under its name or the one that older versions of Volcano gave it."""
    group = store.get(POD_GROUP, job.metadata.namespace, group_name(job))
    if group is not None:
        return group
    older = store.get(POD_GROUP, job.metadata.namespace, job.metadata.name)
    owner = None if older is None else job_of(older)
    return older if owner is not None and owner.uid == job.metadata.uid else None


def admitted(group: PodGroup | None) -> bool:
    """Whether the queue has admitted the PodGroup. Its Pods are created only then."""
    return group is not None and group.status.phase not in ("", "Pending")


def create_group(job: batch.Job, gang: GangSpec) -> Create:
    manifest = owned(POD_GROUP, group_name(job), VCJOB, job, spec=gang.spec)
    if job.metadata.labels:
        manifest["metadata"]["labels"] = dict(job.metadata.labels)
    annotations = dict(job.metadata.annotations or {})
    annotations.pop(ORDERED_TASKS, None)
    if gang.ordered_tasks is not None:
        annotations[ORDERED_TASKS] = gang.ordered_tasks
    if annotations:
        manifest["metadata"]["annotations"] = annotations
    return Create(POD_GROUP, manifest)


def update_group(group: PodGroup, gang: GangSpec) -> Patch | None:
    """What makes the PodGroup follow the job; None if it does."""
    old, spec = group.spec, gang.spec
    if (
        old.min_member == spec.get("minMember", 0)
        and (old.min_task_member or {}) == spec["minTaskMember"]
        and (old.min_resources or {}) == spec["minResources"]
        and old.priority_class_name == spec.get("priorityClassName", "")
        and (group.metadata.annotations or {}).get(ORDERED_TASKS) == gang.ordered_tasks
        and [policy.min_sub_groups or 0 for policy in old.sub_group_policy or ()]
        == [policy.get("minSubGroups") or 0 for policy in spec.get("subGroupPolicy") or ()]
    ):
        return None
    known = msgspec.to_builtins(old)
    changes = diff(*({field: of[field] for field in _FOLLOWS if field in of} for of in (known, spec)))
    if "subGroupPolicy" in spec:
        changes["subGroupPolicy"] = spec["subGroupPolicy"]
    body: Json = {"spec": changes, "metadata": {"annotations": {ORDERED_TASKS: gang.ordered_tasks}}}
    return Patch(POD_GROUP, *key_of(group), body, group.metadata.uid)


def group_spec(job: batch.Job, parsed_spec: ParsedSpec, min_resources: Mapping[str, str]) -> Json:
    """The PodGroup's spec."""
    spec: Json = {
        **({"minMember": job.spec.min_available} if job.spec.min_available else {}),
        "minTaskMember": {task.name: task.group_minimum for task in parsed_spec.tasks.values()},
        "queue": parsed_spec.queue,
        "minResources": dict(min_resources),
    }
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    if job.spec.network_topology is not None:
        spec["networkTopology"] = msgspec.to_builtins(job.spec.network_topology)
    policies = [policy for task in parsed_spec.tasks.values() if (policy := _sub_group(task)) is not None]
    if policies:
        spec["subGroupPolicy"] = policies
    return spec


def _sub_group(task: ParsedTask) -> Json | None:
    """How the Pods of a task form groups of their own, where it is partitioned."""
    partitions = task.spec.partition_policy
    if partitions is None:
        return None
    policy: Json = {
        "name": task.name,
        "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
        "matchLabelKeys": [PARTITION_ID],
        "subGroupSize": partitions.partition_size,
    }
    if partitions.min_partitions:
        policy["minSubGroups"] = partitions.min_partitions
    if partitions.network_topology is not None:
        policy["networkTopology"] = msgspec.to_builtins(partitions.network_topology)
    return policy


# --- minResources ---
def min_resources(
    job: batch.Job, parsed_spec: ParsedSpec, store: Store
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """What the first ``minAvailable`` Pods count for, and (field, problem) of templates that are set aside."""
    total: Json = {}
    bad = []
    tasks = list(parsed_spec.tasks.values())
    for task, pods in _first_pods(tasks, job.spec.min_available, parsed_spec.minimum, store):
        try:
            total = summed(total, scaled(pod_usage(task.template_spec()), pods))
        except QuantityError as error:
            bad.append((f"spec.tasks[{tasks.index(task)}].template.spec", str(error)))
    return printed(total), bad


def _first_pods(tasks: list[ParsedTask], wanted: int, minimum: int, store: Store) -> list[tuple[ParsedTask, int]]:
    """How many Pods of which task are the first: tasks of high priority go first, and each gets its minimum before any
    gets more, unless not even the minimums fit."""
    ranked = sorted(tasks, key=lambda task: -_priority(task, store))
    counts = dict.fromkeys(tasks, 0)
    rounds = [{task: task.replicas for task in tasks}]
    if wanted >= minimum:
        rounds.insert(0, {task: min(task.minimum, task.replicas) for task in tasks})
    for most in rounds:
        for task in ranked:
            more = max(0, min(most[task] - counts[task], wanted))
            counts[task] += more
            wanted -= more
    return [(task, counts[task]) for task in ranked if counts[task]]


def _priority(task: ParsedTask, store: Store) -> int:
    """Returns the value of the template's priority class; 0 if there is none."""
    name = task.template_spec().get("priorityClassName")
    found = store.get(PRIORITY_CLASS, "", name) if isinstance(name, str) else None
    return 0 if found is None else found.value
