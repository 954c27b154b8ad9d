"""Reconciles one job: decides its new status, and plans the writes that make it true.

The status is written first, after only what follows from the spec alone. Deletions and creations then follow from the
status, so the next reconciliation completes one that was interrupted anywhere.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from scheduler.api import batch
from scheduler.api.batch import FINISHED_PHASES, Action, Command, JobPhase
from scheduler.api.names import (
    EVENT_COMMAND_ISSUED,
    EVENT_EXECUTE_ACTION,
    EVENT_MALFORMED,
    EVENT_POD_GROUP_PENDING,
    REASON_QUEUE_NOT_FOUND,
)
from scheduler.api.times import seconds_of
from scheduler.controllers.commands import Commands, delete
from scheduler.controllers.effects import Effect, Plan
from scheduler.controllers.job import kill
from scheduler.controllers.job.dependencies import gang_now, why_waiting
from scheduler.controllers.job.event_recorder import ReconcileEvents
from scheduler.controllers.job.events import why_pending
from scheduler.controllers.job.losses import losses
from scheduler.controllers.job.pending_actions import next_pending_action, take_requests
from scheduler.controllers.job.phases import IDLE_PHASES, OVER_PHASES, PhaseInputs, StatusStep, next_phase, step_for
from scheduler.controllers.job.plugins.contract import JobPlugin, JobPluginError
from scheduler.controllers.job.podgroup import admitted, find_group, group_spec, min_resources
from scheduler.controllers.job.pods import SUCCEEDED, Member, count_pods, members_of
from scheduler.controllers.job.state import PendingAction, ReconcileState
from scheduler.controllers.job.status import counted, due_in, entered, explained, message_due_in, patch, phase_of
from scheduler.controllers.job.sync import (
    PLUGIN_KEY,
    Context,
    MissingObjects,
    Obstacle,
    find_missing,
    made,
    no_queue,
    plugin_deletions,
    plugin_obstacle,
)
from scheduler.controllers.job.volumes import volumes_of
from scheduler.controllers.scheduler_names import scheduler_problems
from scheduler.controllers.store import Store

MakePlugins = Callable[[batch.Job], Mapping[str, JobPlugin]]
RETRY_LIMIT: Final = 15
"""Failed reconciliations in a row after which the job is terminated."""
_SETTLES: Final = 2.0
"""Seconds in which the queue of a new job may still arrive, because both were applied together."""


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
        """``schedulers``: as for JobController."""
        self._store = store
        self._make_plugins = make_plugins
        self._state = state
        self._job = job
        self._now = now
        self._schedulers = schedulers
        self._recorder = ReconcileEvents(job, state)
        self._group = find_group(store, job)
        self._parsed_spec, fresh = state.refresh_spec(job)
        pods = store.pods_of(job.metadata.namespace, job.metadata.uid)
        self._members = members_of(self._parsed_spec, pods.values(), job.status.version)
        self._plan = Plan()
        self.obstacles: list[Obstacle] = []
        """The obstacles found."""
        if fresh and not self._parsed_spec.refusal:
            self._apply_new_spec()

    def plan(self, commands: Commands) -> Plan:
        """``commands``: the Commands that wait for the job are taken from here."""
        self._reconcile(commands)
        return self._recorder.add_to(self._plan)

    def _apply_new_spec(self) -> None:
        """Derives what depends on the spec alone from its new version, and reports malformed fields."""
        resources, bad = min_resources(self._job, self._parsed_spec, self._store)
        self._state.group_spec = group_spec(self._job, self._parsed_spec, resources)
        self._recorder.malformed(*self._parsed_spec.malformed, *volumes_of(self._job)[1], *bad)
        tasks = enumerate(self._parsed_spec.tasks.values())
        pod_specs = ((f"spec.tasks[{i}].template.spec", task.template_spec()) for i, task in tasks)
        for field, problem in scheduler_problems(self._job.spec.scheduler_name, pod_specs, self._schedulers):
            self._recorder.warn(field, EVENT_MALFORMED, f"{field}: {problem}")
        start = self._parsed_spec.start
        problem = "; ".join(filter(None, (start.refusal, *start.warnings)))
        self._recorder.warn("start", EVENT_MALFORMED, problem and f"spec.tasks: {problem}")

    def _reconcile(self, commands: Commands) -> None:
        parsed_spec, state, plan = self._parsed_spec, self._state, self._plan
        if parsed_spec.refusal:
            self._recorder.malformed(("spec.tasks", parsed_spec.refusal))
            plan.problem = parsed_spec.refusal
            return
        before = phase_of(self._job)
        if before is None and parsed_spec.start.refusal:  # a later version of the spec may do without
            plan.problem = parsed_spec.start.refusal
            return
        if not state.compared:
            state.compared = True
            if before not in IDLE_PHASES:
                state.requests += losses(self._job, parsed_spec, self._members, self._now)
        command = commands.next((self._job.metadata.namespace, self._job.metadata.name))
        obstacle = no_queue(self._store, parsed_spec)
        if before is None and command is None and obstacle is not None:
            self._report_obstacles([obstacle])
            return
        pending, remarks = self._next_pending_action(before, command, commands)
        state.current = pending
        state.action = pending.action if pending is not None else Action.SYNC_JOB
        status, phase, marked = self._decide(before, pending)
        pods_to_delete = kill.pods_to_delete(self._members.values(), status, phase, parsed_spec.max_retries)
        to_delete = {member.name: member for member in (*pods_to_delete, *marked)}
        counts = count_pods(self._members.values(), to_delete, idle=phase in IDLE_PHASES)
        # Until Pods may be created, the status keeps the minAvailable that existing Pods were created for.
        follows = before is None or (phase not in IDLE_PHASES and admitted(self._group))
        status = counted(status, counts, self._job.spec.min_available if follows else status.min_available)
        if phase in IDLE_PHASES or (phase is JobPhase.RESTARTING and not kill.restarts_a_part(status)):
            resources = dict(status.controlled_resources or {}) or made(self._job, self._group)
            if before is phase and phase in OVER_PHASES:
                resources = self._delete_plugin_objects(resources)
            self._write(status, pending, remarks, MissingObjects(resources=resources))
            if phase in IDLE_PHASES or kill.restarts_all(status):
                plan.then(*kill.delete_group(self._group))
            plan.then(*kill.delete_pods(to_delete.values()))
        else:
            self._run(status, pending, remarks, list(to_delete.values()))
        due = state.delays.next_due()
        if due is not None:
            self._requeue_after(due - self._now)
        # An action may change no object; then nothing else triggers the next reconciliation.
        if state.pending_actions or remarks:
            self._requeue_after(0.0)

    # --- planning -----------------------------------------------------------------------------------------------------
    def _next_pending_action(
        self, before: JobPhase | None, command: Command | None, commands: Commands
    ) -> tuple[PendingAction | None, list[Effect]]:
        """The action to carry out, and the effects that finish its Command once the status is written."""
        state, job, recorder = self._state, self._job, self._recorder
        uid = "" if self._group is None else self._group.metadata.uid
        for text in take_requests(state, job, self._parsed_spec, self._members, uid, self._now):
            recorder.record(EVENT_EXECUTE_ACTION, text)
        if command is not None:
            action, remark = commands.action_of(command, job)
            remarks: list[Effect] = [delete(command)]
            if action is None:
                return None, remarks if remark is None else [*remarks, remark]
            text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
            return PendingAction(action), [*remarks, recorder.effect(EVENT_COMMAND_ISSUED, text)]
        if state.failures >= RETRY_LIMIT and before not in IDLE_PHASES:
            text = f"Job failed on action {state.action} for retry limit reached"
            recorder.record(EVENT_EXECUTE_ACTION, text)
            state.failures = 0
            state.add(PendingAction(Action.TERMINATE_JOB))
        return next_pending_action(state), []

    def _decide(
        self, phase: JobPhase | None, pending: PendingAction | None
    ) -> tuple[batch.JobStatus, JobPhase, list[Member]]:
        """The status without its counts, its phase, and the Pods that the plan marks as out of sync."""
        status = self._job.status
        if phase is None and pending is None:
            return entered(status, self._job, JobPhase.PENDING, self._now), JobPhase.PENDING, []
        before = phase or JobPhase.PENDING
        to_delete = kill.pods_to_delete(self._members.values(), status, before, self._parsed_spec.max_retries)
        action = Action.SYNC_JOB if pending is None or pending.has_no_target else pending.action
        step = step_for(before, action)
        if step is None and before in (JobPhase.PENDING, JobPhase.RUNNING) and kill.interrupted(to_delete):
            action = Action.RESTART_POD
            step = step_for(before, action)
        if step is None or (action is Action.RESTART_JOB and kill.restarts_all(status)):
            after = next_phase(before, self._phase_inputs(before, to_delete))
            ends = after in FINISHED_PHASES and before in (JobPhase.RUNNING, JobPhase.RESTARTING)
            step, action = StatusStep(after, kill_all=ends), Action.SYNC_JOB
        marked = self._mark(pending) if step.kill_target and pending is not None else []
        return self._stepped(step, action, pending), step.phase, marked

    def _stepped(self, step: StatusStep, action: Action, pending: PendingAction | None) -> batch.JobStatus:
        """The status after a step."""
        old = self._job.status
        uncounted = step.retry and pending is not None and pending.is_no_failure
        status = msgspec.structs.replace(
            old,
            version=old.version + step.kill_all,
            retry_count=old.retry_count + step.retry,
            uncounted_restarts=old.uncounted_restarts + uncounted,
        )
        reason = action if step.phase is JobPhase.RESTARTING else ""
        if old.state.phase != step.phase:
            return entered(status, self._job, step.phase, self._now, reason)
        if step.kill_all and old.state.reason != reason:  # the whole job is restarted instead of a part
            return msgspec.structs.replace(status, state=msgspec.structs.replace(old.state, reason=reason))
        return status

    def _mark(self, pending: PendingAction) -> list[Member]:
        """Marks the Pods to restart. The Pod that caused the restart is marked last: after a crash, it shows that the
        restart is not complete."""
        if pending.request is None:
            return []
        chosen = kill.targets(pending.action, pending.request, self._members.values())
        cause = [member for member in chosen if member.name == pending.request.pod]
        self._plan.then(*kill.mark(member for member in chosen if member not in cause)).then(*kill.mark(cause))
        return chosen

    def _phase_inputs(self, phase: JobPhase, to_delete: list[Member]) -> PhaseInputs:
        job, parsed_spec = self._job, self._parsed_spec
        counts = count_pods(self._members.values(), {member.name for member in to_delete}, idle=phase in IDLE_PHASES)
        return PhaseInputs(
            replicas=parsed_spec.replicas,
            min_available=job.spec.min_available,
            min_success=job.spec.min_success,
            minimums=parsed_spec.minimums,
            minimum=parsed_spec.minimum,
            retries=job.status.retries,
            max_retries=parsed_spec.max_retries,
            pending=counts.pending,
            running=counts.running,
            succeeded=counts.succeeded,
            failed=counts.failed,
            terminating=counts.terminating,
            to_delete=len(to_delete),
            succeeded_of={task: phases.get(SUCCEEDED, 0) for task, phases in counts.tasks.items()},
        )

    def _run(
        self, status: batch.JobStatus, pending: PendingAction | None, remarks: list[Effect], to_delete: list[Member]
    ) -> None:
        """Creates what a running job lacks, and deletes surplus Pods."""
        state, plan = self._state, self._plan
        if state.failures and not self._job.status.state.phase:
            # The objects that the job needs could not be created: its status still has to say that it is pending.
            plan.then(patch(self._job, status))
        surplus = [member for member in to_delete if not member.wanted]
        missing = self._find_missing(status, bool(surplus))
        why = "" if self._group is None else why_pending(self._group)
        order = why_waiting(self._parsed_spec, self._members) if admitted(self._group) else ""
        status = self._explain(status, "; ".join(filter(None, (why, order))), missing.obstacles)
        # The list of hosts is updated first: a user who has scaled the job may read it at once.
        plan.then(*missing.objects, *missing.refresh)
        self._write(status, pending, remarks, missing, at_once=bool(surplus))
        # Without the mark they would count as evicted if the job is scaled up again before they are gone.
        plan.then(*kill.mark(member for member in surplus if not member.out_of_sync)).then(
            *missing.pods, *kill.delete_pods(to_delete)
        )
        if missing.objects or missing.refresh:
            state.refreshed = True
        self._report_obstacles(missing.obstacles)
        meta = self._job.metadata
        text = f"PodGroup {meta.namespace}:{meta.name} unschedulable, reason: {why}" if why else ""
        self._recorder.warn("PodGroup", EVENT_POD_GROUP_PENDING, text)

    def _explain(self, status: batch.JobStatus, why: str, obstacles: list[Obstacle]) -> batch.JobStatus:
        """The status with what the job waits for: objects that cannot be created, or what its PodGroup waits for. A
        running job waits for nothing, even if its PodGroup lacks Pods."""
        waits = "" if status.state.phase == JobPhase.RUNNING else why
        message = "; ".join(obstacle.message for obstacle in obstacles if obstacle.reason) or waits
        pause = message_due_in(status.state.message, message, self._state, self._now)
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
        context = Context(
            store=self._store,
            job=self._job,
            parsed_spec=self._parsed_spec,
            plugins=plugins,
            status=status,
            members=self._members,
            group=self._group,
            gang=gang_now(self._job, self._parsed_spec, state.group_spec, self._members),
            refreshed=state.refreshed,
        )
        return find_missing(context, surplus)

    def _plugins(self) -> Mapping[str, JobPlugin]:
        """Raises PluginError."""
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
        state, old = self._state, self._job.status
        # As in Volcano, the status lists created objects from the second write on, and they do not cause a write.
        if old.state.phase and (status != old or len(missing.resources) < len(old.controlled_resources or ())):
            status = msgspec.structs.replace(status, controlled_resources=missing.resources or None)
        effects = list(missing.group)
        pause = due_in(old, status, state, self._now, at_once=at_once)
        if pause == 0:
            effects.append(patch(self._job, status))
        elif pause is not None:
            self._requeue_after(pause)
        self._plan.then(*effects).then(*remarks)
        if pending is not None:
            state.delays.carried_out(pending.action, pending.request)
            text = f"Start to execute action {pending.action} "
            self._plan.then(self._recorder.effect(EVENT_EXECUTE_ACTION, text))

    def _requeue_after(self, seconds: float) -> None:
        self._plan.after = seconds if self._plan.after is None else min(seconds, self._plan.after)

    def _report_obstacles(self, obstacles: list[Obstacle]) -> None:
        for obstacle in obstacles:
            self._plan.problem = obstacle.message
            if obstacle.reason and (obstacle.reason != REASON_QUEUE_NOT_FOUND or self._age() >= _SETTLES):
                self._recorder.warn(f"{obstacle.reason} {obstacle.waits_for}", obstacle.reason, obstacle.message)
        self.obstacles += obstacles

    def _age(self) -> float:
        """Seconds since the job was created."""
        return self._now - seconds_of(self._job.metadata.creation_timestamp)
