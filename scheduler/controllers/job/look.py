"""One look at a job: what its status is to say, and what is to be written so that it comes true.

The status is written first, after only what follows from the spec alone. What is deleted or made then follows from the
status, so a look that was cut short anywhere is completed by the next one.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from scheduler.api import batch
from scheduler.api.batch import FINISHED_PHASES, Action, Command, JobPhase
from scheduler.api.moment import parse_moment
from scheduler.api.names import (
    EVENT_COMMAND_ISSUED,
    EVENT_EXECUTE_ACTION,
    EVENT_POD_GROUP_PENDING,
    REASON_QUEUE_NOT_FOUND,
)
from scheduler.controllers.commands import Commands, delete
from scheduler.controllers.effects import Effect, Plan
from scheduler.controllers.job import kill
from scheduler.controllers.job.census import SUCCEEDED, Member, count, tally
from scheduler.controllers.job.events import why_pending
from scheduler.controllers.job.memory import Memory, Order
from scheduler.controllers.job.orders import next_order, take_requests
from scheduler.controllers.job.phases import IDLE_PHASES, OVER_PHASES, Situation, Step, next_phase, step_for
from scheduler.controllers.job.plugins.contract import JobPlugin, PluginError
from scheduler.controllers.job.podgroup import admitted, find_group, group_spec, min_resources
from scheduler.controllers.job.status import counted, due_in, entered, patch, phase_of
from scheduler.controllers.job.sync import (
    PLUGIN_KEY,
    Context,
    Obstacle,
    Wants,
    made,
    missing,
    no_queue,
    plugin_obstacle,
    withdrawn,
)
from scheduler.controllers.job.telling import Teller
from scheduler.controllers.job.volumes import volumes_of
from scheduler.controllers.store import Store

MakePlugins = Callable[[batch.Job], Mapping[str, JobPlugin]]
RETRY_LIMIT: Final = 15
"""Looks in a row that may fail before the job is terminated."""
_SETTLES: Final = 2.0
"""Seconds in which the queue of a new job may still be on its way, as it was applied together with the job."""


class Look:
    """At one job; ``plan`` once."""

    def __init__(self, store: Store, make_plugins: MakePlugins, memory: Memory, job: batch.Job, now: float) -> None:
        self._store = store
        self._make_plugins = make_plugins
        self._memory = memory
        self._job = job
        self._now = now
        self._teller = Teller(job, memory)
        self._group = find_group(store, job)
        self._blueprint, fresh = memory.understand(job)
        self._members = count(self._blueprint, store.pods_of(job.metadata.uid).values())
        self._plan = Plan()
        self.obstacles: list[Obstacle] = []
        """What was found in the way."""
        if fresh and not self._blueprint.refusal:
            self._understand()

    def plan(self, commands: Commands) -> Plan:
        """``commands``: where the one to carry out is found, if any waits."""
        self._look(commands)
        return self._teller.into(self._plan)

    def _understand(self) -> None:
        """Work out what follows from a new version of the spec, and tell of what could not be used."""
        resources, bad = min_resources(self._job, self._blueprint, self._store)
        self._memory.group_spec = group_spec(self._job, self._blueprint, resources)
        for field, problem in self._blueprint.malformed + volumes_of(self._job)[1] + bad:
            self._teller.malformed(field, problem)

    def _look(self, commands: Commands) -> None:
        blueprint, memory, plan = self._blueprint, self._memory, self._plan
        if blueprint.refusal:
            self._teller.malformed("spec.tasks", blueprint.refusal)
            plan.problem = blueprint.refusal
            return
        before = phase_of(self._job)
        command = commands.next((self._job.metadata.namespace, self._job.metadata.name))
        obstacle = no_queue(self._store, blueprint)
        if before is None and command is None and obstacle is not None:
            self._hinder([obstacle])
            return
        order, remarks = self._next_order(before, command, commands)
        memory.in_hand = order
        memory.action = order.action if order is not None else Action.SYNC_JOB
        status, phase, marked = self._decide(before, order)
        victims = kill.victims(self._members.values(), status, phase, blueprint.max_retries)
        doomed = {member.name: member for member in (*victims, *marked)}
        counts = tally(self._members.values(), doomed, idle=phase in IDLE_PHASES)
        # What the Pods that there may be were made for.
        follows = before is None or (phase not in IDLE_PHASES and admitted(self._group))
        status = counted(status, counts, self._job.spec.min_available if follows else status.min_available)
        if phase in IDLE_PHASES or (phase is JobPhase.RESTARTING and not kill.restarts_a_part(status)):
            resources = dict(status.controlled_resources or {}) or made(self._job, self._group)
            if before is phase and phase in OVER_PHASES:
                resources = self._withdraw(resources)
            self._write(status, order, remarks, Wants(resources=resources))
            if phase in IDLE_PHASES or kill.restarts_all(status):
                plan.then(*kill.delete_group(self._group))
            plan.then(*kill.delete_pods(doomed.values()))
        else:
            self._run(status, order, remarks, list(doomed.values()))
        due = memory.delays.next_due()
        if due is not None:
            self._look_again(due - self._now)
        if memory.orders or remarks:  # an order need not change anything that would bring on another look
            self._look_again(0.0)

    # --- what is to be done -------------------------------------------------------------------------------------------
    def _next_order(
        self, before: JobPhase | None, command: Command | None, commands: Commands
    ) -> tuple[Order | None, list[Effect]]:
        """What to carry out, and what to do with a Command once that is written."""
        memory, job, teller = self._memory, self._job, self._teller
        uid = "" if self._group is None else self._group.metadata.uid
        for text in take_requests(memory, job, self._blueprint, self._members, uid, self._now):
            teller.say(EVENT_EXECUTE_ACTION, text)
        if command is not None:
            action, remark = commands.action_of(command, job)
            remarks: list[Effect] = [delete(command)]
            if action is None:
                return None, remarks if remark is None else [*remarks, remark]
            text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
            return Order(action), [*remarks, teller.post(EVENT_COMMAND_ISSUED, text)]
        if memory.failures >= RETRY_LIMIT and before not in IDLE_PHASES:
            text = f"Job failed on action {memory.action} for retry limit reached"
            teller.say(EVENT_EXECUTE_ACTION, text)
            memory.failures = 0
            memory.add(Order(Action.TERMINATE_JOB))
        return next_order(memory), []

    def _decide(self, phase: JobPhase | None, order: Order | None) -> tuple[batch.JobStatus, JobPhase, list[Member]]:
        """The status apart from the counts, its phase, and Pods that are marked as out of sync, which is planned."""
        status = self._job.status
        if phase is None and order is None:
            return entered(status, self._job, JobPhase.PENDING, self._now), JobPhase.PENDING, []
        before = phase or JobPhase.PENDING
        doomed = kill.victims(self._members.values(), status, before, self._blueprint.max_retries)
        action = Action.SYNC_JOB if order is None or order.aimless else order.action
        step = step_for(before, action)
        if step is None and before in (JobPhase.PENDING, JobPhase.RUNNING) and kill.interrupted(doomed):
            action = Action.RESTART_POD
            step = step_for(before, action)
        if step is None or (action is Action.RESTART_JOB and kill.restarts_all(status)):
            after = next_phase(before, self._situation(before, doomed))
            ends = after in FINISHED_PHASES and before in (JobPhase.RUNNING, JobPhase.RESTARTING)
            step, action = Step(after, kill_all=ends), Action.SYNC_JOB
        marked = self._mark(order) if step.kill_target and order is not None else []
        return self._stepped(step, action), step.phase, marked

    def _stepped(self, step: Step, action: Action) -> batch.JobStatus:
        """The status once a step is taken."""
        old = self._job.status
        status = msgspec.structs.replace(
            old, version=old.version + step.kill_all, retry_count=old.retry_count + step.retry
        )
        reason = action if step.phase is JobPhase.RESTARTING else ""
        if old.state.phase != step.phase:
            return entered(status, self._job, step.phase, self._now, reason)
        if step.kill_all and old.state.reason != reason:  # the whole job is restarted instead of a part
            return msgspec.structs.replace(status, state=msgspec.structs.replace(old.state, reason=reason))
        return status

    def _mark(self, order: Order) -> list[Member]:
        """Mark the Pods that a restart concerns; the one that gave rise to it last, for it shows whoever looks after a
        crash what was to be done."""
        if order.request is None:
            return []
        chosen = kill.targets(order.action, order.request, self._members.values())
        cause = [member for member in chosen if member.name == order.request.pod]
        self._plan.then(*kill.mark(member for member in chosen if member not in cause)).then(*kill.mark(cause))
        return chosen

    def _situation(self, phase: JobPhase, doomed: list[Member]) -> Situation:
        job, blueprint = self._job, self._blueprint
        counts = tally(self._members.values(), {member.name for member in doomed}, idle=phase in IDLE_PHASES)
        return Situation(
            replicas=blueprint.replicas,
            min_available=job.spec.min_available,
            min_success=job.spec.min_success,
            minimums=blueprint.minimums,
            minimum=blueprint.minimum,
            retries=job.status.retry_count,
            max_retries=blueprint.max_retries,
            pending=counts.pending,
            running=counts.running,
            succeeded=counts.succeeded,
            failed=counts.failed,
            terminating=counts.terminating,
            doomed=len(doomed),
            succeeded_of={task: phases.get(SUCCEEDED, 0) for task, phases in counts.tasks.items()},
        )

    def _run(self, status: batch.JobStatus, order: Order | None, remarks: list[Effect], doomed: list[Member]) -> None:
        """Make what is missing of a job that is to run, and delete what is too much."""
        memory, plan = self._memory, self._plan
        if memory.failures and not self._job.status.state.phase:
            # What it needs could not be made: that it is pending is said all the same.
            plan.then(patch(self._job, status))
        wants = self._wants(status, any(not member.wanted for member in doomed))
        # The list of hosts follows the spec before all else: who has scaled a job may read it at once.
        plan.then(*wants.objects, *wants.refresh)
        self._write(status, order, remarks, wants)
        plan.then(*wants.pods, *kill.delete_pods(doomed))
        if wants.objects or wants.refresh:
            memory.refreshed = True
        self._hinder(wants.obstacles)
        why = "" if self._group is None else why_pending(self._group)
        meta = self._job.metadata
        text = f"PodGroup {meta.namespace}:{meta.name} unschedulable, reason: {why}" if why else ""
        self._teller.warn("PodGroup", EVENT_POD_GROUP_PENDING, text)

    def _wants(self, status: batch.JobStatus, surplus: bool) -> Wants:
        memory = self._memory
        try:
            plugins = self._plugins()
        except PluginError as error:
            return Wants(resources=dict(status.controlled_resources or {}), obstacles=[plugin_obstacle(error)])
        context = Context(
            store=self._store,
            job=self._job,
            blueprint=self._blueprint,
            plugins=plugins,
            status=status,
            members=self._members,
            group=self._group,
            group_spec=memory.group_spec,
            refreshed=memory.refreshed,
        )
        return missing(context, surplus)

    def _plugins(self) -> Mapping[str, JobPlugin]:
        """Raises PluginError."""
        if self._memory.plugins is None:
            self._memory.plugins = self._make_plugins(self._job)
        return self._memory.plugins

    def _withdraw(self, resources: dict[str, str]) -> dict[str, str]:
        """Delete what plugins brought to a job that is over; of the resources, those that stay (claims)."""
        rest = {key: name for key, name in resources.items() if not key.startswith(PLUGIN_KEY)}
        if rest != resources:
            with suppress(PluginError):  # then they never brought anything
                self._plan.then(*withdrawn(self._job, self._plugins()))
        return rest

    # --- writing ------------------------------------------------------------------------------------------------------
    def _write(self, status: batch.JobStatus, order: Order | None, remarks: list[Effect], wants: Wants) -> None:
        """Plan the write of the status, if it is time, then what is to be told of the action."""
        memory, old = self._memory, self._job.status
        # As in Volcano's status, what was made is listed from the second write on, and is no reason for one.
        if old.state.phase and (status != old or len(wants.resources) < len(old.controlled_resources or ())):
            status = msgspec.structs.replace(status, controlled_resources=wants.resources or None)
        effects = list(wants.group)
        pause = due_in(old, status, memory, self._now)
        if pause == 0:
            effects.append(patch(self._job, status))
        elif pause is not None:
            self._look_again(pause)
        self._plan.then(*effects).then(*remarks)
        if order is not None:
            memory.delays.carried_out(order.action, order.request)
            text = f"Start to execute action {order.action} "
            self._plan.then(self._teller.post(EVENT_EXECUTE_ACTION, text))

    def _look_again(self, seconds: float) -> None:
        self._plan.after = seconds if self._plan.after is None else min(seconds, self._plan.after)

    def _hinder(self, obstacles: list[Obstacle]) -> None:
        for obstacle in obstacles:
            self._plan.problem = obstacle.message
            if obstacle.reason and (obstacle.reason != REASON_QUEUE_NOT_FOUND or self._age() >= _SETTLES):
                self._teller.warn(f"{obstacle.reason} {obstacle.waits_for}", obstacle.reason, obstacle.message)
        self.obstacles += obstacles

    def _age(self) -> float:
        """Seconds since the job was made."""
        return self._now - (parse_moment(self._job.metadata.creation_timestamp) or 0.0)
