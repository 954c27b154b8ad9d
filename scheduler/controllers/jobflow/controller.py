"""jobflow-controller: creates the jobs of a JobFlow, each when the jobs that it depends on have completed.

jobtemplate-controller: lists in the status of a JobTemplate the jobs that were made of it. As in Volcano, the list is
brought up to date when a job is made, not when one is deleted.
"""

from functools import partial
from typing import Final

from scheduler.api.batch import MAX_FLOW_STEPS, Job, JobFlow, JobFlowSpec, JobTemplate
from scheduler.api.kinds import JOB_FLOW, JOB_TEMPLATE, VCJOB
from scheduler.api.names import CREATED_BY_JOB_TEMPLATE
from scheduler.api.start_order import order_problem
from scheduler.controllers.controller import Controller, latest, observes
from scheduler.controllers.effects import Create, Delete, Effect, Json, Patch, Plan, RecordEvent, diff
from scheduler.controllers.jobflow.status import (
    FAILED,
    PENDING,
    SUCCEED,
    TERMINATING,
    FlowStatus,
    gone_completed,
    make_status,
    read_status,
)
from scheduler.controllers.jobflow.steps import (
    created,
    foreign_jobs,
    job_names,
    no_order,
    not_found,
    order_text,
    plan_steps,
    sync_failure,
    templates_missing,
    too_many_steps,
    unused_patches,
    unused_probes,
)
from scheduler.controllers.owners import OwnedJobs, manages
from scheduler.controllers.store import Key, Store, key_of

_DELETE: Final = "delete"
_SETTLES: Final = 2.0
"""Seconds for which a new JobFlow without a running job has no status, so that its creator can update it at once."""


class JobFlowController(Controller):
    """Creates the vcjobs of JobFlows, and writes their statuses."""

    name = "jobflow-controller"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs = OwnedJobs(JOB_FLOW)
        self._waiting: dict[Key, set[Key]] = {}
        """Missing JobTemplates -> JobFlows that have an Event about them."""
        self._first_seen: dict[Key, float] = {}
        """When a JobFlow without a status was first seen."""
        self._begun: dict[Key, set[str]] = {}
        """Jobs that were planned and have not been observed yet."""
        self._orders: dict[Key, tuple[JobFlowSpec, str]] = {}
        """The last spec of each JobFlow, and why its steps cannot be ordered, or ""."""
        self._messages: dict[Key, str] = {}
        """The messages that were written last. An API server with Volcano's resource definition does not store them."""
        self._failures: dict[Key, RecordEvent] = {}
        """Events about last writes that failed."""

    # --- observing ----------------------------------------------------------------------------------------------------
    @observes(VCJOB)
    def _observe_job(self, old: Job | None, new: Job | None, now: float) -> list[Key]:
        return self._jobs.observe(old, new)

    @observes(JOB_TEMPLATE)
    def _observe_template(self, old: JobTemplate | None, new: JobTemplate | None, now: float) -> list[Key]:
        return [] if new is None else list(self._waiting.pop(key_of(new), ()))

    @observes(JOB_FLOW)
    def _observe_flow(self, old: JobFlow | None, new: JobFlow | None, now: float) -> list[Key]:
        key = key_of(latest(old, new))
        if new is None:
            self._forget(key)
        elif old is None or old.metadata.uid != new.metadata.uid:
            self._first_seen[key] = now
        return [key]

    def _forget(self, key: Key) -> None:
        self._first_seen.pop(key, None)
        self._begun.pop(key, None)
        self._orders.pop(key, None)
        self._messages.pop(key, None)
        self._failures.pop(key, None)
        for template in [template for template, flows in self._waiting.items() if key in flows]:
            self._waiting[template].discard(key)
            if not self._waiting[template]:
                del self._waiting[template]

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        flow = self._store.get(JOB_FLOW, *key)
        if flow is None or flow.metadata.deletion_timestamp is not None:
            return Plan()
        if len(flow.spec.flows or ()) > MAX_FLOW_STEPS:
            return Plan().then(too_many_steps(flow))
        status, jobs = read_status(flow), self._jobs.of(flow)
        plan = Plan().then(*self._events_of_last_plan(flow))
        if status.state.phase in (FAILED, TERMINATING):
            return plan
        if status.state.phase == SUCCEED and flow.spec.job_retain_policy == _DELETE:
            return plan.then(*(_delete(job) for job in jobs if job.metadata.deletion_timestamp is None))
        order, fresh = self._order(flow)
        if order:
            self._write_status(flow, status, jobs, order, now, plan)
            return plan.then(no_order(flow, order)) if fresh else plan
        return self._advance(flow, status, jobs, now, plan)

    def _order(self, flow: JobFlow) -> tuple[str, bool]:
        """Why the steps of a flow cannot be ordered ("" if they can), and whether that is a new finding."""
        key, spec = key_of(flow), flow.spec
        known = self._orders.get(key)
        if known is not None and (known[0] is spec or known[0] == spec):
            self._orders[key] = spec, known[1]  # so that the next comparison is one of two references
            return known[1], False
        problem = order_problem(spec.flows or ())
        text = "" if problem is None else order_text(problem)
        self._orders[key] = spec, text
        return text, known is None or known[1] != text

    def _advance(self, flow: JobFlow, status: FlowStatus, jobs: list[Job], now: float, plan: Plan) -> Plan:
        key = key_of(flow)
        steps = plan_steps(
            flow,
            frozenset(gone_completed(status, jobs)),
            partial(self._store.get, VCJOB, key[0]),
            partial(self._store.get, JOB_TEMPLATE, key[0]),
        )
        self._write_status(flow, status, jobs, not_found(steps.missing), now, plan)
        missing = [name for name in steps.missing if self._waits(key, name)]
        foreign = foreign_jobs(flow, steps.foreign)
        unused = [*unused_patches(flow, steps.patches), *unused_probes(flow, steps.probes)]
        plan.then(*foreign, *unused, *templates_missing(flow, missing))
        plan.then(*steps.creates.values())
        self._begun.setdefault(key, set()).update(steps.creates)
        if foreign:
            plan.problem = foreign[0].event.message
        return plan

    def _write_status(
        self, flow: JobFlow, status: FlowStatus, jobs: list[Job], message: str, now: float, plan: Plan
    ) -> None:
        """Adds the write of the status to the plan, if it is due. ``message``: the message of ``FlowState``."""
        key = key_of(flow)
        made = make_status(status, jobs, job_names(flow), now, message)
        change = diff(flow.status, made)
        written = made["state"].get("message", "")
        repeated = change == {"state": {"message": written}} and self._messages.get(key) == written
        pause = self._settles_in(flow, made, now)
        if pause > 0:
            plan.after = pause
        elif change and not repeated:
            self._messages[key] = written
            plan.then(Patch(JOB_FLOW, *key, {"status": change}, flow.metadata.uid, subresource="status"))

    def _settles_in(self, flow: JobFlow, status: Json, now: float) -> float:
        """Seconds until the first status is written; 0 if it is time."""
        if flow.status or status["state"]["phase"] != PENDING:
            return 0.0
        first_seen = self._first_seen.get(key_of(flow), now)
        return max(0.0, first_seen + _SETTLES - now)

    def _waits(self, flow: Key, template: str) -> bool:
        """Notes that a JobFlow waits for a JobTemplate; returns False if that is known already."""
        flows = self._waiting.setdefault((flow[0], template), set())
        if flow in flows:
            return False
        flows.add(flow)
        return True

    def _events_of_last_plan(self, flow: JobFlow) -> list[RecordEvent]:
        """Events about the results of the last plan."""
        key = key_of(flow)
        failure = self._failures.pop(key, None)
        events = [] if failure is None else [failure]
        begun = self._begun.get(key, set())
        found = {name: job for name in sorted(begun) if (job := self._store.get(VCJOB, key[0], name)) is not None}
        begun -= found.keys()
        return [*events, *created(flow, [name for name, job in found.items() if manages(flow, job)])]

    # --- results ------------------------------------------------------------------------------------------------------
    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        flow = self._store.get(JOB_FLOW, *key)
        if flow is not None and isinstance(effect, Create | Delete):
            self._failures[key] = sync_failure(flow, error)


def _delete(job: Job) -> Delete:
    return Delete(VCJOB, *key_of(job), job.metadata.uid)


class JobTemplateController(Controller):
    """Writes the statuses of JobTemplates."""

    name = "jobtemplate-controller"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: dict[Key, set[str]] = {}
        """The names of the jobs of a JobTemplate."""

    @observes(JOB_TEMPLATE)
    def _observe_template(self, old: JobTemplate | None, new: JobTemplate | None, now: float) -> list[Key]:
        return [key_of(new)] if old is None and new is not None else []

    @observes(VCJOB)
    def _observe_job(self, old: Job | None, new: Job | None, now: float) -> list[Key]:
        before, after = _template(old), _template(new)
        if before == after and old is not None:
            return []
        if before is not None and old is not None:
            jobs = self._jobs.get(before, set())
            jobs.discard(old.metadata.name)
            if not jobs:
                self._jobs.pop(before, None)
        if after is None or new is None:
            return []
        self._jobs.setdefault(after, set()).add(new.metadata.name)
        return [after]

    def plan(self, key: Key, now: float) -> Plan:
        template = self._store.get(JOB_TEMPLATE, *key)
        jobs = sorted(self._jobs.get(key, ()))
        if template is None or not jobs or template.status.get("jobDependsOnList") == jobs:
            return Plan()
        body = {"status": {"jobDependsOnList": jobs}}
        return Plan().then(Patch(JOB_TEMPLATE, *key, body, template.metadata.uid, subresource="status"))


def _template(job: Job | None) -> Key | None:
    """Namespace and name of the JobTemplate that a job was made of, or None. If the name is too long for a label, only
    the annotation has it."""
    if job is None:
        return None
    labels, annotations = job.metadata.labels or {}, job.metadata.annotations or {}
    text = labels.get(CREATED_BY_JOB_TEMPLATE) or annotations.get(CREATED_BY_JOB_TEMPLATE) or ""
    namespace, _, name = text.partition(".")
    return (namespace, name) if name and namespace == job.metadata.namespace else None
