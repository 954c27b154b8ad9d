"""The restarts of an AscendJob, as annotations of its PodGroup count them, and how many it may have.

Restarts after evictions do not count towards the limit: the job has not failed. A restart is counted before its Pods
are created. When the job has all its Pods again, an annotation records that, so that controllers that start later see
whether Pods were lost while none ran. The restarts that a job has left after a Pod has failed are recorded by the
scheduler, which carries them out (``RetryRecord``).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, TypeVar

import msgspec

from scheduler.api.acjob import RUNNING, AscendJob, JobRoles
from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import (
    ACJOB_COMPLETE,
    ACJOB_RESTARTS,
    ACJOB_UNCOUNTED_RESTARTS,
    FAULT_RETRY_TIMES,
    FAULT_SCHEDULING,
    REMAINING_RETRIES,
    RESCHEDULING_RESTARTS,
)
from scheduler.api.objects import ENDED_PHASES, ConfigMap, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.acjob.manifests import VERSION
from scheduler.controllers.effects import Effect, Patch
from scheduler.controllers.evictions import was_evicted
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


def retry_times(job: AscendJob) -> int:
    """Restarts after failures of Pods, which the scheduler carries out."""
    return number_in((job.metadata.labels or {}).get(FAULT_RETRY_TIMES, ""))


def is_rescheduled(job: AscendJob, roles: JobRoles) -> bool:
    """Whether the scheduler deletes the Pods of the job after a fault: label of the job, or of its Pods."""
    templates = ((role.template.get("metadata") or {}).get("labels") or {} for role in roles.roles)
    labels = [job.metadata.labels or {}, *templates]
    return next((each[FAULT_SCHEDULING] for each in labels if FAULT_SCHEDULING in each), "off") != "off"


def number_in(text: str) -> int:
    """A number of up to nine digits; 0 for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def backoff_limit(job: AscendJob) -> int:
    """The largest number of restarts that count; 0: no limit."""
    limit = job.spec.run_policy.backoff_limit
    return retry_times(job) if limit is None else limit


T = TypeVar("T")
_Number = Annotated[int, msgspec.Meta(ge=0, lt=10**9)]


class _Retries(msgspec.Struct):
    times: _Number = msgspec.field(name="Times")


class _Entry(msgspec.Struct):
    uid: str


class _Restart(msgspec.Struct):
    uid: str
    pods: list[_Entry] = []


_RETRIES: Final = msgspec.json.Decoder(dict[str, _Retries] | None)
_RESTARTS: Final = msgspec.json.Decoder(dict[str, _Restart] | None)


class RetryRecord:
    """The record of the scheduler. A malformed key counts as empty; the scheduler reports it."""

    def __init__(self, config_map: ConfigMap) -> None:
        self.source = config_map
        data = config_map.data or {}
        self._retries = _decoded(data.get(REMAINING_RETRIES, ""), _RETRIES)
        self._restarts = _decoded(data.get(RESCHEDULING_RESTARTS, ""), _RESTARTS)

    def left(self, group: str, job_uid: str, allowed: int) -> int:
        """The restarts that a job has left, at least 1 while one is under way. ``group``: namespace/name of its
        PodGroup; ``allowed``: the number that it asked for, of which none is used until there is an entry."""
        retries = self._retries.get(group)
        left = allowed if retries is None else retries.times
        return max(left, 1) if self.is_under_way(group, job_uid) else left

    def is_under_way(self, group: str, job_uid: str) -> bool:
        """Whether the scheduler restarts a job after a fault."""
        restart = self._restarts.get(group)
        return restart is not None and restart.uid == job_uid and bool(restart.pods)


def _decoded(text: str, decoder: "msgspec.json.Decoder[dict[str, T] | None]") -> dict[str, T]:
    try:
        return (decoder.decode(text) if text else None) or {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
