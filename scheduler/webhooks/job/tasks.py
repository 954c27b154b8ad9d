"""Validation of the tasks of a vcjob: numbers, names of Pods, partitions, NUMA topology and dependencies."""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from scheduler.api.batch import TaskSpec
from scheduler.api.names import CPU
from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError, parse_amount
from scheduler.webhooks.fields import Problems, invalid, join, required
from scheduler.webhooks.job.policies import policy_problems
from scheduler.webhooks.job.templates import PodTemplate, Templates
from scheduler.webhooks.names import dns_subdomain, qualified_name
from scheduler.webhooks.podgroup import topology_problem
from scheduler.webhooks.validation_result import TemplateCheck


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
