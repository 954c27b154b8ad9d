"""The restarts of an AscendJob, as annotations of its PodGroup count them, and how many it may have.

Restarts after evictions do not count towards the limit: the job has not failed. A restart is counted before its Pods
are created. When the job has all its Pods again, an annotation records that, so that controllers that start later see
whether Pods were lost while none ran.
"""

from collections.abc import Iterator, Mapping

from scheduler.api.acjob import RUNNING, AscendJob, JobRoles
from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import (
    ACJOB_COMPLETE,
    ACJOB_RESTARTS,
    ACJOB_UNCOUNTED_RESTARTS,
    FAULT_SCHEDULING,
)
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.acjob.manifests import VERSION
from scheduler.controllers.effects import Effect, Patch
from scheduler.controllers.evictions import was_evicted
from scheduler.controllers.retry_record import number_in, retry_times
from scheduler.controllers.store import key_of


def restarts_of(group: PodGroup) -> int:
    """How often the job of a PodGroup restarted."""
    return number_in((group.metadata.annotations or {}).get(ACJOB_RESTARTS, ""))


def uncounted_restarts_of(group: PodGroup) -> int:
    """How many of the restarts do not count towards the limit."""
    return number_in((group.metadata.annotations or {}).get(ACJOB_UNCOUNTED_RESTARTS, ""))


def counted(group: PodGroup, restarts: int, uncounted: int) -> Effect:
    """The write of the number of restarts. ``uncounted``: those that do not count towards the limit."""
    annotations = {ACJOB_RESTARTS: str(restarts)} | ({ACJOB_UNCOUNTED_RESTARTS: str(uncounted)} if uncounted else {})
    return _annotated(group, annotations)


def completion(group: PodGroup, pods: Mapping[str, Pod], total: int) -> Iterator[Effect]:
    """Yields the write that records that the job has all its Pods after its last restart. They are of this restart, or
    they run, as those that were not replaced; none is to be deleted."""
    restarts = restarts_of(group)
    value = f"{restarts}:{total}"
    if (group.metadata.annotations or {}).get(ACJOB_COMPLETE) == value or any_terminates(pods):
        return
    of_restart = all((pod.metadata.labels or {}).get(VERSION) == str(restarts) for pod in pods.values())
    if of_restart or all(pod.status.phase == RUNNING for pod in pods.values()):
        yield _annotated(group, {ACJOB_COMPLETE: value})


def is_torn(group: PodGroup, existing: int) -> bool:
    """Whether Pods were deleted while no controller ran, and the restart is not counted yet. The job had all its Pods
    since the last one. Nothing was deleted if the job was given more Pods. ``existing``: number of its Pods."""
    restarts, _, total = (group.metadata.annotations or {}).get(ACJOB_COMPLETE, "").partition(":")
    return restarts == str(restarts_of(group)) and existing < number_in(total)


def has_failed(pod: Pod) -> bool:
    """Whether a Pod ended by itself, and not because it is being deleted. ``pod``: its last version."""
    return pod.status.phase in ENDED_PHASES and not was_evicted(pod)


def _annotated(group: PodGroup, annotations: Mapping[str, str]) -> Effect:
    body = {"metadata": {"annotations": annotations}}
    return Patch(POD_GROUP, *key_of(group), body, group.metadata.uid)


def any_terminates(pods: Mapping[str, Pod]) -> bool:
    """Whether any of the Pods is terminating."""
    return any(pod.metadata.deletion_timestamp is not None for pod in pods.values())


def is_rescheduled(job: AscendJob, roles: JobRoles) -> bool:
    """Whether the scheduler deletes the Pods of the job after a fault: label of the job, or of its Pods."""
    templates = ((role.template.get("metadata") or {}).get("labels") or {} for role in roles.roles)
    labels = [job.metadata.labels or {}, *templates]
    return next((each[FAULT_SCHEDULING] for each in labels if FAULT_SCHEDULING in each), "off") != "off"


def backoff_limit(job: AscendJob) -> int:
    """The largest number of restarts that count; 0: no limit."""
    limit = job.spec.run_policy.backoff_limit
    return retry_times(job.metadata.labels or {}) if limit is None else limit
