"""gc-controller: a finished vcjob is deleted, with all it owns, when its ``ttlSecondsAfterFinished`` is over."""

from typing import Final

from scheduler.api.batch import FINISHED_PHASES, Job
from scheduler.api.kinds import VCJOB
from scheduler.api.times import parse_timestamp
from scheduler.controllers.controller import Controller, observes
from scheduler.controllers.effects import Delete, Plan, malformed
from scheduler.controllers.store import Key, Store, key_of

_MAX_INTERVAL: Final = 30 * 86400.0
"""Seconds after which a job is checked again at the latest."""


class GarbageController(Controller):
    """Deletes vcjobs that finished some time ago."""

    name = "gc-controller"

    def __init__(self, store: Store) -> None:
        self._store = store

    @observes(VCJOB)
    def _observe_job(self, old: Job | None, new: Job | None, now: float) -> list[Key]:
        if new is None or not _expires(new):
            return []
        if old is not None and _expires(old) and _lifetime(old) == _lifetime(new):
            return []
        return [key_of(new)]

    def plan(self, key: Key, now: float) -> Plan:
        job = self._store.get(VCJOB, *key)
        if job is None or not _expires(job):
            return Plan()
        finished = parse_timestamp(job.status.state.last_transition_time)
        if finished is None:
            problem = f"{job.status.state.last_transition_time!r:.66} does not say when the job finished, so it is kept"
            return Plan().then(malformed(VCJOB, job, "status.state.lastTransitionTime", problem))
        left = finished + (job.spec.ttl_seconds_after_finished or 0) - now
        if left > 0:
            return Plan(after=min(left, _MAX_INTERVAL))
        return Plan().then(Delete(VCJOB, *key, job.metadata.uid, foreground=True))


def _expires(job: Job) -> bool:
    finished = job.status.state.phase in FINISHED_PHASES
    return finished and job.spec.ttl_seconds_after_finished is not None and job.metadata.deletion_timestamp is None


def _lifetime(job: Job) -> tuple[str, str | None, int | None]:
    return job.metadata.uid, job.status.state.last_transition_time, job.spec.ttl_seconds_after_finished
