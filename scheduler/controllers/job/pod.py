"""The Pods of a job and the claims that they mount, as they are created."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.api import batch
from scheduler.api.kinds import CLAIM, POD, VCJOB
from scheduler.api.names import (
    COOLDOWN_TIME,
    GROUP_NAME,
    JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE,
    JOB_FORWARDING,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRY_COUNT,
    JOB_VERSION,
    NUMA_TOPOLOGY_POLICY,
    PARTITION_ID,
    PREEMPTABLE,
    QUEUE_NAME,
    REVOCABLE_ZONE,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
)
from scheduler.controllers.effects import Create, Json
from scheduler.controllers.job.parsed_spec import ClaimedVolume, ParsedSpec, Slot, stable_suffix
from scheduler.controllers.job.plugins.contract import JobPlugin, mutate_pod_by_plugins
from scheduler.controllers.job.plugins.podspec import add_volume, containers, mount
from scheduler.controllers.owners import owned

_ANNOTATIONS = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE, JOB_FORWARDING)
"""Annotations of the job that its Pods inherit."""
_LABELS = (PREEMPTABLE, COOLDOWN_TIME)
"""Labels of the job that its Pods inherit."""


class PodContext(NamedTuple):
    """What the Pods of a job have in common."""

    job: batch.Job
    parsed_spec: ParsedSpec
    plugins: Mapping[str, JobPlugin]
    status: batch.JobStatus
    """The status with the version and the retries that the Pods belong to."""
    group: str
    """The name of the PodGroup."""


def create_pod(context: PodContext, slot: Slot, name: str) -> Create:
    """The effect that creates a Pod. Raises JobPluginError, which names the plugin or the field of a wrong type."""
    pod = _manifest(context, slot, name)
    _mount_volumes(pod, context.job, context.parsed_spec.volumes)
    mutate_pod_by_plugins(context.plugins, pod, slot.task.spec, slot.replica, context.job)
    return Create(POD, pod)


def _manifest(context: PodContext, slot: Slot, name: str) -> Json:
    """The manifest of a Pod before volumes and plugins add to it."""
    job, parsed_spec, status = context.job, context.parsed_spec, context.status
    task, template = slot.task, slot.task.template()
    meta, spec = _object(template.get("metadata")), _object(template.get("spec"))
    pod = owned(POD, name, VCJOB, job, spec=spec)
    pod["metadata"]["labels"] = _object(meta.get("labels")) | _labels(job, parsed_spec, slot)
    pod["metadata"]["annotations"] = (
        _object(meta.get("annotations"))
        | {
            TASK_INDEX: str(slot.replica),
            TASK_SPEC: task.name,
            GROUP_NAME: context.group,
            JOB_NAME: job.metadata.name,
            QUEUE_NAME: parsed_spec.queue,
            JOB_VERSION: str(status.version),
            TEMPLATE_UID: f"{job.metadata.name}-{task.spec.name}",
            JOB_RETRY_COUNT: str(status.retry_count),
        }
        | ({NUMA_TOPOLOGY_POLICY: task.spec.topology_policy} if task.spec.topology_policy else {})
        | _inherited(job.metadata.annotations or {})
    )
    if not spec.get("schedulerName") and job.spec.scheduler_name:
        spec["schedulerName"] = job.spec.scheduler_name
    if not spec.get("priorityClassName") and job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    return pod


def _labels(job: batch.Job, parsed_spec: ParsedSpec, slot: Slot) -> Json:
    labels = {
        TASK_INDEX: str(slot.replica),
        TASK_SPEC: slot.task.name,
        JOB_NAME: job.metadata.name,
        JOB_NAMESPACE: job.metadata.namespace,
        QUEUE_NAME: parsed_spec.queue,
    }
    if slot.partition:
        labels[PARTITION_ID] = slot.partition
    annotations = job.metadata.annotations or {}
    if JOB_FORWARDING in annotations:
        labels[JOB_FORWARDING] = annotations[JOB_FORWARDING]
    own = job.metadata.labels or {}
    return labels | {key: own[key] for key in _LABELS if key in own}


def _inherited(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of the job that its Pods inherit. Of the two kinds of disruption budgets, they inherit one."""
    result = {key: annotations[key] for key in _ANNOTATIONS if key in annotations}
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in annotations:
            return result | {key: annotations[key]}
    return result


def _object(value: Any) -> Json:
    """The value if it is an object, else an empty one: the API server refuses the rest of the template."""
    return value if isinstance(value, dict) else {}


# --- claims -----------------------------------------------------------------------------------------------------------
def create_claim(job: batch.Job, volume: ClaimedVolume) -> Create:
    """The effect that creates the claim of a volume."""
    return Create(CLAIM, owned(CLAIM, volume.claim, VCJOB, job, spec=volume.spec))


def _mount_volumes(pod: Json, job: batch.Job, volumes: Sequence[ClaimedVolume]) -> None:
    """Mounts the job's volumes in the containers of a Pod. Raises JobPluginError naming a field of a wrong type."""
    for volume in volumes:
        name = f"{job.metadata.name[:50].replace('.', '-')}-{stable_suffix(job, 'volume', volume.claim)}"
        add_volume(pod, {"name": name, "persistentVolumeClaim": {"claimName": volume.claim}})
        for container in containers(pod):
            mount(container, {"name": name, "mountPath": volume.path})
