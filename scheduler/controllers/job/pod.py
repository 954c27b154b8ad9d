"""The Pods of a job, as they are created."""

from collections.abc import Mapping
from typing import Any

from scheduler.api import batch
from scheduler.api.kinds import POD, VCJOB
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
from scheduler.controllers.effects import Json
from scheduler.controllers.job.parsed_spec import ParsedSpec, Slot
from scheduler.controllers.owners import owned

_ANNOTATIONS = (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE, JOB_FORWARDING)
"""Annotations of the job that its Pods inherit."""
_LABELS = (PREEMPTABLE, COOLDOWN_TIME)
"""Labels of the job that its Pods inherit."""


def pod_manifest(
    job: batch.Job, parsed_spec: ParsedSpec, slot: Slot, name: str, group: str, status: batch.JobStatus
) -> Json:
    """The manifest of a Pod before volumes and plugins add to it. ``group`` is the name of its PodGroup; version and
    retries are those of ``status``."""
    task, template = slot.task, slot.task.template()
    meta, spec = _object(template.get("metadata")), _object(template.get("spec"))
    pod = owned(POD, name, VCJOB, job, spec=spec)
    pod["metadata"]["labels"] = _object(meta.get("labels")) | _labels(job, parsed_spec, slot)
    pod["metadata"]["annotations"] = (
        _object(meta.get("annotations"))
        | {
            TASK_INDEX: str(slot.replica),
            TASK_SPEC: task.name,
            GROUP_NAME: group,
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
    """A budget for disruptions is one of the two kinds."""
    result = {key: annotations[key] for key in _ANNOTATIONS if key in annotations}
    for key in (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE):
        if key in annotations:
            return result | {key: annotations[key]}
    return result


def _object(value: Any) -> Json:
    """What is no object counts as an empty one; the API server says what it thinks of it."""
    return value if isinstance(value, dict) else {}
