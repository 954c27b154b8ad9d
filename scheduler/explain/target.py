"""The target of an explanation: the object, the job it belongs to, and when its goal is reached, also after the Pods
that terminate are gone."""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api import batch, kinds
from scheduler.api.batch import FINISHED_PHASES
from scheduler.api.explained_kinds import EXPLAINED
from scheduler.api.job import Job
from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    DEPLOYMENT,
    JOB_FLOW,
    POD,
    POD_GROUP,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VCJOB,
    Kind,
    find_kind,
)
from scheduler.api.names import GROUP_NAME
from scheduler.api.objects import ENDED_PHASES
from scheduler.api.reasons import AFTER_ADMISSION, no_such_object
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.cluster.memory import MemoryCluster, Simulation
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.explain.explanation import NotFoundError
from scheduler.explain.owned import ENDED_FLOWS, owned_by, references_to, steps_of, waiting_groups
from scheduler.explain.unconsidered import ordered_tasks
from scheduler.framework.session import Session

Raw = dict[str, Any]
_WAITING: Final = (TaskStatus.PENDING, TaskStatus.PIPELINED)
_CREATORS: Final = (VCJOB, ACJOB)
_SCALED: Final = {kind.name for kind in (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, REPLICATION_CONTROLLER, BATCH_JOB)}
_NUMBERS: Final = ("replicas", "parallelism")


class Target(msgspec.Struct, frozen=True):
    """The object to explain and the job it belongs to."""

    kind: Kind
    """The kind of the object that is explained; for a JobFlow, this is the vcjob of a step."""
    namespace: str
    name: str
    job: str
    """Key of its PodGroup; "": it has none."""
    waiting: tuple[str, ...] = ()
    """What waits and could be explained in place of the object asked for: vcjobs of a JobFlow, or PodGroups."""
    others: str = ""
    """What else waits that belongs to the object asked for, such as steps of a JobFlow, or ""."""
    pods: tuple[Raw, ...] = ()
    """The Pods of a workload without a PodGroup."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def pod(self) -> str:
        """Key of the Pod if the target is a Pod, else ""."""
        return self.key if self.kind is POD else ""


def find_target(cluster: MemoryCluster, kind: str, namespace: str, name: str, choice: str = "") -> Target:
    """Finds the object, and the PodGroup that says why it waits. Raises NotFoundError.

    ``kind``: one of ``EXPLAINED``, or the kind of another owner of Pods, such as ``RayCluster``. Of a workload with
    several PodGroups, such as a Deployment during a rollout, the oldest that waits is explained; of a JobFlow, the job
    of the first step that waits. ``choice``: one of its ``waiting``, to be explained instead.
    """
    constants = EXPLAINED[kind].constants if kind in EXPLAINED else ()
    for wanted in (getattr(kinds, constant) for constant in constants):
        raw = cluster.server.find(wanted, namespace, name)
        if raw is not None:
            return _target_of(cluster, wanted, raw, choice)
    if kind not in ("pod", "podgroup"):
        found, uids = references_to(cluster, EXPLAINED[kind].title if kind in EXPLAINED else kind, namespace, name)
        if found is not None:
            return _workload(cluster, found, namespace, name, uids, choice)
    creator = _creator_of(cluster, namespace, name) if kind == "pod" else None
    if creator is None:
        raise NotFoundError(no_such_object(kind, namespace, name))
    waits = ordered_tasks(cluster, creator)
    creates = f"later: {waits}" if waits else AFTER_ADMISSION
    raise NotFoundError(no_such_object(kind, namespace, name, creator["metadata"]["name"], creates))


def _target_of(cluster: MemoryCluster, kind: Kind, raw: Raw, choice: str) -> Target:
    """The target for an object of the cluster."""
    meta = raw["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    if kind is POD_GROUP:
        return Target(kind, namespace, name, f"{namespace}/{name}")
    if kind is POD:
        group = (meta.get("annotations") or {}).get(GROUP_NAME)
        return Target(kind, namespace, name, f"{namespace}/{group}" if group else "")
    if kind is JOB_FLOW:
        steps = steps_of(cluster, raw)
        shown = choice or next(iter((*steps.waiting, *steps.unfinished)), "")
        job = cluster.server.find(VCJOB, namespace, shown) if shown else None
        if job is None or ended(raw):
            return Target(kind, namespace, name, "", others=steps.text)
        return replace(_target_of(cluster, VCJOB, job, ""), waiting=steps.waiting, others=steps.text)
    return _workload(cluster, kind, namespace, name, [meta["uid"]], choice)


def _workload(cluster: MemoryCluster, kind: Kind, namespace: str, name: str, uids: list[str], choice: str) -> Target:
    """The target for an owner of PodGroups or Pods. ``uids``: of the owner."""
    owned = owned_by(cluster, namespace, uids)
    if not owned.groups:
        others = _never_starts(cluster, namespace, name) if kind is VCJOB else ""
        return Target(kind, namespace, name, "", others=others, pods=owned.pods)
    waiting = waiting_groups(cluster, namespace, owned.groups)
    group = choice or (waiting[0] if waiting else owned.groups[-1])
    others = f"{len(waiting)} of its {len(owned.groups)} PodGroups wait" if len(waiting) > 1 else ""
    return Target(kind, namespace, name, f"{namespace}/{group}", waiting, others)


def _never_starts(cluster: MemoryCluster, namespace: str, name: str) -> str:
    """Why the controllers create nothing for a vcjob, or ""."""
    try:
        parsed_spec = ParsedSpec(msgspec.convert(cluster.server.find(VCJOB, namespace, name), batch.Job))
    except msgspec.ValidationError:  # an Event says what is malformed
        return ""
    problem = parsed_spec.refusal or parsed_spec.start.refusal
    return problem and f"spec.tasks: {problem}"


def _creator_of(cluster: MemoryCluster, namespace: str, name: str) -> Raw | None:
    """Returns the vcjob that creates a Pod of this name for one of its roles, or None."""
    for raw in cluster.server.of(VCJOB):
        job = str(raw["metadata"]["name"])
        roles = [f"{job}-{role.get('name')}-" for role in (raw.get("spec") or {}).get("tasks") or ()]
        numbers = [name.removeprefix(role) for role in roles if name.startswith(role)]
        if raw["metadata"].get("namespace") == namespace and any(map(str.isdecimal, numbers)):
            return raw
    return None


def asks_for_no_pods(raw: Raw) -> str:
    """Why a workload has no Pods although nothing is short: it is scaled to none or suspended. "": it asks for some."""
    spec = raw.get("spec")
    if not isinstance(spec, dict) or raw.get("kind") not in _SCALED:
        return ""
    if spec.get("suspend") is True:
        return "it is suspended (spec.suspend)"
    return next((f"it asks for no Pods (spec.{field} is 0)" for field in _NUMBERS if spec.get(field) == 0), "")


def owners(raw: Raw) -> list[str]:
    """The uids of an object's owners."""
    return [str(owner.get("uid")) for owner in raw["metadata"].get("ownerReferences") or ()]


def ended(raw: Raw) -> str:
    """The phase of a vcjob, JobFlow or Pod that has finished, or ""."""
    status = raw.get("status") or {}
    state = status.get("state")
    phase = state.get("phase") if isinstance(state, dict) else status.get("phase")
    return str(phase) if phase in (*FINISHED_PHASES, *ENDED_PHASES, *ENDED_FLOWS) else ""


class Goal(msgspec.Struct, frozen=True):
    """The condition under which the target no longer waits."""

    job: str
    pod: str
    """Key of the Pod that must get a node; "": the gang must start."""
    waiting: int
    """The number of Pods that wait in a gang that has its minimum. The goal is that fewer wait. 0: the goal is the
    minimum."""
    required: int = 0
    """The least number of Pods with a node for which plugins let the gang start. They may require more than its
    minimum."""
    pods_follow: bool = False
    """Whether a controller creates the Pods of the gang when it is admitted: admission alone is not the goal then."""

    def needed(self, job: Job) -> int:
        """The number of Pods of the gang that must have a node."""
        return max(job.min_member, self.required, 1, job.ready_count + 1 if self.waiting else 0)

    def reached(self, session: Session) -> bool:
        """Whether the goal is reached at the end of a session. For a gang without Pods that no controller creates, the
        goal is its admission to the queue."""
        job = session.jobs.get(self.job)
        if job is None:
            return False
        if self.pod:
            return self.met_now(job)
        if not job.size:
            return not job.waiting_for_queue and not (self.pods_follow and job.min_member)
        started = job.ready_count >= max(job.min_member, 1) and not missing_roles(job) and session.job_ready(job)
        return started and (not self.waiting or job.count(*_WAITING) < self.waiting)

    def met_initially(self, job: Job) -> bool:
        """Whether the goal is reached before any session."""
        return not self.waiting and job.ready_count >= max(job.min_member, 1) and not missing_roles(job)

    def met_now(self, job: Job) -> bool:
        """Whether the goal of a Pod is reached without a session, or that of a gang."""
        if self.pod:
            return any(task.key == self.pod for status in READY_STATUSES for task in job.of(status).values())
        return self.met_initially(job)

    def wanted(self, job: Job, session: Session) -> list[Task]:
        """The pending tasks that must be placed together to reach the goal, in task order. Includes gated tasks."""
        pending = sorted(job.of(TaskStatus.PENDING).values(), key=session.task_key)
        missing = self.needed(job) - job.ready_count - job.waiting_count
        roles = missing_roles(job)
        first, rest = [], []
        for task in pending:
            if task.key == self.pod:
                first.append(task)
            elif roles.get(task.role, 0) > 0:
                roles[task.role] -= 1
                first.append(task)
            else:
                rest.append(task)
        return first + rest[: max(missing - len(first), 0)]


def missing_roles(job: Job) -> dict[str, int]:
    """Role -> how many more tasks its minimum needs."""
    if not job.enforces_role_minimum:
        return {}
    counts = job.role_counts(*READY_STATUSES)
    lacking = {role: minimum - counts.get(role, 0) for role, minimum in job.role_minimum.items()}
    return {role: number for role, number in lacking.items() if number > 0}


def goal_of(cluster: MemoryCluster, target: Target, job: Job) -> Goal:
    """The goal for a target: the gang's minimum, or one more Pod for a gang that has its minimum."""
    minimum = max(job.min_member, 1)
    started = job.ready_count >= minimum and not missing_roles(job)
    waiting = job.count(*_WAITING) if started else 0
    return Goal(target.job, target.pod, waiting, pods_follow=_has_creator(cluster, job))


def _has_creator(cluster: MemoryCluster, job: Job) -> bool:
    """Whether a vcjob or AscendJob owns the PodGroup; their controllers create Pods after its admission."""
    group = cluster.server.find(POD_GROUP, job.namespace, job.name)
    for owner in (group["metadata"].get("ownerReferences") or ()) if group is not None else ():
        kind = find_kind(str(owner.get("apiVersion")), str(owner.get("kind")))
        raw = cluster.server.find(kind, job.namespace, str(owner.get("name"))) if kind in _CREATORS else None
        if raw is not None and raw["metadata"]["uid"] == owner.get("uid"):
            return True
    return False


def gets_nodes_afterwards(simulation: Simulation, kind: str, namespace: str, name: str) -> bool:
    """Runs a copy of the cluster without the Pods that terminate until nothing changes. ``kind``: as in
    ``find_target``."""
    if not simulation.cluster.has_pods_to_end:
        return False
    later = simulation.branch()
    later.cluster.end_terminating_pods()
    later.run()
    try:
        found = find_target(later.cluster, kind, namespace, name)
    except NotFoundError:
        return False
    job = later.snapshot().jobs.get(found.job)
    return job is not None and goal_of(later.cluster, found, job).met_now(job)
