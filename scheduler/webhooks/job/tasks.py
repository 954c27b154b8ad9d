"""Validation of the tasks of a vcjob: numbers, names of Pods, partitions, NUMA topology, dependencies and policies."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Final

from scheduler.api.batch import Action, JobEvent, LifecyclePolicy, TaskSpec
from scheduler.api.names import CPU
from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError, parse_amount
from scheduler.api.times import DurationError, parse_duration
from scheduler.webhooks.contract import TemplateCheck
from scheduler.webhooks.fields import Problems, dns_subdomain, invalid, join, qualified_name, required
from scheduler.webhooks.job.templates import PodTemplate, Templates
from scheduler.webhooks.podgroup import topology_problem


def tasks_problems(tasks: list[TaskSpec], templates: Templates, job: str) -> Iterator[str | TemplateCheck]:
    """The problems of each task in order, with a TemplateCheck for its template. ``job``: the name of the job."""
    seen: set[str] = set()
    for index, task in enumerate(tasks):
        if task.min_available is not None and task.min_available > task.replicas:
            yield f" 'minAvailable' is greater than 'replicas' in task: {task.name}, job: {job};"
        if task.name in seen:
            yield f" duplicated task name {task.name};"
            continue
        seen.add(task.name)
        if task.policies:
            yield policy_problems(task.policies, "spec.tasks.policies")
        pod = f"{job}-{task.name}-{index}"
        pod_problems = qualified_name(pod)
        if pod_problems:
            yield f"create pod with name {pod} validate failed [{' '.join(pod_problems)}];"
        yield TemplateCheck(templates.of_task[index], index, join(_name_problems(task.name), ". "))
        if task.topology_policy not in ("", "none"):
            yield _numa_problem(templates[index], index)
        if task.partition_policy is not None:
            yield partition_problems(task, job)


def _name_problems(name: str) -> Problems:
    """The name of a task is valid as the name of a PodTemplate, under which Volcano validates its template."""
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        for problem in dns_subdomain(name):
            yield invalid("metadata.name", name, problem)


def _numa_problem(template: PodTemplate, index: int) -> str:
    """A NUMA policy applies only to containers that request whole cpus."""
    for number, container in enumerate([*template.spec.containers, *template.spec.init_containers]):
        resources = container.resources
        if not _is_positive_integer((resources.requests or resources.limits).get(CPU, 0)):
            return f"the cpu request isn't an integer in spec.task[{index}] container[{number}]."
    return ""


def _is_positive_integer(cpus: Quantity) -> bool:
    try:
        amount = parse_amount(cpus)
    except QuantityError:
        return False
    return amount.nano > 0 and amount.is_integer()


def partition_problems(task: TaskSpec, job: str) -> str:
    """The problems of the partition policy, or ""."""
    policy = task.partition_policy
    if policy is None:
        return ""
    where = f"in task: {task.name}, job: {job}"
    total, size, minimum = policy.total_partitions, policy.partition_size, policy.min_partitions
    text = ""
    if total <= 0:
        text = f"'TotalPartitions' must be greater than 0 {where}"
    elif size <= 0:
        text = f"'PartitionSize' must be greater than 0 {where}"
    elif task.replicas != total * size:
        text = f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
    elif task.min_available is not None and minimum > 0 and minimum * size != task.min_available:
        text = f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
    return text + topology_problem(policy.network_topology)


def dependency_problems(tasks: list[TaskSpec]) -> str:
    """Tasks that depend on each other in a cycle, or on a task that does not exist, never start."""
    if all(task.depends_on is None for task in tasks):
        return ""
    dependencies = {task.name: set((task.depends_on.name if task.depends_on else None) or ()) for task in tasks}
    try:
        order = list(TopologicalSorter(dependencies).static_order())
    except CycleError:
        order = []
    if len(order) == len(tasks):
        return ""
    text = " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);"
    for task, names in dependencies.items():
        for name in sorted(names - dependencies.keys()):
            text += f" task {task} depends on {name}, and the job has no task of this name;"
    return text


_EVENTS: Final = (
    JobEvent.ANY, JobEvent.JOB_UPDATED, JobEvent.POD_EVICTED, JobEvent.POD_FAILED, JobEvent.POD_PENDING,
    JobEvent.TASK_COMPLETED, JobEvent.TASK_FAILED, JobEvent.UNKNOWN,
)  # fmt: skip
_ACTIONS: Final = (
    Action.ABORT_JOB, Action.COMPLETE_JOB, Action.RESTART_JOB, Action.RESTART_PARTITION, Action.RESTART_POD,
    Action.RESTART_TASK, Action.RESUME_JOB, Action.TERMINATE_JOB,
)  # fmt: skip
_VALID_VALUES: Final = f" valid events are [{' '.join(_EVENTS)}], valid actions are [{' '.join(_ACTIONS)}];"


# --- policies ---------------------------------------------------------------------------------------------------------
def policy_problems(policies: list[LifecyclePolicy], path: str) -> str:
    """The problems up to the first invalid policy, as in Volcano's validatePolicies. ``path``: Volcano's name of the
    field."""
    events: set[str] = set()
    problems = []
    problem = _first_problem(policies, events, path)
    if problem:
        problems.append(problem)
    if JobEvent.ANY in events and len(events) > 1:
        problems.append("if there's * here, no other policy should be here")
    if not problems:
        return ""
    title = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
    return f"{title} occurred:\n" + "".join(f"\t* {each}\n" for each in problems) + f"\n{_VALID_VALUES}"


def _first_problem(policies: list[LifecyclePolicy], events: set[str], path: str) -> str:
    """The first problem, or "". Adds the events of valid policies to ``events``."""
    exit_codes: set[int] = set()
    for policy in policies:
        named = dict.fromkeys([*(policy.events or ()), *([policy.event] if policy.event else ())])
        code = policy.exit_code
        if named and code is not None:
            return "must not specify event and exitCode simultaneously"
        for event in named:
            if event not in _EVENTS:
                return invalid(path, event, "invalid policy event")
            if policy.action not in _ACTIONS and policy.action != Action.IGNORE:
                return invalid(path, policy.action, "invalid policy action")
            if event in events:
                return f"duplicate event {event}  across different policy"
            events.add(event)
        if named:
            continue
        if code is None:
            return "either event and exitCode should be specified"
        if code == 0:
            return "0 is not a valid error code"
        if code in exit_codes:
            return f"duplicate exitCode {code}"
        exit_codes.add(code)
    return ""


def timeout_problems(policies: list[LifecyclePolicy], path: str) -> Iterator[str]:
    for index, policy in enumerate(policies):
        if policy.timeout is not None:
            yield from duration_problems(policy.timeout, f"{path}[{index}].timeout")


def duration_problems(text: str, path: str) -> Iterator[str]:
    try:
        seconds = parse_duration(text)
    except DurationError:
        seconds = -1.0
    if seconds < 0:
        yield invalid(path, text, "must be a duration such as 30s, 5m or 1h30m")
