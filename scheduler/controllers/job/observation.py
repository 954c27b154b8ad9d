"""What the controller sees of a job when it reconciles the job: its phase, its PodGroup and its Pods."""

import msgspec

from scheduler.api import batch
from scheduler.api.batch import JobPhase
from scheduler.api.kinds import POD_GROUP, VCJOB
from scheduler.api.names import CONDITION_ALTERNATIVE, CONDITION_SCHEDULED
from scheduler.api.objects import KubeObject, OwnerReference, controlled_by_kind
from scheduler.api.scheduling import PodGroup, PodGroupCondition
from scheduler.api.times import seconds_of
from scheduler.controllers.job.alternatives import AlternativeChoice
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.pods import FAILED, Members, members_of
from scheduler.controllers.retry_record import restarts_follow
from scheduler.controllers.store import Store


class JobObservation(msgspec.Struct, frozen=True):
    """A job, its PodGroup and its Pods at one moment."""

    job: batch.Job
    now: float
    """The time of the observation, in seconds since the epoch."""
    phase: JobPhase | None
    """The phase of the job; None: the job was never reconciled."""
    parsed_spec: ParsedSpec
    group: PodGroup | None
    members: Members
    choice: AlternativeChoice | None = None
    """The alternative of a job whose tasks list several; None: they list none."""
    restarts_follow: bool = False
    """Whether Pods have failed about which the job does nothing, because the scheduler restarts it."""

    @property
    def group_uid(self) -> str:
        return "" if self.group is None else self.group.metadata.uid

    @property
    def admitted(self) -> bool:
        """Whether the queue has admitted the PodGroup. Pods are created only then."""
        return self.group is not None and self.group.status.phase not in ("", "Pending")

    @property
    def may_prepare(self) -> bool:
        """Whether the PodGroup may be brought up to date with the job: no Pods of another alternative exist."""
        return not any(member.of_another for member in self.members.values())

    @property
    def may_create_pods(self) -> bool:
        """Whether Pods may be created: the queue has admitted the PodGroup, which is prepared for their alternative."""
        return self.admitted and self.may_prepare and (self.choice is None or self.choice.prepared)


def observe(
    store: Store, job: batch.Job, parsed_spec: ParsedSpec, now: float, choice: AlternativeChoice | None = None
) -> JobObservation:
    """Reads a job, its PodGroup and its Pods from the store. ``choice``: the alternative that the job has."""
    meta = job.metadata
    pods = store.pods_of(meta.namespace, meta.uid)
    members = members_of(parsed_spec, pods.values(), job, "" if choice is None else choice.name)
    awaits = parsed_spec.ignores_failures and any(member.phase == FAILED for member in members.values())
    follow = awaits and restarts_follow(store, f"{meta.namespace}/{group_name(job)}", meta.uid, meta.labels or {})
    return JobObservation(job, now, phase_of(job), parsed_spec, group_in(store, job), members, choice, follow)


def group_in(store: Store, job: batch.Job) -> PodGroup | None:
    """The PodGroup of a job. It has its name, or the one that older versions of Volcano gave it."""
    meta, name = job.metadata, group_name(job)
    group = store.get(POD_GROUP, meta.namespace, name)
    if group is None:
        older = store.get(POD_GROUP, meta.namespace, meta.name)
        owner = None if older is None else controlled_by_kind(older, VCJOB.group, VCJOB.name)
        group = older if owner is not None and owner.uid == meta.uid else None
    return group


def phase_of(job: batch.Job) -> JobPhase | None:
    """The phase; None of a job that was never reconciled. An unknown phase counts as Pending, as in Volcano."""
    phase = job.status.state.phase
    if not phase:
        return None
    try:
        return JobPhase(phase)
    except ValueError:
        return JobPhase.PENDING


def group_name(job: batch.Job) -> str:
    """The name of the PodGroup of a job."""
    return f"{job.metadata.name}-{job.metadata.uid}"


def job_of(obj: KubeObject) -> OwnerReference | None:
    """The vcjob that manages an object, or None."""
    return controlled_by_kind(obj, VCJOB.group, VCJOB.name)


def why_pending(group: PodGroup | None) -> str:
    """The message of the latest condition that holds, unless that says the group is scheduled; "" if there is none."""
    latest: PodGroupCondition | None = None
    for condition in (group.status.conditions if group is not None else None) or ():
        if condition.type == CONDITION_ALTERNATIVE:
            continue  # it says which alternative is used
        if condition.status == "True" and (latest is None or _moment(condition) > _moment(latest)):
            latest = condition
    return "" if latest is None or latest.type == CONDITION_SCHEDULED else latest.message


def _moment(condition: PodGroupCondition) -> float:
    return seconds_of(condition.last_transition_time)
