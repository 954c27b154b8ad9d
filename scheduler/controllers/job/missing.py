"""Finds what a running job lacks: claims, plugins' objects, a PodGroup, and Pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from scheduler.api import batch
from scheduler.api.kinds import CLAIM, POD, QUEUE, VCJOB, Kind
from scheduler.api.names import (
    EVENT_FAILED_CREATE,
    EVENT_PLUGIN_ERROR,
    EVENT_PVC_ERROR,
    JOB_FORWARDING,
    REASON_QUEUE_NOT_FOUND,
)
from scheduler.api.objects import Pod
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.effects import BuildAndCreate, Create, Delete, Effect, Json, Patch
from scheduler.controllers.job.observation import JobObservation
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.plugins.contract import JobPlugin, JobPluginError, WantedObject, wanted_objects
from scheduler.controllers.job.pod import PodContext, create_claim, create_pod
from scheduler.controllers.job.podgroup import create_group, gang_now, update_group, waiting_tasks
from scheduler.controllers.store import Key, Store

PLUGIN_KEY = "plugin-"
"""Prefix of the keys of plugins in ``controlledResources``."""
_UNLISTED = frozenset({"hcclrank"})
"""Plugins that a job's status does not name, as in Volcano."""


class Obstacle(NamedTuple):
    """Why an object cannot be created now."""

    reason: str
    """The reason of the Warning Event; "": the problem is temporary, so there is no Event."""
    message: str
    waits_for: tuple[Kind, Key] | None = None
    """The object whose creation or deletion would remove the obstacle."""


@dataclass(slots=True)
class MissingObjects:
    """The missing objects, in the order in which they are created."""

    objects: list[Effect] = field(default_factory=list)
    """Claims and plugins' objects."""
    resources: dict[str, str] = field(default_factory=dict)
    """The status's ``controlledResources`` once the objects are there."""
    group: list[Effect] = field(default_factory=list)
    refresh: list[Effect] = field(default_factory=list)
    """Updates of plugins' objects for a changed number of Pods."""
    pods: list[Effect] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)


class RunningJob(msgspec.Struct, frozen=True):
    """A job that is to have its Pods, and what it needs for them."""

    seen: JobObservation
    store: Store
    plugins: Mapping[str, JobPlugin]
    status: batch.JobStatus
    """The new status."""
    group_spec: Json
    """The spec of its PodGroup with all tasks."""
    group_annotations: Mapping[str, str]
    """The annotations of its PodGroup about its alternatives."""
    refreshed: bool
    """The plugins' objects are up to date."""


def find_missing(running: RunningJob, surplus: bool) -> MissingObjects:
    """Returns what a running job lacks. ``surplus``: there are Pods that the spec does not request."""
    seen, group = running.seen, running.seen.group
    missing = MissingObjects(resources=listed_resources(seen, running.status))
    _objects(running, missing)
    _forward(running, missing)
    if missing.obstacles:
        return missing
    if not seen.may_prepare:
        return missing
    gang = gang_now(seen, running.group_spec, running.group_annotations)
    if group is None:
        obstacle = no_queue(running.store, seen.parsed_spec)
        if obstacle is None:
            missing.group.append(create_group(seen.job, gang))
        else:
            missing.obstacles.append(obstacle)
        return missing
    if group.metadata.deletion_timestamp is not None:
        return missing
    update = update_group(group, gang)
    if update is not None:
        missing.group.append(update)
    if seen.may_create_pods:
        _pods(running, group, missing)
    if (missing.pods or surplus) and not running.refreshed:
        _refresh(running, missing)
    return missing


def no_queue(store: Store, parsed_spec: ParsedSpec) -> Obstacle | None:
    """An obstacle if the job's Queue does not exist, else None."""
    name = parsed_spec.queue
    if store.get(QUEUE, "", name) is not None:
        return None
    return Obstacle(REASON_QUEUE_NOT_FOUND, f"queue {name} is not there; the job waits for it", (QUEUE, ("", name)))


# --- claims and plugins' objects --------------------------------------------------------------------------------------
def listed_resources(seen: JobObservation, status: batch.JobStatus) -> dict[str, str]:
    """The objects that the status lists as created, by key. The first status lists none. The PodGroup is created last,
    so if there is one, all exist."""
    listed = dict(status.controlled_resources or {})
    if listed or seen.group is None:
        return listed
    claims = {volume.resource: volume.claim for volume in seen.parsed_spec.volumes}
    return claims | {PLUGIN_KEY + name: name for name in seen.job.spec.plugins or () if name not in _UNLISTED}


def _objects(running: RunningJob, missing: MissingObjects) -> None:
    """Adds the claims and plugins' objects that the status does not list yet."""
    job, namespace = running.seen.job, running.seen.job.metadata.namespace
    for volume in running.seen.parsed_spec.volumes:
        if volume.resource in missing.resources:
            continue
        there = running.store.get(CLAIM, namespace, volume.claim) is not None
        if volume.spec is None and not there:
            message = (
                f"Failed to create PVC, err: pvc {volume.claim} is not found, the job will be in the Pending state "
                "until the PVC is created"
            )
            missing.obstacles.append(Obstacle(EVENT_PVC_ERROR, message, (CLAIM, (namespace, volume.claim))))
            continue
        if not there:
            missing.objects.append(create_claim(job, volume))
        missing.resources[volume.resource] = volume.claim
    for name, plugin in running.plugins.items():
        if missing.resources.get(PLUGIN_KEY + name) == name:
            continue
        try:
            missing.objects += [_creation(job, wanted) for wanted in wanted_objects({name: plugin}, job)]
        except JobPluginError as error:
            missing.obstacles.append(plugin_obstacle(error))
            continue
        if name not in _UNLISTED:
            missing.resources[PLUGIN_KEY + name] = name


def _creation(job: batch.Job, wanted: WantedObject) -> Effect:
    """The effect that creates an object of a plugin."""
    if wanted.expensive:
        return BuildAndCreate(wanted.kind, job.metadata.namespace, wanted.name, wanted.build, job.metadata.uid)
    return Create(wanted.kind, wanted.build(), job.metadata.uid)


def plugin_deletions(job: batch.Job, plugins: Mapping[str, JobPlugin]) -> list[Effect]:
    """Deletions of all plugins' objects that the job owns. Raises JobPluginError."""
    meta = job.metadata
    return [Delete(wanted.kind, meta.namespace, wanted.name, owner=meta.uid) for wanted in wanted_objects(plugins, job)]


def _forward(running: RunningJob, missing: MissingObjects) -> None:
    """Annotates a job whose queue extends to other clusters."""
    meta = running.seen.job.metadata
    queue = running.store.get(QUEUE, "", running.seen.parsed_spec.queue)
    if queue is not None and queue.spec.extend_clusters and JOB_FORWARDING not in (meta.annotations or {}):
        body = {"metadata": {"annotations": {JOB_FORWARDING: "true"}}}
        missing.objects.append(Patch(VCJOB, meta.namespace, meta.name, body, meta.uid))


def _refresh(running: RunningJob, missing: MissingObjects) -> None:
    """Updates the plugins' objects whose data follows the number of Pods."""
    meta = running.seen.job.metadata
    try:
        for wanted in wanted_objects(running.plugins, running.seen.job):
            if wanted.refresh:
                body = {"data": wanted.build()["data"]}
                missing.refresh.append(Patch(wanted.kind, meta.namespace, wanted.name, body, owner=meta.uid))
    except JobPluginError as error:
        missing.obstacles.append(plugin_obstacle(error))


def plugin_obstacle(error: JobPluginError) -> Obstacle:
    """The obstacle that a plugin does not fit the job."""
    return Obstacle(EVENT_PLUGIN_ERROR, f"Execute plugin when job add failed, err: {error}")


# --- Pods -------------------------------------------------------------------------------------------------------------
def _pods(running: RunningJob, group: PodGroup, missing: MissingObjects) -> None:
    """Adds the missing Pods of tasks whose dependencies are ready."""
    seen, spec = running.seen, running.seen.parsed_spec
    if spec.slots.keys() <= seen.members.keys():
        return
    context = PodContext(seen.job, spec, running.plugins, running.status, group.metadata.name)
    waiting = {task.name for task in waiting_tasks(spec, seen.members)}
    for name, slot in spec.slots.items():
        if name in seen.members or slot.task.name in waiting:
            continue
        existing = running.store.get(POD, seen.job.metadata.namespace, name)
        if existing is not None:
            missing.obstacles.append(_name_conflict(existing))
            continue
        try:
            missing.pods.append(create_pod(context, slot, name))
        except JobPluginError as error:
            missing.obstacles.append(plugin_obstacle(error))
            return


def _name_conflict(pod: Pod) -> Obstacle:
    """The obstacle that a Pod of another owner has the name of a missing Pod."""
    meta = pod.metadata
    owners = ", ".join(f"{owner.kind} {owner.name} ({owner.uid})" for owner in meta.owner_references or ())
    problem = f"exists already, owned by {owners or 'no controller'}"
    message = f"Error creating pods: [pod {meta.namespace}/{meta.name} {problem}]"
    return Obstacle("" if meta.deletion_timestamp else EVENT_FAILED_CREATE, message, (POD, (meta.namespace, meta.name)))
