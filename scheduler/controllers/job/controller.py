"""job-controller: creates the PodGroups and Pods of vcjobs, and moves vcjobs through their phases."""

from collections.abc import Sequence

from scheduler.api import batch
from scheduler.api.batch import JOB_ACTIONS, Command
from scheduler.api.kinds import CLAIM, COMMAND, CONFIG_MAP, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, VCJOB, Kind
from scheduler.api.names import (
    EVENT_COMMAND_ISSUED,
    EVENT_FAILED_CREATE,
    EVENT_FAILED_DELETE,
    EVENT_PLUGIN_ERROR,
    EVENT_POD_GROUP_ERROR,
    EVENT_PVC_ERROR,
    EVENT_WARNING,
    RESCHEDULING_STATE,
    SYSTEM_NAMESPACE,
)
from scheduler.api.objects import ConfigMap, KubeObject, OwnerReference, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.commands import Commands
from scheduler.controllers.controller import Controller, latest, observes
from scheduler.controllers.effects import BuildAndCreate, Create, Delete, Effect, Patch, Plan, event
from scheduler.controllers.job.events import ObservedChange, observe_group, observe_pod
from scheduler.controllers.job.observation import job_of
from scheduler.controllers.job.reconciler import JobReconciler, MakePlugins
from scheduler.controllers.job.state import ReconcileState
from scheduler.controllers.retry_record import retry_times
from scheduler.controllers.store import Key, Store, key_of


class JobController(Controller):
    """Reconciles vcjobs."""

    name = "job-controller"
    reads = (QUEUE, CLAIM, PRIORITY_CLASS)

    def __init__(self, store: Store, make_plugins: MakePlugins, schedulers: Sequence[str] = ()) -> None:
        """``make_plugins`` creates the plugins that a job names, or raises JobPluginError. ``schedulers``: the names
        of the schedulers; a job that names another one gets a Warning. Empty: they are not known."""
        self._store = store
        self._schedulers = tuple(schedulers)
        self._make_plugins = make_plugins
        self._states: dict[Key, ReconcileState] = {}
        self._commands = Commands(store, VCJOB, JOB_ACTIONS, EVENT_COMMAND_ISSUED)
        self._blocked: dict[tuple[Kind, Key], set[Key]] = {}
        """Kind and key of an object -> the jobs that its creation or deletion unblocks."""

    # --- observing ----------------------------------------------------------------------------------------------------
    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        observer = self.observers.get(kind)
        keys = [] if observer is None else observer(self, old, new, now)
        if self._blocked and (old is None or new is None):
            keys += self._blocked.pop((kind, key_of(latest(old, new))), ())
        return keys

    @observes(COMMAND)
    def _observe_command(self, old: Command | None, new: Command | None, now: float) -> list[Key]:
        return self._commands.observe(old, new, now)

    @observes(VCJOB)
    def _observe_job(self, old: batch.Job | None, new: batch.Job | None, now: float) -> list[Key]:
        if (
            old is not None
            and new is not None
            and old.metadata.uid == new.metadata.uid
            and old.status.state.phase == new.status.state.phase
            and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
            and old.spec == new.spec
        ):
            return []
        return [key_of(latest(old, new))]

    @observes(CONFIG_MAP)
    def _observe_record(self, old: ConfigMap | None, new: ConfigMap | None, now: float) -> list[Key]:
        if key_of(latest(old, new)) != (SYSTEM_NAMESPACE, RESCHEDULING_STATE):
            return []
        return [key_of(job) for job in self._store.all(VCJOB) if retry_times(job.metadata.labels or {})]

    @observes(POD)
    def _observe_pod(self, old: Pod | None, new: Pod | None, now: float) -> list[Key]:
        pod = latest(old, new)
        owner = job_of(pod)
        return [] if owner is None else self._handle(observe_pod(owner, old, new, now), pod.metadata.namespace, owner)

    @observes(POD_GROUP)
    def _observe_group(self, old: PodGroup | None, new: PodGroup | None, now: float) -> list[Key]:
        group = latest(old, new)
        owner = job_of(group)
        return (
            [] if owner is None else self._handle(observe_group(owner, old, new, now), group.metadata.namespace, owner)
        )

    def _handle(self, seen: ObservedChange, namespace: str, owner: OwnerReference) -> list[Key]:
        """Keeps the requests of a change of an object that a job owns. Returns the key of the job if the change
        matters."""
        if not seen.matters:
            return []
        key = (namespace, owner.name)
        job = self._store.get(VCJOB, *key)
        if seen.requests and (job is None or job.metadata.uid == owner.uid):  # not of a deleted namesake
            self._state_of(key, owner.uid).requests += seen.requests
        return [key]

    def _state_of(self, key: Key, uid: str) -> ReconcileState:
        """The state of the job with that name and uid."""
        state = self._states.get(key)
        if state is None or state.job_uid != uid:
            state = self._states[key] = ReconcileState(uid)
        return state

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        job = self._store.get(VCJOB, *key)
        if job is None:
            self._states.pop(key, None)
            self._unblock(key)
            return self._commands.without_target(key, now)
        if job.metadata.deletion_timestamp is not None:
            return Plan()  # the garbage collector deletes what it owns
        state = self._state_of(key, job.metadata.uid)
        reconciler = JobReconciler(self._store, self._make_plugins, state, job, now, self._schedulers)
        plan = reconciler.plan(self._commands)
        for obstacle in reconciler.obstacles:
            if obstacle.waits_for is not None:
                self._blocked.setdefault(obstacle.waits_for, set()).add(key)
        return plan

    def _unblock(self, key: Key) -> None:
        """Removes a deleted job from the jobs that wait for objects."""
        for obstacle in [obstacle for obstacle, waiting in self._blocked.items() if key in waiting]:
            self._blocked[obstacle].discard(key)
            if not self._blocked[obstacle]:
                del self._blocked[obstacle]

    # --- results ------------------------------------------------------------------------------------------------------
    def done(self, key: Key, now: float) -> None:
        state = self._states.get(key)
        if state is not None:
            state.finish_current()
            state.failures = 0

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        state = self._states.get(key)
        job = self._store.get(VCJOB, *key)
        if state is None or job is None:
            return
        state.failures += 1
        state.refreshed = False
        if not (isinstance(effect, Patch) and effect.kind in (VCJOB, POD)):
            state.finish_current()  # marks and status come first
        reason, message = _failure_event(effect, error)
        if reason:
            state.pending_events.append(event(VCJOB, job, EVENT_WARNING, reason, message))


def _failure_event(effect: Effect, error: str) -> tuple[str, str]:
    """Reason and message of the Event about a write that failed; "" where the log is enough."""
    match effect:
        case Create(kind) if kind is POD:
            return EVENT_FAILED_CREATE, f"Error creating pods: [{error}]"
        case Delete(kind) if kind is POD:
            return EVENT_FAILED_DELETE, f"Error deleting pods: [{error}]"
        case Create(kind) if kind is POD_GROUP:
            return EVENT_POD_GROUP_ERROR, f"Failed to create PodGroup, err: {error}"
        case Create(kind) if kind is CLAIM:
            return EVENT_PVC_ERROR, f"Failed to create PVC, err: {error}"
        case Create() | BuildAndCreate():
            return EVENT_PLUGIN_ERROR, f"Execute plugin when job add failed, err: {error}"
    return "", ""
