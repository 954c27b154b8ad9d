"""Reconciles one AscendJob: creates its PodGroup, then the Service of its leader and its Pods, writes its status, and
deletes what a finished or suspended job no longer needs.

As with vcjobs, Pods are created once the PodGroup is admitted to its queue.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.api.acjob import (
    CREATED,
    FAILED,
    FRAMEWORK,
    LEADERS,
    POD_CREATE_FAILED,
    RESTARTING,
    RUNNING,
    SUCCEEDED,
    SUSPENDED,
    AscendJob,
    AscendJobSpec,
    InvalidJobError,
    JobRoles,
    Role,
    roles_of,
)
from scheduler.api.job import PENDING_PHASES
from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP, QUEUE, SERVICE
from scheduler.api.objects import ENDED_PHASES, Pod, is_controlled_by
from scheduler.api.quantity import QuantityError
from scheduler.api.scheduling import PodGroup
from scheduler.api.times import parse_timestamp, seconds_left
from scheduler.controllers.acjob.environment import CLUSTERD, CLUSTERD_DOMAIN, CLUSTERD_NAMESPACE, Addresses
from scheduler.controllers.acjob.hot_switch import next_steps, places
from scheduler.controllers.acjob.manifests import RolePod, group_name, members, pod, pod_group, pod_name, service
from scheduler.controllers.acjob.restarts import (
    any_terminates,
    backoff_limit,
    completion,
    counted,
    has_failed,
    is_rescheduled,
    is_torn,
    restarts_of,
    uncounted_restarts_of,
)
from scheduler.controllers.acjob.scaling import INVALID_SCALING, group_changes, scaling_problem, surplus_deletions
from scheduler.controllers.acjob.scaling_rule import ScalingRuleError, service_of, waiting_reason
from scheduler.controllers.acjob.status import (
    ConditionChange,
    Json,
    change_by_pods,
    created,
    replica_statuses,
    retryable,
    status_patch,
)
from scheduler.controllers.effects import Create, Delete, Effect, Patch, Plan, Read, normal, warning
from scheduler.controllers.retry_record import RetryRecord, retry_times
from scheduler.controllers.store import Store, key_of

MAX_INTERVAL: Final = 30 * 86400.0
"""Seconds after which a job is checked again at the latest."""
_PAUSE: Final = 1.0
"""Seconds between two plans for a job that has all its Pods. A job of a thousand Pods changes thousands of times while
it starts."""
_NO_QUEUE: Final = "InvalidQueue"
_QUEUE_PATIENCE: Final = 5
"""Seconds for which a new job waits for its queue, which may have been created with it."""
_NO_ADDRESS: Final = "None"
"""Cluster IP of a headless Service."""
_RULE_PAUSE: Final = 10.0
"""Seconds after which a job that waits because of its scaling rule reads the rule again."""


@dataclass(slots=True)
class AscendJobState:
    """What the controller remembers of a job between two reconciliations. It may be lost."""

    checked: AscendJobSpec | None = None
    """The spec whose schedulerNames have been checked."""
    lost: int | None = None
    """The newest version of its Pods that were deleted; None: none was deleted since the job had all its Pods."""
    failed: bool = False
    """The job lost a Pod which had failed before, and has not been restarted since."""
    due: float = 0.0
    """When the next plan may be made for a job that has all its Pods."""
    rule_due: float = 0.0
    """When its scaling rule is to be read again, if Pods are missing."""
    warned: str = ""
    """The last Warning about its scaling."""

    def forget_losses(self) -> None:
        self.lost, self.failed = None, False


class AscendJobReconciler:
    """Reconciles one job; call ``plan`` once."""

    def __init__(
        self,
        store: Store,
        job: AscendJob,
        state: AscendJobState,
        scheduler: str,
        read_record: Callable[[], RetryRecord | None],
        now: float,
    ) -> None:
        """``scheduler``: the schedulerName of Pods whose job names none. ``read_record``: returns the record of
        restarts after faults; None if it cannot be read."""
        self._store = store
        self._job = job
        self._where = f"{job.metadata.namespace}/{job.metadata.name}"
        self._state = state
        self._scheduler = scheduler
        self._read_record = read_record
        self._now = now
        self._group = store.get(POD_GROUP, job.metadata.namespace, group_name(job))
        self._pods = store.pods_of(job.metadata.namespace, job.metadata.uid)

    def plan(self) -> Plan:
        job = self._job
        policy = job.spec.run_policy
        if job.is_finished:
            return self._clean_up()
        if left := seconds_left(self._state.due, self._now, _PAUSE):
            return Plan(after=left)
        try:
            roles = roles_of(job)
            self._check_queue()
            group = pod_group(job, roles)
        except (InvalidJobError, QuantityError) as error:
            young = self._seconds_left(_QUEUE_PATIENCE, job.metadata.creation_timestamp)
            if isinstance(error, InvalidJobError) and error.reason == _NO_QUEUE and young is not None and young > 0:
                return Plan(after=min(young, 1.0))
            return self._fail("JobValidFailed", str(error))
        if policy.suspend:
            return self._suspend(roles)
        limit = policy.active_deadline_seconds
        deadline = self._seconds_left(limit, job.status.start_time)
        if deadline is not None and deadline <= 0:
            message = f"Job {self._where} has failed because it was active longer than {limit} seconds."
            return self._fail("DeadlineExceeded", message)
        plan = self._advance(roles, group)
        if deadline is not None:
            plan.after = min(deadline, MAX_INTERVAL, *(() if plan.after is None else (plan.after,)))
        return plan

    def _check_queue(self) -> None:
        policy = self._job.spec.run_policy.scheduling_policy
        if policy is not None and policy.queue and self._store.get(QUEUE, "", policy.queue) is None:
            raise InvalidJobError(_NO_QUEUE, f"queue {policy.queue[:64]} does not exist")

    def _seconds_left(self, seconds: int | None, since: str | None) -> float | None:
        """Seconds until a limit of ``seconds`` since a time is reached; None: there is no limit, or no time."""
        start = parse_timestamp(since)
        return None if seconds is None or start is None else start + seconds - self._now

    # --- creating -----------------------------------------------------------------------------------------------------
    def _advance(self, roles: JobRoles, manifest: Json) -> Plan:
        """Creates what is missing, and writes the status. ``manifest``: the PodGroup as it is to be."""
        job, group, state = self._job, self._group, self._state
        existing = places(job, roles, self._pods)
        plan = Plan()
        if group is None:
            if any_terminates(self._pods):
                return plan  # a resumed job waits for the Pods of before, whose end is no restart
            state.forget_losses()  # of Pods of before it was suspended
            plan.then(Create(POD_GROUP, manifest, job.metadata.uid))
        else:
            self._scale(roles, group, manifest, plan)
        if group is None or group.status.phase in PENDING_PHASES:
            if existing:
                return self._report(roles, existing, plan)
            return plan.then(*self._status([_waiting(job, group)], replica_statuses(job, roles, existing)))
        leader = roles.leader
        address = ""
        if leader is not None:
            found = self._store.get(SERVICE, job.metadata.namespace, pod_name(job, leader, 0))
            if found is None:
                return plan.then(Create(SERVICE, service(job, roles, leader), job.metadata.uid))
            address = found.spec.cluster_ip
            if not address or address == _NO_ADDRESS:
                return plan  # the Service is observed when it has an address
        missing = [(name, role, index) for name, role, index in members(job, roles) if name not in existing]
        if missing and self._waits_for_rule(roles, existing, plan):
            return plan
        version = restarts_of(group)
        if missing and (is_torn(group, len(existing)) if state.lost is None else state.lost >= version):
            version += 1
            counts = self._is_after_failure(roles, group, existing)
            stop = self._restart(group, version, f"{len(missing)} of {roles.total} Pods are gone.", plan, counts=counts)
            if stop is not None:
                return stop
        context = RolePod(job, roles, Addresses(address, self._clusterd()), version, self._scheduler)

        def manifest_of(role: Role, index: int) -> Json:
            return pod(context, role, index)

        plan.then(*(Create(POD, manifest_of(role, i), job.metadata.uid) for _, role, i in missing))
        if not missing:
            state.forget_losses()  # of Pods that the job no longer asks for, or that have been replaced
            plan = self._report(roles, existing, plan.then(*completion(group, existing, roles.total)))
        return plan.then(*next_steps(job, roles, existing, self._pods, manifest_of))

    def _scale(self, roles: JobRoles, group: PodGroup, manifest: Json, plan: Plan) -> None:
        """Changes the PodGroup after the number of workers, then deletes the Pods that the job has no more."""
        problem = scaling_problem(self._job, roles, group)
        if not problem:
            plan.then(*group_changes(self._job, roles, group, manifest, len(self._pods)))
            plan.then(*surplus_deletions(self._job, roles, self._pods))
        self._warn(problem, plan)

    def _warn(self, problem: str, plan: Plan) -> None:
        """Records a Warning about the scaling of the job, once."""
        if problem and problem != self._state.warned:
            self._state.warned = problem
            plan.then(warning(ACJOB, self._job, INVALID_SCALING, problem))

    def _waits_for_rule(self, roles: JobRoles, existing: Mapping[str, Pod], plan: Plan) -> bool:
        """Whether the job creates no Pods now because of its scaling rule. If so, the plan says why, and when the rule
        is read again."""
        job, state, service = self._job, self._state, service_of(self._job)
        if service is None:
            return False
        if not seconds_left(state.rule_due, self._now, _RULE_PAUSE):
            state.rule_due = self._now + _RULE_PAUSE
            plan.then(Read(CONFIG_MAP, service.namespace, service.rule)).after = 0.0
            return True
        config_map = self._store.get(CONFIG_MAP, service.namespace, service.rule)
        try:
            reason = waiting_reason(job, service, config_map, self._store.all(POD_GROUP))
        except ScalingRuleError as error:
            reason = str(error)
            self._warn(f"Job {self._where} creates no Pods: {reason}", plan)
        if not reason:
            return False
        text = f"job {self._where} can't create pod, try later: {reason}"
        type = RESTARTING if job.has(RUNNING) or job.has(RESTARTING) else CREATED
        change = ConditionChange(type, POD_CREATE_FAILED, text)
        plan.then(*self._status([change], replica_statuses(job, roles, existing)))
        plan.after = state.rule_due - self._now
        return True

    def _clusterd(self) -> str:
        found = self._store.get(SERVICE, CLUSTERD_NAMESPACE, CLUSTERD)
        return found.spec.cluster_ip if found is not None and found.spec.cluster_ip else CLUSTERD_DOMAIN

    # --- restarts -----------------------------------------------------------------------------------------------------
    def _is_after_failure(self, roles: JobRoles, group: PodGroup, existing: Mapping[str, Pod]) -> bool:
        """Whether a restart follows a failure of a Pod or a fault of hardware, and not only evictions. Pods that were
        deleted while no controller ran have failed if the job restarts already."""
        if self._state.failed or any(map(has_failed, existing.values())):
            return True
        if self._state.lost is None and self._job.has(RESTARTING):
            return True
        if not is_rescheduled(self._job, roles):
            return False
        record = self._read_record()
        meta = self._job.metadata
        return record is None or record.is_under_way(f"{meta.namespace}/{group.metadata.name}", meta.uid)

    def _restart(self, group: PodGroup, version: int, reason: str, plan: Plan, *, counts: bool) -> Plan | None:
        """Counts a restart before its Pods are created. ``counts``: towards the limit. Returns the plan of a job that
        has no restarts left."""
        limit, uncounted = backoff_limit(self._job), uncounted_restarts_of(group) + (not counts)
        if 0 < limit < version - uncounted:
            text = f"Job {self._where} has failed because it has reached its limit of {limit} restarts."
            return self._fail("JobFailed", text)
        plan.then(counted(group, version, uncounted))
        self._state.failed = False
        text = f"Job {self._where} restarts for the {version}. time: {reason}"
        plan.then(*self._status([ConditionChange(RESTARTING, "JobRestarting", text)]))
        return None

    def _retries(self, roles: JobRoles) -> int:
        """The restarts that the job has left after a Pod has failed. If the record of the scheduler cannot be read,
        every restart counts as one after a failure."""
        group, meta = self._group, self._job.metadata
        allowed = retry_times(self._job.metadata.labels or {})
        if not allowed or not is_rescheduled(self._job, roles):
            return 0
        record = self._read_record()
        if record is None:
            return max(allowed - (0 if group is None else restarts_of(group) - uncounted_restarts_of(group)), 0)
        return record.left(f"{meta.namespace}/{group_name(self._job)}", meta.uid, allowed)

    # --- the status ---------------------------------------------------------------------------------------------------
    def _report(self, roles: JobRoles, pods: Mapping[str, Pod], plan: Plan) -> Plan:
        """Writes what the Pods say into the status, and deletes failed Pods that are to be replaced."""
        job = self._job
        self._state.due = self._now + _PAUSE
        ended = list(retryable(job, roles, pods))
        if ended:
            text = f"Job {job.metadata.name} is restarting because {len(ended)} of {roles.total} Pods failed."
            plan.then(*self._status([ConditionChange(RESTARTING, "JobRestarting", text)]))
            return plan.then(*(Delete(POD, *key_of(each), each.metadata.uid) for each in ended))
        counts = replica_statuses(job, roles, pods)
        found = change_by_pods(job, roles, counts, self._retries(roles))
        if found is not None and found.type == RUNNING and job.has(RESTARTING) and any_terminates(pods):
            found = None  # the Pods of before the restart are not gone yet
        changes = [created(job)] if not job.has(CREATED) else []
        return plan.then(*self._status([*changes, *([found] if found else [])], counts))

    def _fail(self, reason: str, message: str) -> Plan:
        change = ConditionChange(FAILED, reason, message)
        return Plan().then(*self._status([change] if self._job.has(CREATED) else [created(self._job), change]))

    def _status(
        self,
        changes: list[ConditionChange],
        counts: dict[str, Json] | None = None,
        restarts: tuple[int, int] | None = None,
    ) -> list[Effect]:
        """The write of the status with an Event for each condition that becomes True; nothing if nothing changes."""
        job = self._job
        patch = status_patch(job, changes, counts, self._now, restarts)
        if not patch:
            return []
        events: list[Effect] = [
            (warning if change.type == FAILED else normal)(ACJOB, job, change.reason, change.message)
            for change in changes
            if not job.has(change.type)
        ]
        return [Patch(ACJOB, *key_of(job), {"status": patch}, job.metadata.uid, subresource="status"), *events]

    # --- deleting -----------------------------------------------------------------------------------------------------
    def _suspend(self, roles: JobRoles) -> Plan:
        """Writes the number of restarts into the status, then deletes the PodGroup, which counts them, and the Pods."""
        group = self._group
        counts: dict[str, Json] = {role.type: {} for role in roles.roles}
        restarts = None if group is None else (restarts_of(group), uncounted_restarts_of(group))
        change = ConditionChange(SUSPENDED, "JobSuspended", f"Job {self._where} is suspended.")
        plan = Plan().then(*self._status([change], counts, restarts))
        # The PodGroup goes first: Pods that are missing while it exists would be a restart of a job that is resumed.
        return plan.then(*self._group_deletion()).then(*self._pod_deletions(lambda pod: True))

    def _clean_up(self) -> Plan:
        """Deletes Pods of a finished job by its clean-up policy and those that wait, the PodGroup, and in the end the
        job itself."""
        job, policy = self._job, self._job.spec.run_policy
        # A leader that runs although all workers have succeeded has nothing to do.
        cleaned = policy.clean_pod_policy or ("Running" if job.has(SUCCEEDED) else "")
        pods = self._pod_deletions(lambda pod: _is_cleaned(pod, cleaned))
        plan = Plan().then(*self._group_deletion(), *pods, *self._unused_service(pods))
        left = self._seconds_left(policy.ttl_seconds_after_finished, job.status.completion_time)
        if left is not None and left <= 0:
            return plan.then(Delete(ACJOB, *key_of(job), job.metadata.uid, foreground=True))
        plan.after = None if left is None else min(left, MAX_INTERVAL)
        return plan

    def _group_deletion(self) -> list[Delete]:
        group = self._group
        return [] if group is None else [Delete(POD_GROUP, *key_of(group), group.metadata.uid)]

    def _pod_deletions(self, is_deleted: Callable[[Pod], bool]) -> list[Delete]:
        """The deletions of some of the Pods, without those that are being deleted."""
        found = (each for each in self._pods.values() if each.metadata.deletion_timestamp is None and is_deleted(each))
        return [Delete(POD, *key_of(each), each.metadata.uid) for each in found]

    def _unused_service(self, deletions: list[Delete]) -> list[Delete]:
        """The deletion of the leader's Service, if its Pod is gone or is deleted by one of the effects."""
        job = self._job
        leader = LEADERS.get((job.metadata.labels or {}).get(FRAMEWORK, ""), "")
        name = f"{job.metadata.name}-{leader.lower()}-0"
        found = self._store.get(SERVICE, job.metadata.namespace, name)
        if found is None or not is_controlled_by(found, job.metadata.uid):
            return []
        leads = self._pods.get(name)
        if leads is not None and Delete(POD, *key_of(leads), leads.metadata.uid) not in deletions:
            return []
        return [Delete(SERVICE, *key_of(found), found.metadata.uid)]


def _is_cleaned(pod: Pod, policy: str) -> bool:
    """Whether a Pod of a finished job is deleted. ``policy``: All, Running, or None (the default); Pods that wait are
    deleted in any case, as they would run later."""
    phase = pod.status.phase
    return phase in ("", "Pending") or policy == "All" or (policy == "Running" and phase not in ENDED_PHASES)


def _waiting(job: AscendJob, group: PodGroup | None) -> ConditionChange:
    if group is None:
        return created(job)
    reasons = [c.message for c in group.status.conditions or () if c.type == "Unschedulable" and c.status == "True"]
    text = f": {reasons[-1]}" if reasons and reasons[-1] else ""
    return ConditionChange(
        CREATED, "PodGroupPending", f"PodGroup {group.metadata.name} is not admitted to its queue yet{text}"
    )
