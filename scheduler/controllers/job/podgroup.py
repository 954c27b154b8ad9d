"""The PodGroup of a job: its content, the fields that follow the job, and the order in which tasks start.

A task with ``dependsOn`` waits until the tasks that it depends on are ready. Its Pods do not exist before, so the
PodGroup must not require them: its minimums are those of the tasks whose turn has come, and grow with them.
``minResources`` counts all tasks from the beginning, so the queue has room for the others. The annotation
``ORDERED_TASKS`` says that the gang grows, and which tasks wait.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api import batch
from scheduler.api.kinds import POD_GROUP, PRIORITY_CLASS, VCJOB
from scheduler.api.names import (
    CARD_ALTERNATIVE,
    CARD_GANGS,
    ORDERED_TASKS,
    PARTITION_ID,
    PREPARED_ALTERNATIVE,
    TASK_SPEC,
)
from scheduler.api.pod_amounts import summed
from scheduler.api.quantity import QuantityError
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.effects import Create, Json, Patch, diff
from scheduler.controllers.job.observation import JobObservation, group_name
from scheduler.controllers.job.parsed_spec import ParsedSpec, ParsedTask, Problem
from scheduler.controllers.job.pods import Members
from scheduler.controllers.owners import owned
from scheduler.controllers.resources import pod_usage, printed, scaled
from scheduler.controllers.store import Store, key_of

_FOLLOWS = ("minMember", "minTaskMember", "minResources", "priorityClassName")
"""Fields that are brought up to date when the job changes."""


NO_ANNOTATIONS: Final[Mapping[str, str]] = {}
_OWN: Final = frozenset((ORDERED_TASKS, CARD_ALTERNATIVE, CARD_GANGS, PREPARED_ALTERNATIVE))
"""Annotations of PodGroups that those of the job do not set."""


class GangSpec(NamedTuple):
    """The desired content of the PodGroup of a job."""

    spec: Json
    ordered_tasks: str | None
    """The annotation ORDERED_TASKS: names of the tasks that wait, separated by commas; None: it has none."""
    annotations: Mapping[str, str] = NO_ANNOTATIONS
    """Annotations about its alternatives (``alternatives.group_annotations``)."""


def create_group(job: batch.Job, gang: GangSpec) -> Create:
    """The effect that creates the PodGroup."""
    manifest = owned(POD_GROUP, group_name(job), VCJOB, job, spec=gang.spec)
    if job.metadata.labels:
        manifest["metadata"]["labels"] = dict(job.metadata.labels)
    annotations = {key: text for key, text in (job.metadata.annotations or {}).items() if key not in _OWN}
    annotations |= gang.annotations
    if gang.ordered_tasks is not None:
        annotations[ORDERED_TASKS] = gang.ordered_tasks
    if annotations:
        manifest["metadata"]["annotations"] = annotations
    return Create(POD_GROUP, manifest)


def update_group(group: PodGroup, gang: GangSpec) -> Patch | None:
    """The patch that brings the PodGroup up to date with the job; None if it is up to date."""
    old, spec, annotations = group.spec, gang.spec, group.metadata.annotations or {}
    changed = {key: text for key, text in gang.annotations.items() if annotations.get(key) != text}
    if (
        not changed
        and old.min_member == spec.get("minMember", 0)
        and (old.min_task_member or {}) == spec["minTaskMember"]
        and (old.min_resources or {}) == spec["minResources"]
        and old.priority_class_name == spec.get("priorityClassName", "")
        and annotations.get(ORDERED_TASKS) == gang.ordered_tasks
        and [policy.min_sub_groups or 0 for policy in old.sub_group_policy or ()]
        == [policy.get("minSubGroups") or 0 for policy in spec.get("subGroupPolicy") or ()]
    ):
        return None
    known = msgspec.to_builtins(old)
    changes = diff(*({field: of[field] for field in _FOLLOWS if field in of} for of in (known, spec)))
    if "subGroupPolicy" in spec:
        changes["subGroupPolicy"] = spec["subGroupPolicy"]
    body: Json = {"spec": changes, "metadata": {"annotations": {**changed, ORDERED_TASKS: gang.ordered_tasks}}}
    return Patch(POD_GROUP, *key_of(group), body, group.metadata.uid)


# --- its spec ---------------------------------------------------------------------------------------------------------
def group_spec(job: batch.Job, parsed_spec: ParsedSpec, min_resources: Mapping[str, str]) -> Json:
    """The PodGroup's spec with all tasks."""
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
    """The sub-group policy of a task with partitions: each partition is a sub-group."""
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


# --- minResources -----------------------------------------------------------------------------------------------------
def min_resources(job: batch.Job, parsed_spec: ParsedSpec, store: Store) -> tuple[dict[str, str], list[Problem]]:
    """The quota usage of the first ``minAvailable`` Pods, and the problems of templates that are set aside."""
    total: Json = {}
    bad = []
    tasks = list(parsed_spec.tasks.values())
    for task, pods in first_pods(tasks, job.spec.min_available, parsed_spec.minimum, store):
        try:
            total = summed(total, scaled(pod_usage(task.template_spec()), pods))
        except QuantityError as error:
            bad.append((f"spec.tasks[{tasks.index(task)}].template.spec", str(error)))
    return printed(total), bad


def first_pods(tasks: list[ParsedTask], wanted: int, minimum: int, store: Store) -> list[tuple[ParsedTask, int]]:
    """The first ``wanted`` Pods, as numbers of Pods of each task. Tasks of high priority come first, and each has its
    minimum before any has more, unless ``wanted`` is less than ``minimum``, the sum of all minimums."""
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


# --- the order of tasks -----------------------------------------------------------------------------------------------
def may_start(task: ParsedTask, parsed_spec: ParsedSpec, members: Members) -> bool:
    """Whether the dependencies of a task are ready; of several, one may be enough."""
    if not task.depends:
        return True
    found = (ready(parsed_spec.tasks[name], members) >= needed(parsed_spec.tasks[name]) for name in task.depends)
    return any(found) if task.any_dependency else all(found)


def ready(task: ParsedTask, members: Members) -> int:
    """The number of ready Pods of a task, as tasks that depend on it count them."""
    return sum(member.task == task.name and member.ready and not member.deleting for member in members.values())


def needed(task: ParsedTask) -> int:
    """Number of Pods of a task that must be ready before tasks that depend on it start; 0 without minAvailable, as in
    Volcano."""
    return task.min_available or 0


def waiting_tasks(parsed_spec: ParsedSpec, members: Members) -> list[ParsedTask]:
    """The tasks whose turn has not come: their dependencies are not ready."""
    if not parsed_spec.ordered:
        return []
    return [task for task in parsed_spec.tasks.values() if not may_start(task, parsed_spec, members)]


def why_waiting(parsed_spec: ParsedSpec, members: Members) -> str:
    """The text about the tasks that each waiting task waits for, with numbers; "" if no task waits."""
    texts = []
    for task in waiting_tasks(parsed_spec, members):
        parts = [
            f"{name} ({there} of {least} Pods ready)"
            for name in task.depends
            if (there := ready(parsed_spec.tasks[name], members)) < (least := needed(parsed_spec.tasks[name]))
        ]
        texts.append(f"task {task.name} waits for task {(' or ' if task.any_dependency else ' and ').join(parts)}")
    return "; ".join(texts)


def gang_now(seen: JobObservation, spec: Json, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> GangSpec:
    """The desired content of the PodGroup while tasks wait for others. ``spec``: the result of ``group_spec``;
    ``annotations``: those about its alternatives."""
    job, parsed_spec, members = seen.job, seen.parsed_spec, seen.members
    if not parsed_spec.ordered:
        return GangSpec(spec, None, annotations)
    first = _limited(job, parsed_spec, spec, {task.name: 0 for task in parsed_spec.tasks.values() if task.depends})
    if first == spec:
        return GangSpec(spec, None, annotations)  # the minimums of the first tasks are those of the job
    waiting = waiting_tasks(parsed_spec, members)
    there = {task.name: 0 for task in waiting}
    for member in members.values():
        if member.task in there and member.wanted and not member.deleting:
            there[member.task] += 1
    names = ",".join(name for name, pods in there.items() if not pods)
    return GangSpec(_limited(job, parsed_spec, spec, there), names, annotations)


def _limited(job: batch.Job, parsed_spec: ParsedSpec, spec: Json, there: Mapping[str, int]) -> Json:
    """The spec that requires of some tasks no more Pods than exist. ``there``: their number, by name of the task."""
    if not there:
        return spec
    tasks = parsed_spec.tasks.values()
    minimums = {task.name: min(task.group_minimum, there.get(task.name, task.group_minimum)) for task in tasks}
    total = sum(task.group_minimum for task in tasks)
    pods = sum(min(task.replicas, there.get(task.name, task.replicas)) for task in tasks)
    minimum = job.spec.min_available
    limited = {name: value for name, value in spec.items() if name != "minMember"}
    if minimum >= total:  # otherwise the scheduler ignores minTaskMember
        minimum -= total - sum(minimums.values())
        limited["minTaskMember"] = {name: least for name, least in minimums.items() if there.get(name, 1)}
    if minimum := min(minimum, pods):
        limited["minMember"] = minimum
    if "subGroupPolicy" in spec:
        limited["subGroupPolicy"] = [
            {**policy, "minSubGroups": 0} if policy["name"] in there and "minSubGroups" in policy else policy
            for policy in spec["subGroupPolicy"]
        ]
    return limited
