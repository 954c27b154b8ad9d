"""cronjob-controller: creates a vcjob whenever a schedule is due, and keeps a few finished ones."""

from functools import partial

from scheduler.api.batch import CronJob, Job
from scheduler.api.kinds import CRON_JOB, VCJOB
from scheduler.api.names import (
    EVENT_FAILED_CREATE,
    EVENT_FAILED_DELETE,
    EVENT_NAMESPACE_TERMINATING,
    EVENT_SUCCESSFUL_CREATE,
    EVENT_SUCCESSFUL_DELETE,
)
from scheduler.api.objects import controller_of
from scheduler.controllers.controller import Controller, latest, observes
from scheduler.controllers.cronjob.start import decide_start
from scheduler.controllers.cronjob.summary import is_finished, summarize_jobs
from scheduler.controllers.effects import Create, Delete, Effect, Patch, Plan, RecordEvent, normal, warning
from scheduler.controllers.owners import OwnedJobs
from scheduler.controllers.store import Key, Store, key_of

_TERMINATING = "because it is being terminated"
"""The words of the API server about a namespace that terminates."""


class CronJobController(Controller):
    """Creates and deletes the vcjobs of CronJobs, and writes their statuses."""

    name = "cronjob-controller"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs = OwnedJobs(CRON_JOB)
        self._changed: dict[Key, float] = {}
        """When a schedule changed: starts that it missed before are not made up for."""
        self._failures: dict[Key, RecordEvent] = {}
        """Events about last writes that failed."""

    @observes(VCJOB)
    def _observe_job(self, old: Job | None, new: Job | None, now: float) -> list[Key]:
        owners = self._jobs.observe(old, new)
        return owners if _concern(old) != _concern(new) else []

    @observes(CRON_JOB)
    def _observe_cron(self, old: CronJob | None, new: CronJob | None, now: float) -> list[Key]:
        key = key_of(latest(old, new))
        if old is None or new is None or old.metadata.uid != new.metadata.uid:
            self._changed.pop(key, None)
        elif (old.spec.schedule, old.spec.time_zone) != (new.spec.schedule, new.spec.time_zone):
            self._changed[key] = now
        return [key]

    def plan(self, key: Key, now: float) -> Plan:
        failure = self._failures.pop(key, None)
        cron = self._store.get(CRON_JOB, *key)
        if cron is None or cron.metadata.deletion_timestamp is not None:
            return Plan()
        find = partial(self._store.get, VCJOB, key[0])
        summary = summarize_jobs(cron, self._jobs.of(cron), find, now)
        start = decide_start(cron, summary, find, self._changed.get(key), now)
        summary.active = [reference for reference in summary.active if reference not in start.replaced]
        plan = Plan(after=None if start.next is None else max(0.0, start.next - now))
        plan.then(*([failure] if failure else []), *summary.events, *start.events)
        plan.then(*(Delete(VCJOB, key[0], job.name, job.uid) for job in start.replaced))
        status = summary.status_patch(cron)
        if status:
            plan.then(Patch(CRON_JOB, *key, {"status": status}, cron.metadata.uid, subresource="status"))
        plan.then(*(_deleted(cron, job.name) for job in start.replaced))
        if start.manifest is not None:
            name = start.manifest["metadata"]["name"]
            message = f"Created job {name} for CronJob {key[0]}/{key[1]}"
            plan.then(Create(VCJOB, start.manifest))
            plan.then(normal(CRON_JOB, cron, EVENT_SUCCESSFUL_CREATE, message))
        plan.then(*(Delete(VCJOB, key[0], job.metadata.name, job.metadata.uid) for job in summary.history))
        return plan.then(*(_deleted(cron, job.metadata.name) for job in summary.history))

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        cron = self._store.get(CRON_JOB, *key)
        if cron is None:
            return
        if isinstance(effect, Create) and _TERMINATING in error:
            message = f"Namespace {key[0]} is terminating, skipping job creation"
            self._failures[key] = warning(CRON_JOB, cron, EVENT_NAMESPACE_TERMINATING, message)
        elif isinstance(effect, Create):
            self._failures[key] = warning(CRON_JOB, cron, EVENT_FAILED_CREATE, f"Failed to create job: {error}")
        elif isinstance(effect, Delete):
            message = f'Error deleting job "{effect.name}": {error}'
            self._failures[key] = warning(CRON_JOB, cron, EVENT_FAILED_DELETE, message)


def _deleted(cron: CronJob, name: str) -> RecordEvent:
    return normal(CRON_JOB, cron, EVENT_SUCCESSFUL_DELETE, f'Deleted job "{name}"')


def _concern(job: Job | None) -> tuple[str, str, bool, str | None] | None:
    """The parts of a job that its CronJob depends on, which exclude the state of its Pods."""
    if job is None:
        return None
    owner = controller_of(job)
    finished = is_finished(job)
    return (
        "" if owner is None else owner.uid,
        job.status.state.phase if finished else "",
        job.metadata.deletion_timestamp is not None,
        job.status.state.last_transition_time if finished else None,
    )
