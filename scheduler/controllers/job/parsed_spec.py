"""Everything that follows from a job's spec alone, computed once per version of the spec.

Reconciling a job then depends on its Pods only: the spec is not parsed or copied again.
"""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api import batch
from scheduler.api.names import DEFAULT_QUEUE, DEFAULT_TASK
from scheduler.api.start_order import start_problems
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.hosts import pod_name
from scheduler.controllers.job.policies import Policy, parse_policies

DEFAULT_MAX_RESTARTS: Final = 3
"""The default of ``maxRetry`` of a task, as the webhook sets it."""
_MAX_NAMES: Final = 10
"""Tasks that the message about a cycle names."""
MAX_PODS: Final = 100_000
"""A job of more Pods is a mistake that would block all other jobs."""


class ParsedTask:
    """One task of a job."""

    def __init__(self, spec: batch.TaskSpec) -> None:
        self.spec = spec
        self.name = spec.name or DEFAULT_TASK
        self.replicas = max(0, spec.replicas)
        self.min_available = spec.min_available
        self.minimum = self.replicas if spec.min_available is None else spec.min_available
        """Replicas needed, where it counts for all tasks together."""
        self.policies: list[Policy] = []
        self.max_restarts = spec.max_retry or DEFAULT_MAX_RESTARTS
        """Restarts of containers after which the task has failed; negative: never."""
        depends = spec.depends_on
        self.depends: tuple[str, ...] = tuple((depends.name if depends else None) or ())
        self.any_dependency = len(self.depends) > 1 and depends is not None and depends.iteration == "any"
        """One dependency is enough."""
        self._template: bytes | None = None

    @property
    def group_minimum(self) -> int:
        """The PodGroup's ``minTaskMember``."""
        partitions = self.spec.partition_policy
        if self.min_available is None and partitions is not None and partitions.min_partitions > 0:
            return partitions.min_partitions * partitions.partition_size
        return self.minimum

    def template(self) -> Json:
        """A copy of the Pod template that may be changed."""
        if self._template is None:
            self._template = msgspec.json.encode(self.spec.template)
        copy: Json = msgspec.json.decode(self._template)
        return copy

    def template_spec(self) -> Mapping[str, Any]:
        """The template's Pod spec, not to be changed."""
        spec = self.spec.template.get("spec")
        return spec if isinstance(spec, dict) else {}


class Slot(NamedTuple):
    """A place for a Pod."""

    task: ParsedTask
    replica: int
    """Counted from 0."""

    @property
    def partition(self) -> str:
        """The number of its partition; "" where the task has none."""
        partitions = self.task.spec.partition_policy
        if partitions is None or partitions.partition_size <= 0:
            return ""
        return str(self.replica // partitions.partition_size)


class ParsedSpec:
    """A parsed job spec."""

    def __init__(self, job: batch.Job) -> None:
        spec = job.spec
        self.spec = spec
        self.queue = spec.queue or DEFAULT_QUEUE
        self.max_retries = spec.max_retry
        self.tasks = {task.name: task for task in map(ParsedTask, spec.tasks)}
        self.replicas = sum(task.replicas for task in self.tasks.values())
        self.minimum = sum(task.minimum for task in self.tasks.values())
        self.minimums = {task.name: task.min_available for task in self.tasks.values()}
        self.ordered = any(task.depends for task in self.tasks.values())
        """Whether some task waits for another."""
        self.slots: dict[str, Slot] = {}
        """Name of a Pod that the spec requests -> its slot."""
        self.malformed: list[tuple[str, str]] = []
        """Field and problem of everything that is ignored."""
        self.refusal = self._refuse()
        """Why the spec cannot be used at all, or ""."""
        self.start = start_problems(spec)
        """Which tasks can never start."""
        self.policies, bad = parse_policies(spec.policies, "spec.policies")
        self.malformed += bad
        if self.refusal:
            return
        for index, task in enumerate(self.tasks.values()):
            task.policies, bad = parse_policies(task.spec.policies, f"spec.tasks[{index}].policies")
            self.malformed += bad
            self._check_dependencies(task, index)
            for replica in range(task.replicas):
                self.slots[pod_name(job, task.spec, replica)] = Slot(task, replica)
        self.refusal = self._find_cycle()

    def _find_cycle(self) -> str:
        try:
            TopologicalSorter({task.name: task.depends for task in self.tasks.values()}).prepare()
        except CycleError as error:
            names = error.args[1]
            text = ", ".join(names[:_MAX_NAMES]) + ", ..." * (len(names) > _MAX_NAMES)
            return f"tasks depend on each other, so none of them can start: {text}"
        return ""

    def _refuse(self) -> str:
        if len(self.tasks) < len(self.spec.tasks):
            names = [task.name or DEFAULT_TASK for task in self.spec.tasks]
            return f"two tasks are called {next(name for name in names if names.count(name) > 1)!r:.66}"
        if self.replicas > MAX_PODS:
            return f"{self.replicas} Pods are asked for, at most {MAX_PODS} are made for one job"
        return ""

    def _check_dependencies(self, task: ParsedTask, index: int) -> None:
        unknown = [name for name in task.depends if name not in self.tasks]
        if unknown:
            field = f"spec.tasks[{index}].dependsOn.name"
            self.malformed.append((field, f"no task is called {unknown[0]!r:.66}"))
            task.depends = tuple(name for name in task.depends if name in self.tasks)
