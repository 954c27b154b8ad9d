"""AscendJobs (``mindxdl.gitee.com/v1``): training jobs of MindSpore, PyTorch and TensorFlow on Ascend chips,
and their roles: replica specs, checked and completed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api.names import (
    BACKUP_SOURCE_POD,
    HUAWEI_PREFIX,
    MINDIE_JOB,
    NPU_CORE,
    POD_TYPE,
    SCALE_OUT,
    SCALING_GROUP,
    SCALING_RULE,
)
from scheduler.api.objects import KubeObject, Pod, PodSpec, ResourceList, Wire
from scheduler.api.quantity import QuantityError, parse_amount

CREATED: Final = "Created"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
SUSPENDED: Final = "Suspended"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
"""Types of conditions."""
POD_CREATE_FAILED: Final = "PodCreateFailed"
"""The reason of a condition: the job creates no Pods now."""
BACKUP: Final = "backup"
"""Value of the annotation ``podType``."""


class ReplicaSpec(Wire):
    replicas: int | None = None
    restart_policy: str = ""
    template: dict[str, Any] = msgspec.field(default_factory=dict)


class SchedulingPolicy(Wire):
    min_available: int | None = None
    min_resources: ResourceList | None = None
    priority_class: str = ""
    queue: str = ""


class RunPolicy(Wire):
    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    clean_pod_policy: str = ""
    ttl_seconds_after_finished: int | None = None
    scheduling_policy: SchedulingPolicy | None = None
    suspend: bool = False


class AscendJobSpec(Wire):
    replica_specs: dict[str, ReplicaSpec] | None = None
    run_policy: RunPolicy = msgspec.field(default_factory=RunPolicy)
    scheduler_name: str = ""
    success_policy: str = ""


class AscendJobCondition(Wire):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: str | None = None
    last_transition_time: str | None = None


class AscendJobStatus(Wire):
    conditions: list[AscendJobCondition] | None = None
    replica_statuses: dict[str, dict[str, Any]] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    restarts: int = 0
    """Restarts before the job was suspended. While it has a PodGroup, that counts them."""
    uncounted_restarts: int = 0
    """The restarts among them that do not count towards the limit."""


class AscendJob(KubeObject):
    spec: AscendJobSpec = msgspec.field(default_factory=AscendJobSpec)
    status: AscendJobStatus = msgspec.field(default_factory=AscendJobStatus)

    def has(self, condition: str) -> bool:
        """Whether a condition of this type is True."""
        return any(c.type == condition and c.status == "True" for c in self.status.conditions or ())

    def since(self, condition: str) -> str | None:
        """When the condition of this type became as it is."""
        return next((c.last_transition_time for c in self.status.conditions or () if c.type == condition), None)

    @property
    def is_finished(self) -> bool:
        return self.has(SUCCEEDED) or self.has(FAILED)


def is_backup(pod: Pod) -> bool:
    """Whether a Pod was created to replace another one that still runs, and has not taken its place yet."""
    annotations = pod.metadata.annotations or {}
    return annotations.get(POD_TYPE) == BACKUP and bool(annotations.get(BACKUP_SOURCE_POD))


CONTAINER: Final = "ascend"
PORT_NAME: Final = "ascendjob-port"
PORT: Final = 2222
WORKER: Final = "Worker"
FRAMEWORK: Final = "framework"
MINDSPORE, PYTORCH, TENSORFLOW = "mindspore", "pytorch", "tensorflow"
LEADERS: Final[Mapping[str, str]] = {MINDSPORE: "Scheduler", PYTORCH: "Master", TENSORFLOW: "Chief"}
"""Framework -> the role whose only Pod the others connect to."""
MAX_REPLICAS: Final = 20_000
ALL_WORKERS: Final = "AllWorkers"
"""The success policy of a job that has succeeded when all Pods have that train."""
_LONGEST_LABEL: Final = 63
_SERVICE: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")


class Role(NamedTuple):
    """One replica spec."""

    type: str
    """Its name as the operator writes it: Master, Chief, Scheduler or Worker."""
    replicas: int
    template: Mapping[str, Any]
    resource: str
    """The resource of its chips, or ""."""
    chips: int
    """Amount of that resource in the container ``ascend``."""
    restart_policy: str

    @property
    def label(self) -> str:
        return self.type.lower()

    @property
    def cuts_chips(self) -> bool:
        """Whether it requests cores of chips, not chips."""
        return self.resource == NPU_CORE


class JobRoles(NamedTuple):
    """The roles of a valid job."""

    framework: str
    roles: tuple[Role, ...]
    """The leader first, if there is one."""

    @property
    def leader(self) -> Role | None:
        return next((role for role in self.roles if role.type != WORKER), None)

    @property
    def workers(self) -> int:
        return sum(role.replicas for role in self.roles if role.type == WORKER)

    @property
    def total(self) -> int:
        return sum(role.replicas for role in self.roles)

    def trains(self, role: Role) -> bool:
        """Whether the Pods of a role take part in the training, and end with it. MindSpore's Scheduler without chips
        does not; the leaders of other frameworks are a worker as well."""
        return role.type == WORKER or self.framework != MINDSPORE or bool(role.chips)

    @property
    def chip_pods(self) -> int:
        """Number of Pods with chips."""
        return sum(role.replicas for role in self.roles if role.chips)

    def sized(self, role: Role) -> Role:
        """The role whose chips the environment of a Pod states: its own, or if it has none that of the Pods with
        chips."""
        return role if role.chips else next((each for each in self.roles if each.chips), role)

    def rank(self, role: Role, index: int) -> int:
        """The rank of a Pod. If the leader has chips, it has rank 0 and the workers follow."""
        leader = self.leader
        return index + 1 if role.type == WORKER and leader is not None and leader.chips else index


class InvalidJobError(ValueError):
    """A job is invalid. ``reason`` is a word for programs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason


def roles_of(job: AscendJob) -> JobRoles:
    """Returns the roles of a job. Raises InvalidJobError, with the messages of the Ascend operator where it has
    them."""
    _check_scaling_rule(job)
    if not job.spec.replica_specs:
        raise InvalidJobError("InvalidSpecs", "replicaSpecs is empty: a job needs at least one role")
    if job.spec.success_policy not in ("", ALL_WORKERS):
        text = (
            f'job success policy is invalid, it must be one of <"", AllWorkers>, not {job.spec.success_policy[:64]!r}'
        )
        raise InvalidJobError("InvalidSuccessPolicy", text)
    scale_out = (job.metadata.labels or {}).get(SCALE_OUT, "").strip()
    if scale_out.upper() not in ("", "ROCE", "UBOE"):
        text = f"the value of label {SCALE_OUT} is {scale_out[:64]!r}, which should be ROCE or UBOE"
        raise InvalidJobError("InvalidScaleOutConfig", text)
    framework = (job.metadata.labels or {}).get(FRAMEWORK, "")
    if framework not in LEADERS:
        text = f"label {FRAMEWORK}={framework[:64]} is none of {', '.join(sorted(LEADERS))}"
        raise InvalidJobError("InvalidFramework", text)
    roles = [_role(framework, name, spec) for name, spec in job.spec.replica_specs.items()]
    if len({role.type for role in roles}) < len(roles):
        raise InvalidJobError("InvalidReplicaType", f"a role is given twice: {', '.join(job.spec.replica_specs)}")
    roles.sort(key=lambda role: role.type == WORKER)
    result = JobRoles(framework, tuple(roles))
    if result.leader is None:
        _check_without_leader(result)
    _check_name(job.metadata.name, result.leader)
    return result


def _check_scaling_rule(job: AscendJob) -> None:
    """A job that names a scaling rule has to say to which service and which group of it it belongs."""
    labels = job.metadata.labels or {}
    if SCALING_RULE not in labels:
        return
    for label, what, value in ((SCALING_GROUP, "group name", "group"), (MINDIE_JOB, "jobID", "jobID")):
        if label not in labels:
            text = f"job {job.metadata.name[:64]} has no {what}, please set label of {label}=<the {value} of job>"
            raise InvalidJobError("InvalidScalingConfig", text)


def _check_name(name: str, leader: Role | None) -> None:
    """Pods have the name of the job in a label, and the Service of the leader has it in its own name."""
    end = "" if leader is None else f"-{leader.label}-0"
    service, most = f"{name[:64]}{end}", _LONGEST_LABEL - len(end)
    if len(name) > most:
        text = f"metadata.name has {len(name)} characters; for its Service {service} it can have {most}"
        if leader is None:
            text = f"metadata.name has {len(name)} characters; for a label of its Pods it can have {most}"
        raise InvalidJobError("InvalidSpecs", text)
    if leader is not None and name and not _SERVICE.fullmatch(name):
        needs = "needs a name of lower-case letters, digits and -, from a letter on"
        text = f"metadata.name is {name}: its Service {service} {needs}"
        raise InvalidJobError("InvalidSpecs", text)


def _check_without_leader(job: JobRoles) -> None:
    if job.framework != MINDSPORE:
        text = f"replicaType is not valid: a {job.framework} job needs the role {LEADERS[job.framework]}"
        raise InvalidJobError("InvalidReplicaType", text)
    if sum(role.chips * role.replicas for role in job.roles) > 1:
        text = "replicaSpec is not valid: when scheduler not found, the req num must be 1"
        raise InvalidJobError("InvalidReplicaSpec", text)
    if not job.total:
        raise InvalidJobError("InvalidReplicaSpec", "replicaSpec is not valid: the job has no Pods")


def _role(framework: str, name: str, spec: ReplicaSpec) -> Role:
    known = (LEADERS[framework], WORKER)
    type = next((role for role in known if role.lower() == name.lower()), None)
    if type is None:
        text = f"replicaType is {name[:64]} but must be one of {', '.join(known)}"
        raise InvalidJobError("InvalidReplicaType", text)
    replicas = 1 if spec.replicas is None else spec.replicas
    if not 0 <= replicas <= MAX_REPLICAS:
        raise InvalidJobError("InvalidReplicaSpec", f"{type} has {replicas} replicas, not 0 to {MAX_REPLICAS}")
    if type != WORKER and replicas != 1:
        raise InvalidJobError("InvalidReplicaSpec", f"replicas of {type} is {replicas}, it must be only 1")
    resource, chips = _chips(type, spec)
    return Role(type, replicas, spec.template, resource, chips, spec.restart_policy)


def _chips(type: str, spec: ReplicaSpec) -> tuple[str, int]:
    """The resource of the chips and its amount. Raises InvalidJobError."""
    try:
        pod = msgspec.convert(spec.template.get("spec") or {}, PodSpec)
    except msgspec.ValidationError as error:
        raise InvalidJobError("InvalidContainer", f"{type}: template.spec: {error}") from None
    container = next((each for each in pod.containers if each.name == CONTAINER), None)
    if container is None:
        raise InvalidJobError("InvalidContainer", f"there is no container named {CONTAINER} in {type}")
    images = [each.get("image") for each in spec.template["spec"]["containers"] if isinstance(each, dict)]
    if not all(images):
        raise InvalidJobError("InvalidContainer", f"a container of {type} has no image")
    resources = container.resources
    amounts = {} if resources is None else {**(resources.limits or {}), **(resources.requests or {})}
    for name, quantity in amounts.items():
        if name.startswith(HUAWEI_PREFIX):
            try:
                return name, parse_amount(quantity).nano // 10**9
            except QuantityError as error:
                raise InvalidJobError("InvalidContainer", f"{type}: {name}: {error}") from None
    return "", 0


def requested_keys(template: Mapping[str, Any]) -> Sequence[str]:
    """The names of the resources that the container ``ascend`` requests."""
    return list((_container(template).get("resources") or {}).get("requests") or ())


def variables_of(template: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The environment variables of the container ``ascend``."""
    return list(_container(template).get("env") or ())


def _container(template: Mapping[str, Any]) -> Mapping[str, Any]:
    containers: Sequence[Mapping[str, Any]] = (template.get("spec") or {}).get("containers") or ()
    return next((each for each in containers if each.get("name") == CONTAINER), {})
