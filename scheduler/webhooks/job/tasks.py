"""The tasks of a vcjob: numbers, names of Pods, partitions, NUMA topology and the order in which they start."""

from graphlib import CycleError, TopologicalSorter

from scheduler.api.amount import Amount, parse_amount
from scheduler.api.batch import TaskSpec
from scheduler.api.names import CPU
from scheduler.webhooks.fields import LONGEST_ANSWER, join
from scheduler.webhooks.job.podtemplate import PodTemplate, check_template
from scheduler.webhooks.job.policies import policy_problems
from scheduler.webhooks.names import dns_subdomain, qualified_name
from scheduler.webhooks.topology import topology_problem

_UNIT = 10**9


def tasks_problems(tasks: list[TaskSpec], templates: list[PodTemplate], job: str) -> str:
    """Of all tasks, one after the other; ``job``: the name of the job."""
    text, seen, sound = "", set(), set[int]()
    for index, (task, template) in enumerate(zip(tasks, templates, strict=True)):
        if task.min_available is not None and task.min_available > task.replicas:
            text += f" 'minAvailable' is greater than 'replicas' in task: {task.name}, job: {job};"
        if task.name in seen:
            text += f" duplicated task name {task.name};"
            continue
        seen.add(task.name)
        text += policy_problems(task.policies or [], "spec.tasks.policies")
        pod = f"{job}-{task.name}-{index}"
        wrong = qualified_name(pod)
        if wrong:
            text += f"create pod with name {pod} validate failed [{' '.join(wrong)}];"
        text += _template_problems(task, template, index, sound)
        text += partition_problems(task, job)
        if len(text) > LONGEST_ANSWER:
            break
    return text


def _template_problems(task: TaskSpec, template: PodTemplate, index: int, sound: set[int]) -> str:
    """``sound``: ids of templates in which nothing is wrong, so that those of many tasks are looked at once."""
    if id(template) not in sound or not task.name or dns_subdomain(task.name):
        problems = join(check_template(template, task.name), ". ")
        if problems:
            return f"spec.task[{index}].{problems}"
        sound.add(id(template))
    return _numa_problems(task, template, index)


def _numa_problems(task: TaskSpec, template: PodTemplate, index: int) -> str:
    """A container can be pinned to one NUMA node only if it has whole cpus of its own."""
    if task.topology_policy in ("", "none"):
        return ""
    for number, container in enumerate([*template.spec.containers, *template.spec.init_containers]):
        resources = container.resources
        cpu = (resources.requests or resources.limits).get(CPU)
        amount = Amount(0) if cpu is None else parse_amount(cpu)
        if amount.nano <= 0 or amount.nano % _UNIT:
            return f"the cpu request isn't an integer in spec.task[{index}] container[{number}]."
    return ""


def partition_problems(task: TaskSpec, job: str) -> str:
    policy = task.partition_policy
    if policy is None:
        return ""
    where = f"in task: {task.name}, job: {job}"
    total, size, least = policy.total_partitions, policy.partition_size, policy.min_partitions
    text = ""
    if total <= 0:
        text = f"'TotalPartitions' must be greater than 0 {where}"
    elif size <= 0:
        text = f"'PartitionSize' must be greater than 0 {where}"
    elif task.replicas != total * size:
        text = f"'Replicas' are not equal to TotalPartitions*PartitionSize {where}"
    elif task.min_available is not None and least > 0 and least * size != task.min_available:
        text = f"'MinAvailable' is not equal to MinPartitions*PartitionSize {where}"
    return text + topology_problem(policy.network_topology)


def dependency_problems(tasks: list[TaskSpec]) -> str:
    """Tasks that wait for each other, or for one that does not exist, never start."""
    if all(task.depends_on is None for task in tasks):
        return ""
    waits_for = {task.name: set((task.depends_on.name if task.depends_on else None) or ()) for task in tasks}
    try:
        order = list(TopologicalSorter(waits_for).static_order())
    except CycleError:
        order = []
    if len(order) == len(tasks):
        return ""
    return " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);"
