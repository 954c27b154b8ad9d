"""The order in which the tasks of a job start (``dependsOn``), and what the gang needs meanwhile.

A task waits until the tasks that it depends on are ready. Its Pods do not exist before, so the PodGroup must not
require them: its minimums are those of the tasks whose turn has come, and grow with them. ``minResources`` counts all
tasks from the beginning, so the queue has room for the others. The annotation ``ORDERED_TASKS`` says that the gang
grows, and which tasks wait.
"""

from collections.abc import Mapping
from typing import NamedTuple

from scheduler.api import batch
from scheduler.controllers.effects import Json
from scheduler.controllers.job.parsed_spec import ParsedSpec, ParsedTask
from scheduler.controllers.job.pods import Member


class GangSpec(NamedTuple):
    """What the PodGroup of a job is to be."""

    spec: Json
    ordered_tasks: str | None
    """The annotation ORDERED_TASKS: names of the tasks that wait, separated by commas; None: it has none."""


def may_start(task: ParsedTask, parsed_spec: ParsedSpec, members: Mapping[str, Member]) -> bool:
    """Whether the dependencies of a task are ready; of several, one may be enough."""
    if not task.depends:
        return True
    found = (ready(parsed_spec.tasks[name], members) >= needed(parsed_spec.tasks[name]) for name in task.depends)
    return any(found) if task.any_dependency else all(found)


def ready(task: ParsedTask, members: Mapping[str, Member]) -> int:
    """Number of Pods of a task that tasks which depend on it may count."""
    return sum(member.task == task.name and member.ready and not member.deleting for member in members.values())


def needed(task: ParsedTask) -> int:
    """Number of Pods of a task that must be ready before tasks that depend on it start; 0 without minAvailable, as in
    Volcano."""
    return task.min_available or 0


def waiting_tasks(parsed_spec: ParsedSpec, members: Mapping[str, Member]) -> list[ParsedTask]:
    """The tasks whose turn has not come: their dependencies are not ready."""
    if not parsed_spec.ordered:
        return []
    return [task for task in parsed_spec.tasks.values() if not may_start(task, parsed_spec, members)]


def why_waiting(parsed_spec: ParsedSpec, members: Mapping[str, Member]) -> str:
    """What each waiting task waits for, with numbers; "" if none waits."""
    texts = []
    for task in waiting_tasks(parsed_spec, members):
        parts = [
            f"{name} ({there} of {least} Pods ready)"
            for name in task.depends
            if (there := ready(parsed_spec.tasks[name], members)) < (least := needed(parsed_spec.tasks[name]))
        ]
        texts.append(f"task {task.name} waits for task {(' or ' if task.any_dependency else ' and ').join(parts)}")
    return "; ".join(texts)


def gang_now(job: batch.Job, parsed_spec: ParsedSpec, spec: Json, members: Mapping[str, Member]) -> GangSpec:
    """What the PodGroup is to be now. ``spec``: with all tasks."""
    if not parsed_spec.ordered:
        return GangSpec(spec, None)
    first = _limited(job, parsed_spec, spec, {task.name: 0 for task in parsed_spec.tasks.values() if task.depends})
    if first == spec:
        return GangSpec(spec, None)  # the minimums of the first tasks are those of the job
    waiting = waiting_tasks(parsed_spec, members)
    there = {task.name: 0 for task in waiting}
    for member in members.values():
        if member.task in there and member.wanted and not member.deleting:
            there[member.task] += 1
    names = ",".join(name for name, pods in there.items() if not pods)
    return GangSpec(_limited(job, parsed_spec, spec, there), names)


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
