"""Which tasks of a vcjob can start, given which wait for which; and the order of the steps of a JobFlow.

A task waits for others because of ``dependsOn``, or because a job plugin makes it: with ``--wait-master-enabled`` of
pytorch, an init container of each worker waits until the master listens; with ray, the command of a worker joins the
head. The other plugins make no task wait; whether the program in a container does (mpi, tensorflow) is not known. Tasks
that wait for each other never start.

``scheduler.controllers.job.podgroup`` decides the same for ``dependsOn`` from the Pods that exist.

The steps of a JobFlow must form a directed acyclic graph. Admission refuses a flow without such an order, and the
controllers run none that was stored without admission.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

import msgspec

from scheduler.api.batch import Flow, JobSpec, TaskSpec
from scheduler.api.job_plugins import WAIT_CONTAINER, ArgumentError, PytorchOptions, RayOptions, parse
from scheduler.api.messages import listed
from scheduler.api.names import DEFAULT_TASK

WAITING_PLUGINS: Final = frozenset({"pytorch", "ray"})
"""Job plugins that may make a task wait for another."""
_MAX_NAMED: Final = 4
"""The tasks and waits that a message names."""


class StartProblems(msgspec.Struct, frozen=True):
    """The tasks of a job that cannot start."""

    refusal: str = ""
    """Why the job can never start; "" if it can."""
    warnings: tuple[str, ...] = ()
    """Why single tasks can never, or perhaps not, start."""


class _Wait(msgspec.Struct, frozen=True):
    """A task waits for another."""

    task: str
    target: str
    text: str
    alternative: bool = False
    """The task waits for one of the targets with this mark."""
    certain: bool = True
    """False: the containers of the task run before those of the target, and fail."""


def start_problems(spec: JobSpec) -> StartProblems:
    """The tasks that wait for each other. ``spec``: with the defaults of admission. Unknown tasks in ``dependsOn`` and
    arguments of plugins that cannot be used have messages of their own and are ignored here."""
    tasks = {task.name or DEFAULT_TASK: task for task in spec.tasks}
    waits = [*_dependencies(tasks), *_plugin_waits(spec, tasks)]
    if not waits:
        return StartProblems()
    warnings = [
        f"{wait.text}, which has no replicas"
        for wait in waits
        if tasks[wait.target].replicas <= 0 < tasks[wait.task].replicas
    ]
    waits = [wait for wait in waits if tasks[wait.target].replicas > 0]
    certain = [wait for wait in waits if wait.certain]
    for verb, known in (("can", certain), ("may", waits)):
        started = _started(tasks, known)
        stuck = [name for name, task in tasks.items() if name not in started and task.replicas > 0]
        if not stuck:
            continue
        why = _why(stuck[0], known, started)
        pods = sum(max(0, tasks[name].replicas) for name in started)
        if known is certain and pods < max(1, spec.min_available):
            total = sum(max(0, task.replicas) for task in tasks.values())
            numbers = f"minAvailable is {spec.min_available}, and {pods} of {total} Pods can start"
            return StartProblems(f"the job can never start: {why}; {numbers}")
        what = "task" if len(stuck) == 1 else "tasks"
        warnings.append(f"{what} {listed(stuck, _MAX_NAMED)} {verb} never start: {why}")
        break
    return StartProblems(warnings=tuple(warnings))


def _dependencies(tasks: Mapping[str, TaskSpec]) -> Iterator[_Wait]:
    """The waits of ``dependsOn``. A task without minAvailable is not waited for."""
    for name, task in tasks.items():
        depends = task.depends_on
        targets = [each for each in (depends.name if depends is not None else None) or () if each in tasks]
        alternative = len(targets) > 1 and depends is not None and depends.iteration == "any"
        needed = [(target, tasks[target].min_available or 0) for target in targets]
        if alternative and not all(number > 0 for _, number in needed):
            continue
        for target, number in needed:
            if number > 0:
                pods = "a ready Pod" if number == 1 else f"{number} ready Pods"
                yield _Wait(name, target, f"task {name} waits for {pods} of task {target} (dependsOn)", alternative)


def _plugin_waits(spec: JobSpec, tasks: Mapping[str, TaskSpec]) -> Iterator[_Wait]:
    """The waits that job plugins cause."""
    plugins = spec.plugins or {}
    try:
        if "pytorch" in plugins:
            pytorch = parse(PytorchOptions, plugins["pytorch"] or ())
            master, worker = pytorch.master, pytorch.worker
            waits = pytorch.wait_master_enabled and master in tasks and worker in tasks
            if waits and not _has_init_container(tasks[worker], WAIT_CONTAINER):
                text = f"task {worker} waits for task {master} (plugin pytorch, --wait-master-enabled)"
                yield _Wait(worker, master, text)
        if "ray" in plugins:
            ray = parse(RayOptions, plugins["ray"] or ())
            if ray.head in tasks and ray.worker in tasks and ray.head != ray.worker:
                text = f"containers of task {ray.worker} fail without task {ray.head} (plugin ray)"
                yield _Wait(ray.worker, ray.head, text, certain=False)
    except ArgumentError:
        return


def _has_init_container(task: TaskSpec, name: str) -> bool:
    """Whether a template has an init container of that name. The plugin adds none then."""
    spec = task.template.get("spec")
    containers = spec.get("initContainers") if isinstance(spec, dict) else None
    return isinstance(containers, list) and any(
        isinstance(each, dict) and each.get("name") == name for each in containers
    )


def _started(tasks: Iterable[str], waits: Iterable[_Wait]) -> set[str]:
    """The tasks that start one after the other, in a time that is linear in the waits."""
    of_target: dict[str, list[_Wait]] = {}
    missing: dict[str, int] = dict.fromkeys(tasks, 0)
    """The number of waits of each task. Those for alternatives count as one."""
    choosing: set[str] = set()
    """Tasks that wait for one of several alternatives."""
    for wait in waits:
        of_target.setdefault(wait.target, []).append(wait)
        if not wait.alternative:
            missing[wait.task] += 1
        elif wait.task not in choosing:
            choosing.add(wait.task)
            missing[wait.task] += 1
    ready = [name for name, number in missing.items() if not number]
    started = set(ready)
    while ready:
        for wait in of_target.get(ready.pop(), ()):
            if wait.alternative:
                if wait.task not in choosing:
                    continue
                choosing.remove(wait.task)
            missing[wait.task] -= 1
            if not missing[wait.task]:
                started.add(wait.task)
                ready.append(wait.task)
    return started


def _why(task: str, waits: Iterable[_Wait], started: Collection[str]) -> str:
    """The waits that a task is in, or that one it waits for is in, and that form a circle."""
    waits = list(waits)
    has_choice = {wait.task for wait in waits if wait.alternative and wait.target in started}
    next_wait: dict[str, _Wait] = {}
    for wait in waits:
        if wait.target not in started and not (wait.alternative and wait.task in has_choice):
            next_wait.setdefault(wait.task, wait)
    order: dict[str, int] = {}
    while task not in order:
        order[task] = len(order)
        task = next_wait[task].target
    circle = [next_wait[name].text for name, number in order.items() if number >= order[task]]
    return listed(circle, _MAX_NAMED, "waits")


class OrderProblem(NamedTuple):
    """Why the steps cannot be ordered: one of the two."""

    cycle: tuple[str, ...] = ()
    """Steps each of which waits for another of them; the first is also the last."""
    undefined: tuple[str, str] = ("", "")
    """A step, and a target of it that is no step."""


def order_problem(steps: Sequence[Flow]) -> OrderProblem | None:
    """The first problem; None if the steps can be ordered."""
    graph: dict[str, list[str]] = {}
    for each in steps:  # a step that occurs twice waits for the targets of both
        graph.setdefault(each.name, []).extend((each.depends_on.targets or []) if each.depends_on else [])
    for step, targets in graph.items():
        for target in targets:
            if target not in graph:
                return OrderProblem(undefined=(step, target))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return OrderProblem(cycle=tuple(error.args[1]))
    return None
