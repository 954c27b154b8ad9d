"""A change of the number of workers of an AscendJob that has its PodGroup.

Only workers can be scaled: a job has one leader or none. The PodGroup changes first, so that the gang is never larger
than the job; then Pods are created, or deleted, the highest index first. Pods that run keep their environment.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scheduler.api.acjob import AscendJob, JobRoles
from scheduler.api.kinds import ACJOB, POD, POD_GROUP
from scheduler.api.objects import Pod
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.acjob.hot_switch import place_of
from scheduler.controllers.acjob.manifests import members
from scheduler.controllers.effects import Delete, Effect, Patch, diff, normal
from scheduler.controllers.store import key_of

Json = dict[str, Any]
INVALID_SCALING: Final = "InvalidScalingConfig"
_SCALED: Final = "Scaled"
"""Reasons of Events."""


def scaling_problem(job: AscendJob, roles: JobRoles, group: PodGroup) -> str:
    """Returns why the new number of workers does not take effect; "" if it does, or if the job is not scaled."""
    minimum = _min_available(job)
    if minimum is None or minimum <= roles.total or _sizes(group) == _wanted_sizes(roles):
        return ""
    return (
        f"Job {job.metadata.namespace}/{job.metadata.name} is not scaled: it would have {roles.total} Pods, fewer than "
        f"schedulingPolicy.minAvailable, {minimum}. Its PodGroup and its Pods stay as they are."
    )


def group_changes(job: AscendJob, roles: JobRoles, group: PodGroup, manifest: Json, existing: int) -> Iterator[Effect]:
    """Yields the patch of the PodGroup of a job that was scaled, and an Event. ``manifest``: the PodGroup as it is to
    be; ``existing``: number of Pods of the job."""
    before, after, minimum = _sizes(group), _wanted_sizes(roles), _min_available(job)
    if before == after and minimum in (None, group.spec.min_member):
        return
    resources = dict(group.spec.min_resources or {})
    known = {"minMember": group.spec.min_member, "minTaskMember": before, "minResources": resources}
    change = diff(known, {field: manifest["spec"][field] for field in known})
    yield Patch(POD_GROUP, *key_of(group), {"spec": change}, group.metadata.uid)
    changed = [role for role in {**before, **after} if before.get(role, 0) != after.get(role, 0)]
    if changed:
        texts = (f"{before.get(role, 0)} to {after.get(role, 0)} Pods of the role {role}" for role in changed)
        text = f"Job {job.metadata.namespace}/{job.metadata.name} is scaled from {', '.join(texts)}."
        if existing and roles.chip_pods:
            text += " Pods that run keep their environment, such as the number of ranks, until they are deleted."
        yield normal(ACJOB, job, _SCALED, text)


def surplus_deletions(job: AscendJob, roles: JobRoles, pods: Mapping[str, Pod]) -> list[Effect]:
    """Returns the deletions of the Pods whose place the job has no more, and of their backups, the highest index first.
    ``pods``: all Pods of the job, by name."""
    places = {name for name, _, _ in members(job, roles)}
    found = sorted(
        (
            (index, pod)
            for pod in pods.values()
            if pod.metadata.deletion_timestamp is None
            and (index := _index(pod)) is not None
            and place_of(job, pod) not in places
        ),
        key=lambda each: (-each[0], each[1].metadata.name),
    )
    return [Delete(POD, *key_of(pod), pod.metadata.uid) for _, pod in found]


def _min_available(job: AscendJob) -> int | None:
    policy = job.spec.run_policy.scheduling_policy
    return None if policy is None else policy.min_available


def _sizes(group: PodGroup) -> dict[str, int]:
    """Label of a role -> number of its Pods, as a PodGroup has them."""
    return dict(group.spec.min_task_member or {})


def _wanted_sizes(roles: JobRoles) -> dict[str, int]:
    """Label of a role -> number of its Pods, as the job has them."""
    return {role.label: role.replicas for role in roles.roles}


def _index(pod: Pod) -> int | None:
    """The index that a Pod has in its role; None: the controller has not created it."""
    labels = pod.metadata.labels or {}
    text = labels.get("replica-index", "")
    return int(text) if "replica-type" in labels and text.isascii() and text.isdecimal() and len(text) < 8 else None
