"""acjob-controller: an AscendJob gets its PodGroup, then the Service of its leader and its Pods, and a status.

A key is an AscendJob. ``reconciler`` plans the writes.
"""

from collections.abc import Sequence

from scheduler.api.acjob import (
    AscendJob,
)
from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP, QUEUE, SERVICE, find_kind
from scheduler.api.messages import scheduler_problems
from scheduler.api.names import EVENT_MALFORMED, RESCHEDULING_STATE, SYSTEM_NAMESPACE
from scheduler.api.objects import ConfigMap, KubeObject, OwnerReference, Pod, controller_of
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.acjob.hot_switch import is_switched, marks_differ
from scheduler.controllers.acjob.manifests import VERSION
from scheduler.controllers.acjob.reconciler import AscendJobReconciler, AscendJobState
from scheduler.controllers.acjob.restarts import has_failed
from scheduler.controllers.acjob.scaling_rule import is_running, service_of
from scheduler.controllers.controller import Controller, latest, observes
from scheduler.controllers.effects import Effect, Plan, warning
from scheduler.controllers.retry_record import RetryRecord, number_in, retry_times
from scheduler.controllers.store import Key, Store, key_of


class AscendJobController(Controller):
    """Reconciles AscendJobs."""

    name = "acjob-controller"
    reads = (QUEUE,)

    def __init__(self, store: Store, schedulers: Sequence[str]) -> None:
        """``schedulers``: the names of the schedulers; the first is the schedulerName of Pods whose job names none. A
        job that names another one gets a Warning."""
        self._store = store
        self._schedulers = tuple(schedulers)
        self._states: dict[Key, AscendJobState] = {}
        self._record: RetryRecord | None = None

    # --- observing ----------------------------------------------------------------------------------------------------
    @observes(ACJOB)
    def _observe_job(self, old: AscendJob | None, new: AscendJob | None, now: float) -> list[Key]:
        return [key_of(latest(old, new))]

    @observes(CONFIG_MAP)
    def _observe_record(self, old: ConfigMap | None, new: ConfigMap | None, now: float) -> list[Key]:
        key = key_of(latest(old, new))
        if key == (SYSTEM_NAMESPACE, RESCHEDULING_STATE):
            return [key_of(job) for job in self._store.all(ACJOB) if retry_times(job.metadata.labels or {})]
        services = ((job, service_of(job)) for job in self._store.all(ACJOB))
        return [key_of(job) for job, each in services if each is not None and (each.namespace, each.rule) == key]

    @observes(POD_GROUP)
    def _observe_group(self, old: PodGroup | None, new: PodGroup | None, now: float) -> list[Key]:
        """Its job, and the jobs of its service that a scaling rule may let create Pods now."""
        group = latest(old, new)
        service, owner = service_of(group), _job_of(group)
        keys = [] if owner is None else [(group.metadata.namespace, owner.name)]
        before, after = (each is not None and is_running(each) for each in (old, new))
        if service is not None and before != after:
            keys += [key_of(job) for job in self._store.all(ACJOB) if service_of(job) == service]
        return keys

    @observes(SERVICE)
    def _observe_service(self, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        obj = latest(old, new)
        owner = _job_of(obj)
        return [] if owner is None else [(obj.metadata.namespace, owner.name)]

    @observes(POD)
    def _observe_pod(self, old: Pod | None, new: Pod | None, now: float) -> list[Key]:
        pod = latest(old, new)
        owner = _job_of(pod)
        if owner is None or not _concerns(old, new):
            return []
        key = pod.metadata.namespace, owner.name
        job = self._store.get(ACJOB, *key)
        is_lost = new is None and not is_switched(pod, self._store.pods_of(key[0], owner.uid))
        if is_lost and job is not None and job.metadata.uid == owner.uid:
            state = self._state_of(key)
            state.lost = max(state.lost or 0, number_in((pod.metadata.labels or {}).get(VERSION, "")))
            state.failed = state.failed or has_failed(pod)
        return [key]

    def _state_of(self, key: Key) -> AscendJobState:
        return self._states.setdefault(key, AscendJobState())

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        job = self._store.get(ACJOB, *key)
        if job is None or job.metadata.deletion_timestamp is not None:
            self._states.pop(key, None)
            return Plan()
        state = self._state_of(key)
        warnings = self._scheduler_warnings(job, state)
        plan = AscendJobReconciler(self._store, job, state, self._schedulers[0], self._read_record, now).plan()
        if warnings:
            plan.stages.insert(0, warnings)
        return plan

    def _scheduler_warnings(self, job: AscendJob, state: AscendJobState) -> list[Effect]:
        """Warnings about schedulerNames of a new or changed spec."""
        spec = job.spec
        before, state.checked = state.checked, spec
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

    def _read_record(self) -> RetryRecord | None:
        """The record of the scheduler; None if there is none, or it cannot be read."""
        config_map = self._store.get(CONFIG_MAP, SYSTEM_NAMESPACE, RESCHEDULING_STATE)
        if config_map is None:
            return None
        if self._record is None or self._record.source is not config_map:
            self._record = RetryRecord(config_map)
        return self._record


def _job_of(obj: KubeObject) -> OwnerReference | None:
    """The reference to the AscendJob that manages an object."""
    owner = controller_of(obj)
    return owner if owner is not None and find_kind(owner.api_version, owner.kind) is ACJOB else None


def _concerns(old: Pod | None, new: Pod | None) -> bool:
    if old is None or new is None or (old.status.phase, old.metadata.uid) != (new.status.phase, new.metadata.uid):
        return True
    return marks_differ(old, new)
