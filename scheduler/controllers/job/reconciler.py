"""Reconciles one job in four steps: observe the job and its Pods, choose the action to carry out, decide what becomes
of the job and its Pods, and plan the writes.

The status is written first, after only what follows from the spec alone. Deletions and creations then follow from the
status, so the next reconciliation completes one that was interrupted anywhere.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from scheduler.api import batch
from scheduler.api.batch import IDLE_PHASES, Action, JobPhase
from scheduler.api.card_alternatives import job_alternatives, with_alternative
from scheduler.api.kinds import POD, POD_GROUP, VCJOB
from scheduler.api.messages import scheduler_problems
from scheduler.api.names import (
    EVENT_COMMAND_ISSUED,
    EVENT_EXECUTE_ACTION,
    EVENT_MALFORMED,
    EVENT_NORMAL,
    EVENT_POD_GROUP_PENDING,
    EVENT_WARNING,
    OUT_OF_SYNC,
    REASON_QUEUE_NOT_FOUND,
)
from scheduler.api.reasons import Malformed, first_fields
from scheduler.api.times import seconds_of
from scheduler.controllers.commands import Commands, delete
from scheduler.controllers.effects import Delete, Effect, Json, Patch, Plan, RecordEvent, event, normal
from scheduler.controllers.job.alternatives import choose
from scheduler.controllers.job.decision import JobDecision, decide
from scheduler.controllers.job.events import losses
from scheduler.controllers.job.gang_alternatives import group_annotations
from scheduler.controllers.job.missing import (
    PLUGIN_KEY,
    MissingObjects,
    Obstacle,
    RunningJob,
    find_missing,
    listed_resources,
    no_queue,
    plugin_deletions,
    plugin_obstacle,
)
from scheduler.controllers.job.observation import group_in, observe, why_pending
from scheduler.controllers.job.parsed_spec import Problem
from scheduler.controllers.job.plugins.contract import JobPlugin, JobPluginError
from scheduler.controllers.job.podgroup import group_spec, min_resources, why_waiting
from scheduler.controllers.job.pods import Member
from scheduler.controllers.job.state import PendingAction, ReconcileState
from scheduler.controllers.job.status import due_in, explained, message_due_in, patch
from scheduler.controllers.store import Store, key_of

MakePlugins = Callable[[batch.Job], Mapping[str, JobPlugin]]
RETRY_LIMIT: Final = 15
"""Failed reconciliations in a row after which the job is terminated."""
_SETTLES: Final = 2.0
"""Seconds in which the queue of a new job may still arrive, because both were applied together."""
_MARK: Final[Json] = {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}


class JobReconciler:
    """Reconciles one job; call ``plan`` once."""

    def __init__(
        self,
        store: Store,
        make_plugins: MakePlugins,
        state: ReconcileState,
        job: batch.Job,
        now: float,
        schedulers: Sequence[str],
    ) -> None:
        """``schedulers``: the names of the schedulers, as for JobController."""
        self._store = store
        self._make_plugins = make_plugins
        self._state = state
        self._schedulers = schedulers
        self._written = job
        self._alternatives = job_alternatives(job.spec)
        choice = None
        if self._alternatives is not None and self._alternatives.names:
            pods = store.pods_of(job.metadata.namespace, job.metadata.uid).values()
            choice = choose(self._alternatives, group_in(store, job), pods, job.status.version)
            job = with_alternative(job, self._alternatives, choice.name)
        self._job = job
        self._seen = observe(store, job, state.spec_of(job), now, choice)
        self._plan = Plan()
        self.obstacles: list[Obstacle] = []
        """The obstacles found."""

    def plan(self, commands: Commands) -> Plan:
        """The plan of this reconciliation. ``commands``: holds the Commands that wait for the job."""
        parsed_spec = self._seen.parsed_spec
        if parsed_spec.refusal:
            self._warn_of_fields(("spec.tasks", parsed_spec.refusal))
            self._plan.problem = parsed_spec.refusal
        else:
            if self._state.group_spec is None:
                self._state.group_spec = self._derive_group_spec()
            if self._seen.phase is None and parsed_spec.start.refusal:  # a later version of the spec may do without
                self._plan.problem = parsed_spec.start.refusal
            else:
                self._reconcile(commands)
        recorded, self._state.pending_events = self._state.pending_events, []
        if recorded:
            self._plan.stages.insert(0, [RecordEvent(each) for each in recorded])
        return self._plan

    def _derive_group_spec(self) -> Json:
        """Returns the spec of the PodGroup for a new version of the job's spec, and records Warnings about fields of
        the job that are ignored or prevent tasks from starting."""
        job, parsed_spec = self._job, self._seen.parsed_spec
        resources, bad = min_resources(job, parsed_spec, self._store)
        bad += self._derive_group_annotations()
        self._warn_of_fields(*parsed_spec.malformed, *bad)
        tasks = enumerate(parsed_spec.tasks.values())
        pod_specs = ((f"spec.tasks[{i}].template.spec", task.template_spec()) for i, task in tasks)
        for field, problem in scheduler_problems(job.spec.scheduler_name, pod_specs, self._schedulers):
            self._warn(field, EVENT_MALFORMED, f"{field}: {problem}")
        start = parsed_spec.start
        problem = "; ".join(filter(None, (start.refusal, *start.warnings)))
        self._warn("start", EVENT_MALFORMED, problem and f"spec.tasks: {problem}")
        return group_spec(job, parsed_spec, resources)

    def _derive_group_annotations(self) -> list[Problem]:
        """Derives the annotations of the PodGroup about alternatives. Returns the problems of alternatives."""
        alternatives, choice = self._alternatives, self._seen.choice
        self._state.group_annotations = {}
        if alternatives is None or choice is None:
            return [] if alternatives is None else list(alternatives.problems)
        annotations, bad = group_annotations(self._written, alternatives, choice.name, self._store)
        self._state.group_annotations = annotations
        return bad

    def _reconcile(self, commands: Commands) -> None:
        state, seen, plan = self._state, self._seen, self._plan
        if not state.compared:
            state.compared = True
            if seen.phase not in IDLE_PHASES:
                state.requests += losses(seen)
        command = commands.next(key_of(self._job))
        obstacle = no_queue(self._store, seen.parsed_spec)
        if seen.phase is None and command is None and obstacle is not None:
            self._report_obstacles([obstacle])
            return
        pending, remarks = self._next_action(command, commands)
        state.current = pending
        state.action = pending.action if pending is not None else Action.SYNC_JOB
        decision = decide(seen, pending)
        plan.then(*_mark(each for each in decision.marked if each.name != decision.cause))
        plan.then(*_mark(each for each in decision.marked if each.name == decision.cause))
        if decision.creates_nothing:
            self._stop(decision, pending, remarks)
        else:
            self._run(decision, pending, remarks)
        due = state.delays.next_due()
        if due is not None:
            self._requeue_after(due - seen.now)
        # An action may change no object; then nothing else triggers the next reconciliation.
        if state.pending_actions or remarks:
            self._requeue_after(0.0)

    # --- planning -----------------------------------------------------------------------------------------------------
    def _next_action(
        self, command: batch.Command | None, commands: Commands
    ) -> tuple[PendingAction | None, list[Effect]]:
        """The action to carry out, and the effects that finish its Command once the status is written."""
        state, job = self._state, self._job
        for text in state.take_requests(self._seen):
            self._record(EVENT_EXECUTE_ACTION, text)
        if command is not None:
            action, remark = commands.action_of(command, job)
            remarks: list[Effect] = [delete(command)]
            if action is None:
                return None, remarks if remark is None else [*remarks, remark]
            text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
            return PendingAction(action), [*remarks, normal(VCJOB, job, EVENT_COMMAND_ISSUED, text)]
        if state.failures >= RETRY_LIMIT and self._seen.phase not in IDLE_PHASES:
            self._record(EVENT_EXECUTE_ACTION, f"Job failed on action {state.action} for retry limit reached")
            state.failures = 0
            state.add(PendingAction(Action.TERMINATE_JOB))
        return state.next_action(), []

    def _stop(self, decision: JobDecision, pending: PendingAction | None, remarks: list[Effect]) -> None:
        """Deletes the Pods of a job that has ended or restarts as a whole."""
        group = self._seen.group
        resources = listed_resources(self._seen, decision.status)
        if decision.was_over:
            resources = self._delete_plugin_objects(resources)
        self._write(decision.status, pending, remarks, MissingObjects(resources=resources))
        if decision.deletes_group and group is not None and group.metadata.deletion_timestamp is None:
            self._plan.then(Delete(POD_GROUP, *key_of(group), group.metadata.uid))
        self._plan.then(*_delete(decision.to_delete))

    def _run(self, decision: JobDecision, pending: PendingAction | None, remarks: list[Effect]) -> None:
        """Creates what a running job lacks, and deletes surplus Pods."""
        state, seen, plan, status = self._state, self._seen, self._plan, decision.status
        if state.failures and not self._job.status.state.phase:
            # The objects that the job needs could not be created: its status still has to say that it is pending.
            plan.then(patch(self._job, status))
        surplus = [member for member in decision.to_delete if not member.wanted]
        missing = self._find_missing(status, bool(surplus))
        why = why_pending(seen.group)
        order = why_waiting(seen.parsed_spec, seen.members) if seen.admitted else ""
        status = self._explain(status, "; ".join(filter(None, (why, order))), missing.obstacles)
        # The list of hosts is updated first: a user who has scaled the job may read it at once.
        plan.then(*missing.objects, *missing.refresh)
        self._write(status, pending, remarks, missing, at_once=bool(surplus))
        # Without the mark they would count as evicted if the job is scaled up again before they are gone.
        plan.then(*_mark(member for member in surplus if not member.out_of_sync))
        plan.then(*missing.pods, *_delete(decision.to_delete))
        if missing.objects or missing.refresh:
            state.refreshed = True
        self._report_obstacles(missing.obstacles)
        meta = self._job.metadata
        text = f"PodGroup {meta.namespace}:{meta.name} unschedulable, reason: {why}" if why else ""
        self._warn("PodGroup", EVENT_POD_GROUP_PENDING, text)

    def _explain(self, status: batch.JobStatus, why: str, obstacles: list[Obstacle]) -> batch.JobStatus:
        """The status with what the job waits for: objects that cannot be created, or what its PodGroup waits for. A
        running job waits for nothing, even if its PodGroup lacks Pods."""
        waits = "" if status.state.phase == JobPhase.RUNNING else why
        message = "; ".join(obstacle.message for obstacle in obstacles if obstacle.reason) or waits
        pause = message_due_in(status.state.message, message, self._state, self._seen.now)
        if pause:
            self._requeue_after(pause)
            return status
        return explained(status, message)

    def _find_missing(self, status: batch.JobStatus, surplus: bool) -> MissingObjects:
        state = self._state
        try:
            plugins = self._plugins()
        except JobPluginError as error:
            return MissingObjects(resources=dict(status.controlled_resources or {}), obstacles=[plugin_obstacle(error)])
        running = RunningJob(
            self._seen, self._store, plugins, status, state.group_spec or {}, state.group_annotations, state.refreshed
        )
        return find_missing(running, surplus)

    def _plugins(self) -> Mapping[str, JobPlugin]:
        """The plugins of the job, created once per version of its spec. Raises JobPluginError."""
        if self._state.plugins is None:
            self._state.plugins = self._make_plugins(self._job)
        return self._state.plugins

    def _delete_plugin_objects(self, resources: dict[str, str]) -> dict[str, str]:
        """Deletes the plugins' objects of a finished job. Returns the resources that stay (claims)."""
        rest = {key: name for key, name in resources.items() if not key.startswith(PLUGIN_KEY)}
        if rest != resources:
            with suppress(JobPluginError):  # then the plugins never created any object
                self._plan.then(*plugin_deletions(self._job, self._plugins()))
        return rest

    # --- writing ------------------------------------------------------------------------------------------------------
    def _write(
        self,
        status: batch.JobStatus,
        pending: PendingAction | None,
        remarks: list[Effect],
        missing: MissingObjects,
        *,
        at_once: bool = False,
    ) -> None:
        """Plans the write of the status, if it is due, and then the Event of the action. ``at_once``: counts do not
        wait either, because Pods in them are about to be deleted."""
        old = self._job.status
        # As in Volcano, the status lists created objects from the second write on, and they do not cause a write.
        if old.state.phase and (status != old or len(missing.resources) < len(old.controlled_resources or ())):
            status = replace(status, controlled_resources=missing.resources or None)
        effects = list(missing.group)
        pause = due_in(old, status, self._state, self._seen.now, at_once=at_once)
        if pause == 0:
            effects.append(patch(self._job, status))
        elif pause is not None:
            self._requeue_after(pause)
        self._plan.then(*effects).then(*remarks)
        if pending is not None:
            self._state.delays.carried_out(pending)
            text = f"Start to execute action {pending.action} "
            self._plan.then(normal(VCJOB, self._job, EVENT_EXECUTE_ACTION, text))

    def _requeue_after(self, seconds: float) -> None:
        self._plan.after = seconds if self._plan.after is None else min(seconds, self._plan.after)

    # --- Events -------------------------------------------------------------------------------------------------------
    def _record(self, reason: str, message: str) -> None:
        """Records a Normal Event with the plan."""
        self._state.pending_events.append(event(VCJOB, self._job, EVENT_NORMAL, reason, message))

    def _warn(self, topic: str, reason: str, message: str) -> None:
        """Records a Warning when a condition begins and when its message changes; "" when the condition has ended."""
        if not message:
            self._state.reported.pop(topic, None)
        elif self._state.reported.get(topic) != message:
            self._state.reported[topic] = message
            self._state.pending_events.append(event(VCJOB, self._job, EVENT_WARNING, reason, message))

    def _warn_of_fields(self, *problems: Problem) -> None:
        """Records Warnings that fields of the job are ignored."""
        meta = self._job.metadata
        found = (Malformed(VCJOB.name, meta.namespace, meta.name, field, problem) for field, problem in problems)
        for each in first_fields(found):
            self._warn(each.field, each.reason, each.message)

    def _report_obstacles(self, obstacles: list[Obstacle]) -> None:
        age = self._seen.now - seconds_of(self._job.metadata.creation_timestamp)
        for obstacle in obstacles:
            self._plan.problem = obstacle.message
            if obstacle.reason and (obstacle.reason != REASON_QUEUE_NOT_FOUND or age >= _SETTLES):
                self._warn(f"{obstacle.reason} {obstacle.waits_for}", obstacle.reason, obstacle.message)
        self.obstacles += obstacles


def _mark(members: Iterable[Member]) -> list[Effect]:
    """Marks Pods as out of sync."""
    return [
        Patch(POD, member.pod.metadata.namespace, member.name, _MARK, member.pod.metadata.uid) for member in members
    ]


def _delete(members: Iterable[Member]) -> list[Effect]:
    return [Delete(POD, member.pod.metadata.namespace, member.name, member.pod.metadata.uid) for member in members]
