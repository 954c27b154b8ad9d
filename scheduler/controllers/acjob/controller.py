"""acjob-controller: an AscendJob gets its PodGroup, then the Service of its leader and its Pods, and a status.

As with vcjobs, Pods are created once the PodGroup is admitted to its queue. A key is an AscendJob.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from scheduler.api.acjob import CREATED, FAILED, RESTARTING, RUNNING, SUSPENDED, AscendJob, AscendJobSpec
from scheduler.api.acjob_roles import InvalidJobError, JobRoles, Role, roles_of
from scheduler.api.job import PENDING_PHASES
from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP, QUEUE, SERVICE, find_kind
from scheduler.api.names import EVENT_MALFORMED, RESCHEDULING_STATE, SYSTEM_NAMESPACE
from scheduler.api.objects import ConfigMap, KubeObject, OwnerReference, Pod, Service, controller_of
from scheduler.api.quantity import QuantityError
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.acjob.clean_up import MAX_INTERVAL, clean_up, deletions, seconds_left
from scheduler.controllers.acjob.environment import CLUSTERD, CLUSTERD_DOMAIN, CLUSTERD_NAMESPACE, Addresses
from scheduler.controllers.acjob.hot_switch import is_switched, marks_differ, next_steps, places
from scheduler.controllers.acjob.manifests import VERSION, group_name, members, pod, pod_group, pod_name, service
from scheduler.controllers.acjob.restarts import (
    any_terminates,
    backoff_limit,
    completion,
    counted,
    has_failed,
    is_rescheduled,
    is_torn,
    number_in,
    restarts_of,
    retry_times,
    uncounted_restarts_of,
)
from scheduler.controllers.acjob.retries import RetryRecord
from scheduler.controllers.acjob.status import (
    ConditionChange,
    Json,
    change_by_pods,
    created,
    replica_statuses,
    retryable,
    status_patch,
)
from scheduler.controllers.controller import Controller, observes
from scheduler.controllers.effects import Create, Delete, Effect, Patch, Plan, normal, warning
from scheduler.controllers.scheduler_names import scheduler_problems
from scheduler.controllers.store import Key, Store, key_of

_PAUSE: Final = 1.0
"""Seconds between two plans for a job that has all its Pods. A job of a thousand Pods changes thousands of times while
it starts."""
_NO_QUEUE: Final = "InvalidQueue"
_QUEUE_PATIENCE: Final = 5
"""Seconds for which a new job waits for its queue, which may have been created with it."""
_NO_ADDRESS: Final = "None"
"""Cluster IP of a headless Service."""


class AscendJobController(Controller):
    """See Controller."""

    name = "acjob-controller"
    reads = (QUEUE,)

    def __init__(self, store: Store, schedulers: Sequence[str]) -> None:
        """``schedulers``: the names of the schedulers; the first is the schedulerName of Pods whose job names none. A
        job that names another one gets a Warning."""
        self._store = store
        self._schedulers = tuple(schedulers)
        self._checked: dict[Key, AscendJobSpec] = {}
        """Job -> the spec whose schedulerNames have been checked."""
        self._lost: dict[Key, int] = {}
        """Job -> the newest version of its Pods that were deleted."""
        self._failed: set[Key] = set()
        """Jobs that lost a Pod which had failed before, and have not been restarted since."""
        self._due: dict[Key, float] = {}
        """Job that has all its Pods -> when the next plan may be made."""
        self._record: RetryRecord | None = None

    # --- observing ----------------------------------------------------------------------------------------------------
    @observes(ACJOB)
    def _observe_job(self, old: AscendJob | None, new: AscendJob | None, now: float) -> list[Key]:
        job = new or old
        return [] if job is None else [key_of(job)]

    @observes(CONFIG_MAP)
    def _observe_record(self, old: ConfigMap | None, new: ConfigMap | None, now: float) -> list[Key]:
        config_map = new or old
        if config_map is None or key_of(config_map) != (SYSTEM_NAMESPACE, RESCHEDULING_STATE):
            return []
        return [key_of(job) for job in self._store.all(ACJOB) if retry_times(job)]

    @observes(POD_GROUP, SERVICE)
    def _observe_owned(self, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        obj = new or old
        owner = None if obj is None else _job_of(obj)
        return [] if obj is None or owner is None else [(obj.metadata.namespace, owner.name)]

    @observes(POD)
    def _observe_pod(self, old: Pod | None, new: Pod | None, now: float) -> list[Key]:
        pod = new or old
        owner = None if pod is None else _job_of(pod)
        if pod is None or owner is None or not _concerns(old, new):
            return []
        key = pod.metadata.namespace, owner.name
        job = self._store.get(ACJOB, *key)
        is_lost = new is None and not is_switched(pod, self._store.pods_of(key[0], owner.uid))
        if is_lost and job is not None and job.metadata.uid == owner.uid:
            self._lost[key] = max(self._lost.get(key, 0), number_in((pod.metadata.labels or {}).get(VERSION, "")))
            if has_failed(pod):
                self._failed.add(key)
        return [key]

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        job = self._store.get(ACJOB, *key)
        if job is None or job.metadata.deletion_timestamp is not None:
            self._due.pop(key, None)
            self._checked.pop(key, None)
            self._forget_losses(key)
            return Plan()
        warnings = self._scheduler_warnings(job)
        plan = self._plan(job, now)
        if warnings:
            plan.stages.insert(0, warnings)
        return plan

    def _scheduler_warnings(self, job: AscendJob) -> list[Effect]:
        """Warnings about schedulerNames of a new or changed spec."""
        key, spec = key_of(job), job.spec
        before, self._checked[key] = self._checked.get(key), spec
        if before is spec or before == spec or job.is_finished:
            return []
        pod_specs = (
            (f"spec.replicaSpecs[{name[:64]}].template.spec", role.template.get("spec"))
            for name, role in (spec.replica_specs or {}).items()
        )
        valid = ((path, each) for path, each in pod_specs if isinstance(each, dict))
        return [
            warning(ACJOB, job, EVENT_MALFORMED, f"{field}: {problem}")
            for field, problem in scheduler_problems(spec.scheduler_name, valid, self._schedulers)
        ]

    def _plan(self, job: AscendJob, now: float) -> Plan:
        key = key_of(job)
        if job.is_finished:
            return clean_up(self._store, job, now)
        if now < self._due.get(key, 0.0):
            return Plan(after=self._due[key] - now)
        try:
            roles = roles_of(job)
            self._check_queue(job)
            group = pod_group(job, roles)
        except (InvalidJobError, QuantityError) as error:
            young = seconds_left(_QUEUE_PATIENCE, job.metadata.creation_timestamp, now)
            if isinstance(error, InvalidJobError) and error.reason == _NO_QUEUE and young is not None and young > 0:
                return Plan(after=min(young, 1.0))
            return self._conclude(job, now, ConditionChange(FAILED, "JobValidFailed", str(error)), None)
        if job.spec.run_policy.suspend:
            return self._suspend(job, roles, now)
        deadline = seconds_left(job.spec.run_policy.active_deadline_seconds, job.status.start_time, now)
        if deadline is not None and deadline <= 0:
            limit = job.spec.run_policy.active_deadline_seconds
            message = f"Job {key[0]}/{key[1]} has failed because it was active longer than {limit} seconds."
            return self._conclude(job, now, ConditionChange(FAILED, "DeadlineExceeded", message), None)
        plan = self._advance(job, roles, group, now)
        if deadline is not None:
            plan.after = min(deadline, MAX_INTERVAL)
        return plan

    def _forget_losses(self, key: Key) -> None:
        self._lost.pop(key, None)
        self._failed.discard(key)

    def _check_queue(self, job: AscendJob) -> None:
        policy = job.spec.run_policy.scheduling_policy
        if policy is not None and policy.queue and self._store.get(QUEUE, "", policy.queue) is None:
            raise InvalidJobError(_NO_QUEUE, f"queue {policy.queue[:64]} does not exist")

    def _advance(self, job: AscendJob, roles: JobRoles, manifest: Json, now: float) -> Plan:
        """Creates what is missing, and writes the status."""
        group = self._store.get(POD_GROUP, job.metadata.namespace, group_name(job))
        pods = self._store.pods_of(job.metadata.namespace, job.metadata.uid)
        existing = places(job, roles, pods)
        plan = Plan()
        if group is None:
            if any(each.metadata.deletion_timestamp is not None for each in pods.values()):
                return plan  # a resumed job waits for the Pods of before, whose end is no restart
            self._forget_losses(key_of(job))  # of Pods of before it was suspended
            plan.then(Create(POD_GROUP, manifest, job.metadata.uid))
        if group is None or group.status.phase in PENDING_PHASES:
            if existing:
                return self._report(job, roles, existing, plan, now)
            return plan.then(*self._status(job, now, [_waiting(job, group)], replica_statuses(job, roles, existing)))
        leader = roles.leader
        found = None if leader is None else self._service(job, pod_name(job, leader, 0))
        if leader is not None and found is None:
            return plan.then(Create(SERVICE, service(job, roles, leader), job.metadata.uid))
        address = "" if found is None else found.spec.cluster_ip
        if leader is not None and (not address or address == _NO_ADDRESS):
            return plan  # the Service is observed when it has an address
        missing = [(name, role, index) for name, role, index in members(job, roles) if name not in existing]
        version = restarts_of(group)
        lost = self._lost.get(key_of(job))
        if missing and (is_torn(group, len(existing)) if lost is None else lost >= version):
            version += 1
            counts = self._is_after_failure(job, roles, group, existing)
            text = f"{len(missing)} of {roles.total} Pods are gone."
            stop = self._restart(job, group, version, text, plan, now, counts=counts)
            if stop is not None:
                return stop
        addresses = Addresses(address, self._clusterd())

        def manifest_of(role: Role, index: int) -> Json:
            return pod(job, roles, role, index, addresses, version, self._schedulers[0])

        plan.then(*(Create(POD, manifest_of(role, i), job.metadata.uid) for _, role, i in missing))
        if not missing:
            self._forget_losses(key_of(job))  # of Pods that the job no longer asks for, or that have been replaced
            plan = self._report(job, roles, existing, plan.then(*completion(group, existing, roles.total)), now)
        return plan.then(*next_steps(job, roles, existing, pods, manifest_of))

    def _is_after_failure(self, job: AscendJob, roles: JobRoles, group: PodGroup, existing: Mapping[str, Pod]) -> bool:
        """Whether a restart follows a failure of a Pod or a fault of hardware, and not only evictions. Pods that were
        deleted while no controller ran have failed if the job restarts already."""
        key = key_of(job)
        if key in self._failed or any(map(has_failed, existing.values())):
            return True
        if key not in self._lost and job.has(RESTARTING):
            return True
        if not is_rescheduled(job, roles):
            return False
        record = self._retry_record()
        return record is None or record.is_under_way(f"{key[0]}/{group.metadata.name}", job.metadata.uid)

    def _restart(
        self, job: AscendJob, group: PodGroup, version: int, reason: str, plan: Plan, now: float, *, counts: bool
    ) -> Plan | None:
        """Counts a restart before its Pods are created. ``counts``: towards the limit. Returns the plan of a job that
        has no restarts left."""
        where = f"{job.metadata.namespace}/{job.metadata.name}"
        limit, uncounted = backoff_limit(job), uncounted_restarts_of(group) + (not counts)
        if 0 < limit < version - uncounted:
            text = f"Job {where} has failed because it has reached its limit of {limit} restarts."
            return self._conclude(job, now, ConditionChange(FAILED, "JobFailed", text), None)
        plan.then(counted(group, version, uncounted))
        self._failed.discard(key_of(job))
        text = f"Job {where} restarts for the {version}. time: {reason}"
        plan.then(*self._status(job, now, [ConditionChange(RESTARTING, "JobRestarting", text)], None))
        return None

    def _report(self, job: AscendJob, roles: JobRoles, pods: Mapping[str, Pod], plan: Plan, now: float) -> Plan:
        self._due[key_of(job)] = now + _PAUSE
        ended = list(retryable(job, roles, pods))
        if ended:
            text = f"Job {job.metadata.name} is restarting because {len(ended)} of {roles.total} Pods failed."
            plan.then(*self._status(job, now, [ConditionChange(RESTARTING, "JobRestarting", text)], None))
            return plan.then(*(Delete(POD, *key_of(each), each.metadata.uid) for each in ended))
        counts = replica_statuses(job, roles, pods)
        group = self._store.get(POD_GROUP, job.metadata.namespace, group_name(job))
        found = change_by_pods(job, roles, counts, self._retries(job, roles, group))
        if found is not None and found.type == RUNNING and job.has(RESTARTING) and any_terminates(pods):
            found = None  # the Pods of before the restart are not gone yet
        changes = [created(job)] if not job.has(CREATED) else []
        return plan.then(*self._status(job, now, [*changes, *([found] if found else [])], counts))

    def _retries(self, job: AscendJob, roles: JobRoles, group: PodGroup | None) -> int:
        """The restarts that the job has left after a Pod has failed. Where the record of the scheduler cannot be read,
        every restart counts as one after a failure."""
        allowed = retry_times(job)
        if not allowed or not is_rescheduled(job, roles):
            return 0
        record = self._retry_record()
        if record is None:
            return max(allowed - (0 if group is None else restarts_of(group) - uncounted_restarts_of(group)), 0)
        return record.left(f"{job.metadata.namespace}/{group_name(job)}", job.metadata.uid, allowed)

    def _retry_record(self) -> RetryRecord | None:
        """The record of the scheduler; None if there is none, or it cannot be read."""
        config_map = self._store.get(CONFIG_MAP, SYSTEM_NAMESPACE, RESCHEDULING_STATE)
        if config_map is None:
            return None
        if self._record is None or self._record.source is not config_map:
            self._record = RetryRecord(config_map)
        return self._record

    def _conclude(self, job: AscendJob, now: float, change: ConditionChange, counts: dict[str, Json] | None) -> Plan:
        changes = [change] if job.has(CREATED) else [created(job), change]
        return Plan().then(*self._status(job, now, changes, counts))

    def _status(
        self,
        job: AscendJob,
        now: float,
        changes: list[ConditionChange],
        counts: dict[str, Json] | None,
        restarts: tuple[int, int] | None = None,
    ) -> list[Effect]:
        """The write of the status with an Event for each condition that becomes True; nothing if nothing changes."""
        patch = status_patch(job, changes, counts, now, restarts)
        if not patch:
            return []
        events: list[Effect] = [
            (warning if change.type == FAILED else normal)(ACJOB, job, change.reason, change.message)
            for change in changes
            if not job.has(change.type)
        ]
        return [Patch(ACJOB, *key_of(job), {"status": patch}, job.metadata.uid, subresource="status"), *events]

    def _suspend(self, job: AscendJob, roles: JobRoles, now: float) -> Plan:
        """Writes the number of restarts into the status, then deletes the Pods and the PodGroup, which counts them."""
        text = f"Job {job.metadata.namespace}/{job.metadata.name} is suspended."
        group = self._store.get(POD_GROUP, job.metadata.namespace, group_name(job))
        counts: dict[str, Json] = {role.type: {} for role in roles.roles}
        restarts = None if group is None else (restarts_of(group), uncounted_restarts_of(group))
        plan = Plan().then(
            *self._status(job, now, [ConditionChange(SUSPENDED, "JobSuspended", text)], counts, restarts)
        )
        effects = deletions(self._store, job, lambda pod: True)
        # The PodGroup goes first: Pods that are missing while it exists would be a restart of a job that is resumed.
        plan.then(*(each for each in effects if isinstance(each, Delete) and each.kind is POD_GROUP))
        return plan.then(*(each for each in effects if isinstance(each, Delete) and each.kind is POD))

    # --- reading ------------------------------------------------------------------------------------------------------
    def _service(self, job: AscendJob, leader: str) -> Service | None:
        """The Service of a leader."""
        return self._store.get(SERVICE, job.metadata.namespace, leader)

    def _clusterd(self) -> str:
        found = self._store.get(SERVICE, CLUSTERD_NAMESPACE, CLUSTERD)
        return found.spec.cluster_ip if found is not None and found.spec.cluster_ip else CLUSTERD_DOMAIN


def _job_of(obj: KubeObject) -> OwnerReference | None:
    """The reference to the AscendJob that manages an object."""
    owner = controller_of(obj)
    return owner if owner is not None and find_kind(owner.api_version, owner.kind) is ACJOB else None


def _concerns(old: Pod | None, new: Pod | None) -> bool:
    if old is None or new is None or (old.status.phase, old.metadata.uid) != (new.status.phase, new.metadata.uid):
        return True
    return marks_differ(old, new)


def _waiting(job: AscendJob, group: PodGroup | None) -> ConditionChange:
    if group is None:
        return created(job)
    reasons = [c.message for c in group.status.conditions or () if c.type == "Unschedulable" and c.status == "True"]
    text = f": {reasons[-1]}" if reasons and reasons[-1] else ""
    return ConditionChange(
        CREATED, "PodGroupPending", f"PodGroup {group.metadata.name} is not admitted to its queue yet{text}"
    )
