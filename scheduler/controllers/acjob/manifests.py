"""The objects of an AscendJob: PodGroup, Service of the leader, Pods. Names and labels are those of the Ascend
operator, since device plugins and dashboards read them."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from scheduler.api.acjob import CONTAINER, PORT, PORT_NAME, WORKER, AscendJob, JobRoles, Role, SchedulingPolicy
from scheduler.api.kinds import ACJOB, POD, POD_GROUP, SERVICE
from scheduler.api.names import (
    ACJOB_COMPLETE,
    ACJOB_GROUP,
    ACJOB_OPERATOR_NAME,
    ACJOB_RESTARTS,
    ACJOB_UNCOUNTED_RESTARTS,
    GROUP_NAME,
    HCCL_RANK_INDEX,
    PODS,
    PROCESS_RECOVER,
    RECOVER_STRATEGY,
    TASK_SPEC,
)
from scheduler.api.pod_amounts import summed
from scheduler.controllers.acjob.environment import Addresses, environment, leader_port
from scheduler.controllers.owners import owned
from scheduler.controllers.resources import pod_usage, printed, scaled

Json = dict[str, Any]
OPERATOR: Final = "ascendjob-controller"
VERSION: Final = "version"
"""Label of a Pod: how often the job had restarted when it was created."""
_TRAINING: Final = "training.kubeflow.org/"
_COUNTED: Final = ("requests.", "limits.", "count/")


def group_name(job: AscendJob) -> str:
    return f"{job.metadata.name}-{job.metadata.uid}"


def pod_name(job: AscendJob, role: Role, index: int) -> str:
    return f"{job.metadata.name}-{role.label}-{index}"


def identity(job: AscendJob, role: Role, index: int) -> dict[str, str]:
    """The labels that distinguish the Pods of a job."""
    return {
        "group-name": ACJOB_GROUP,
        "job-name": job.metadata.name,
        "replica-type": role.label,
        "replica-index": str(index),
        f"{_TRAINING}job-name": job.metadata.name,
        ACJOB_OPERATOR_NAME: OPERATOR,
        f"{_TRAINING}replica-type": role.label,
        f"{_TRAINING}replica-index": str(index),
    }


def min_available(job: AscendJob, roles: JobRoles) -> int:
    """The smallest number of Pods with which the job runs."""
    policy = job.spec.run_policy.scheduling_policy
    return roles.total if policy is None or policy.min_available is None else policy.min_available


def pod_group(job: AscendJob, roles: JobRoles) -> Json:
    """The manifest of the PodGroup. Raises QuantityError for malformed amounts."""
    policy = job.spec.run_policy.scheduling_policy or SchedulingPolicy()
    minimum = min_available(job, roles)
    spec: Json = {
        "minMember": minimum,
        "minTaskMember": {role.label: role.replicas for role in roles.roles},
        "minResources": policy.min_resources or _min_resources(roles, minimum),
    }
    if policy.queue:
        spec["queue"] = policy.queue
    if policy.priority_class:
        spec["priorityClassName"] = policy.priority_class
    manifest = owned(POD_GROUP, group_name(job), ACJOB, job, spec=spec)
    labels, annotations = dict(job.metadata.labels or {}), dict(job.metadata.annotations or {})
    for own in (ACJOB_RESTARTS, ACJOB_UNCOUNTED_RESTARTS, ACJOB_COMPLETE):
        annotations.pop(own, None)
    if RECOVER_STRATEGY in annotations:
        labels[PROCESS_RECOVER] = "on"
    if job.status.restarts > 0:
        annotations[ACJOB_RESTARTS] = str(job.status.restarts)
    if job.status.uncounted_restarts > 0:
        annotations[ACJOB_UNCOUNTED_RESTARTS] = str(job.status.uncounted_restarts)
    for field, values in (("labels", labels), ("annotations", annotations)):
        if values:
            manifest["metadata"][field] = values
    return manifest


def _min_resources(roles: JobRoles, minimum: int) -> dict[str, str]:
    """The sum of the requests of the first ``minimum`` Pods, the leader before the workers."""
    total: dict[str, Any] = {}
    for role in roles.roles:
        count = min(role.replicas, minimum)
        minimum -= count
        usage = pod_usage(role.template.get("spec") or {})
        plain = {name: amount for name, amount in usage.items() if name != PODS and not name.startswith(_COUNTED)}
        total = summed(total, scaled(plain, count))
    return printed(total)


def service(job: AscendJob, roles: JobRoles, leader: Role) -> Json:
    """The Service of the leader, whose cluster IP the other Pods connect to."""
    labels = identity(job, leader, 0)
    port = leader_port(roles)
    spec = {"selector": labels, "ports": [{"name": PORT_NAME, "port": port, "targetPort": port, "protocol": "TCP"}]}
    manifest = owned(SERVICE, pod_name(job, leader, 0), ACJOB, job, spec=spec)
    manifest["metadata"]["labels"] = labels
    return manifest


def members(job: AscendJob, roles: JobRoles) -> Iterator[tuple[str, Role, int]]:
    """Name, role and index of every Pod."""
    for role in roles.roles:
        for index in range(role.replicas):
            yield pod_name(job, role, index), role, index


class RolePod(NamedTuple):
    """What the Pods of a job have in common."""

    job: AscendJob
    roles: JobRoles
    addresses: Addresses
    version: int
    """How often the job has restarted."""
    scheduler: str
    """The schedulerName of a Pod if neither its template nor the job has one."""


def pod(context: RolePod, role: Role, index: int) -> Json:
    """The manifest of one Pod, which shares with the template what is equal."""
    job, roles = context.job, context.roles
    meta, spec = role.template.get("metadata") or {}, dict(role.template.get("spec") or {})
    spec.setdefault("schedulerName", job.spec.scheduler_name or context.scheduler)
    spec["restartPolicy"] = role.restart_policy if role.restart_policy in ("Always", "OnFailure") else "Never"
    if priority := (job.spec.run_policy.scheduling_policy or SchedulingPolicy()).priority_class:
        spec.setdefault("priorityClassName", priority)
    variables = environment(job, roles, role, index, context.addresses)
    spec["containers"] = [
        _completed(container, role, variables) if container.get("name") == CONTAINER else container
        for container in spec["containers"]
    ]
    manifest = owned(POD, pod_name(job, role, index), ACJOB, job, spec=spec)
    labels = {**(meta.get("labels") or {}), **identity(job, role, index), VERSION: str(context.version)}
    manifest["metadata"]["labels"] = labels
    if role.type != WORKER:
        labels[f"{_TRAINING}job-role"] = "master"
    manifest["metadata"]["annotations"] = {
        **(meta.get("annotations") or {}),
        GROUP_NAME: group_name(job),
        TASK_SPEC: role.label,
        HCCL_RANK_INDEX: str(roles.rank(role, index)),
    }
    return manifest


def _completed(container: Json, role: Role, variables: list[Json]) -> Json:
    """The container ``ascend`` with its variables and, of the leader, its port."""
    names = {variable["name"] for variable in variables}
    kept = [each for each in container.get("env") or () if each.get("name") not in names]
    ports = container.get("ports") or []
    if role.type != WORKER and all(port.get("name") != PORT_NAME for port in ports):
        container = {**container, "ports": [*ports, {"name": PORT_NAME, "containerPort": PORT}]}
    return {**container, "env": [*kept, *variables]}
