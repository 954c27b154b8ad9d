"""The parsed spec of a job: everything that follows from the spec alone, computed once per version of the spec. To
reconcile a job later, the spec is neither parsed nor copied again."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api import batch
from scheduler.api.batch import JOB_ACTIONS, Action, JobEvent
from scheduler.api.names import DEFAULT_QUEUE, DEFAULT_TASK
from scheduler.api.start_order import StartProblems, start_problems
from scheduler.api.times import DurationError, parse_duration
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.podspec import pod_name

DEFAULT_MAX_RESTARTS: Final = 3
"""The default of ``maxRetry`` of a task, as the webhook sets it."""
MAX_PODS: Final = 100_000
"""The largest number of Pods of a job. A job of more Pods is a mistake that would block all other jobs."""
_MAX_NAMES: Final = 10
"""Tasks that the message about a cycle names."""
_POLICY_ACTIONS: Final = JOB_ACTIONS | {Action.IGNORE}
_WITHOUT_POLICY: Final = frozenset({JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING})
"""Events that no policy applies to."""
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
Problem = tuple[str, str]
"""A field that is ignored, and what is wrong with it."""


# --- policies ---------------------------------------------------------------------------------------------------------
class Policy(msgspec.Struct, frozen=True):
    """A valid LifecyclePolicy."""

    action: Action
    events: frozenset[str]
    exit_code: int | None
    timeout: float | None
    """Seconds to wait before the action."""

    def covers(self, event: JobEvent, exit_code: int) -> bool:
        """Whether the policy is about the event, or about the exit code of a container. That a Pod is pending counts
        only once it has lasted."""
        matches = event in self.events or JobEvent.ANY in self.events
        if matches and (event is not JobEvent.POD_PENDING or self.timeout is not None):
            return True
        return self.exit_code is not None and self.exit_code == exit_code


def parse_policies(policies: Sequence[batch.LifecyclePolicy] | None, where: str) -> tuple[list[Policy], list[Problem]]:
    """The policies that can be used, and the problems of the others. ``where`` is the path of the list."""
    good, bad = [], []
    for index, policy in enumerate(policies or ()):
        field = f"{where}[{index}]"
        timeout = None
        if policy.action not in _POLICY_ACTIONS:
            known = ", ".join(sorted(_POLICY_ACTIONS))
            bad.append((f"{field}.action", f"{policy.action[:64]!r} is none of {known}"))
            continue
        if policy.timeout is not None:
            try:
                timeout = max(0.0, parse_duration(policy.timeout))
            except DurationError as error:
                bad.append((f"{field}.timeout", str(error)))
                continue
        events = frozenset(filter(None, [policy.event, *(policy.events or ())]))
        good.append(Policy(Action(policy.action), events, policy.exit_code, timeout))
    return good, bad


def first_policy(event: JobEvent, exit_code: int, *levels: Iterable[Policy]) -> Policy | None:
    """The first policy about an event, the task's before the job's; None: no policy is about it."""
    if event in _WITHOUT_POLICY:
        return None
    return next((policy for level in levels for policy in level if policy.covers(event, exit_code)), None)


# --- volumes ----------------------------------------------------------------------------------------------------------
class ClaimedVolume(msgspec.Struct, frozen=True):
    """One entry of ``spec.volumes``: a claim that all Pods of the job mount."""

    path: str
    claim: str
    """Name of the PersistentVolumeClaim."""
    spec: Json | None
    """The spec of a claim that the job creates; None: it must exist."""

    @property
    def resource(self) -> str:
        """The key of the claim in the status's ``controlledResources``."""
        return f"volume-pvc-{self.claim}"


def _volumes_of(job: batch.Job) -> tuple[list[ClaimedVolume], list[Problem]]:
    """The volumes that can be used, and the problems of the other entries."""
    good, bad = [], []
    for index, entry in enumerate(job.spec.volumes or ()):
        field = f"spec.volumes[{index}]"
        if not entry.mount_path:
            bad.append((f"{field}.mountPath", "it is missing"))
        elif not entry.volume_claim_name and entry.volume_claim is None:
            bad.append((field, "neither volumeClaim nor volumeClaimName is given"))
        else:
            name = entry.volume_claim_name or f"{job.metadata.name}-pvc-{stable_suffix(job, 'claim', entry.mount_path)}"
            good.append(ClaimedVolume(entry.mount_path, name, None if entry.volume_claim_name else entry.volume_claim))
    return good, bad


def stable_suffix(job: batch.Job, what: str, of: str) -> str:
    """Twelve characters of [0-9a-z], unique for the job, ``what`` and ``of``. They are derived from the uid of the job,
    so they are always the same: no state is kept, and nothing is created twice."""
    number = int.from_bytes(sha256(f"{job.metadata.uid}/{what}/{of}".encode()).digest()[:12])
    text = ""
    for _ in range(12):
        number, digit = divmod(number, len(_DIGITS))
        text += _DIGITS[digit]
    return text


# --- tasks ------------------------------------------------------------------------------------------------------------
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
        self.policies: list[Policy] = []
        """The policies of the job, for all tasks."""
        self.refusal = self._refuse()
        """Why the spec cannot be used at all, or ""."""
        self.volumes, bad_volumes = _volumes_of(job)
        tasks = {} if self.refusal else {f"spec.tasks[{i}]": task for i, task in enumerate(self.tasks.values())}
        bad_dependencies = {field: self._drop_unknown_dependencies(task, field) for field, task in tasks.items()}
        self.refusal = self.refusal or self._find_cycle()
        for task in tasks.values():
            for replica in range(task.replicas):
                self.slots[pod_name(job, task.spec, replica)] = Slot(task, replica)
        self.malformed: list[Problem] = []
        """Everything that is ignored."""
        levels: dict[str, ParsedSpec | ParsedTask] = {"spec": self, **tasks}
        for field, level in levels.items():
            level.policies, bad = parse_policies(level.spec.policies, f"{field}.policies")
            self.malformed += [*bad, *bad_dependencies.get(field, ())]
        self.malformed += bad_volumes

    @cached_property
    def ignores_failures(self) -> bool:
        """Whether nothing is done about a Pod that fails, whatever its task."""
        found = (first_policy(JobEvent.POD_FAILED, 0, task.policies, self.policies) for task in self.tasks.values())
        return all(policy is not None and policy.action is Action.IGNORE for policy in found)

    @cached_property
    def start(self) -> StartProblems:
        """Which tasks can never start."""
        return start_problems(self.spec)

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

    def _drop_unknown_dependencies(self, task: ParsedTask, field: str) -> list[Problem]:
        """Removes dependencies on unknown tasks, and returns their problem. ``field``: the path of the task."""
        unknown = [name for name in task.depends if name not in self.tasks]
        if not unknown:
            return []
        task.depends = tuple(name for name in task.depends if name in self.tasks)
        return [(f"{field}.dependsOn.name", f"no task is called {unknown[0]!r:.66}")]
