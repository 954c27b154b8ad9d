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
from scheduler.controllers.effects import BuildAndCreate, Create, Delete, Effect, Patch
from scheduler.controllers.job.dependencies import GangSpec, waiting_tasks
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.plugins.contract import (
    JobPlugin,
    JobPluginError,
    WantedObject,
    mutate_pod_by_plugins,
    wanted_objects,
)
from scheduler.controllers.job.pod import pod_manifest
from scheduler.controllers.job.podgroup import admitted, create_group, update_group
from scheduler.controllers.job.pods import Member
from scheduler.controllers.job.volumes import ClaimedVolume, create_claim, mount_volumes, volumes_of
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


class Context(msgspec.Struct, frozen=True):
    """Everything known about a running job."""

    store: Store
    job: batch.Job
    parsed_spec: ParsedSpec
    plugins: Mapping[str, JobPlugin]
    status: batch.JobStatus
    """The new status."""
    members: Mapping[str, Member]
    group: PodGroup | None
    gang: GangSpec
    """What the PodGroup is to be."""
    refreshed: bool


def find_missing(context: Context, surplus: bool) -> MissingObjects:
    """``surplus``: there are Pods that the spec does not ask for."""
    missing = MissingObjects(resources=dict(context.status.controlled_resources or {}))
    volumes, _ = volumes_of(context.job)
    _objects(context, volumes, missing)
    _forward(context, missing)
    group = context.group
    if missing.obstacles:
        return missing
    if group is None:
        obstacle = no_queue(context.store, context.parsed_spec)
        if obstacle is None:
            missing.group.append(create_group(context.job, context.gang))
        else:
            missing.obstacles.append(obstacle)
        return missing
    if group.metadata.deletion_timestamp is not None:
        return missing
    update = update_group(group, context.gang)
    if update is not None:
        missing.group.append(update)
    if admitted(group):
        _pods(context, group, volumes, missing)
    if (missing.pods or surplus) and not context.refreshed:
        _refresh(context, missing)
    return missing


def no_queue(store: Store, parsed_spec: ParsedSpec) -> Obstacle | None:
    """An obstacle if the job's Queue does not exist, else None."""
    name = parsed_spec.queue
    if store.get(QUEUE, "", name) is not None:
        return None
    return Obstacle(REASON_QUEUE_NOT_FOUND, f"queue {name} is not there; the job waits for it", (QUEUE, ("", name)))


def _objects(context: Context, volumes: list[ClaimedVolume], missing: MissingObjects) -> None:
    """Claims and plugins' objects that the status does not list yet."""
    job, namespace = context.job, context.job.metadata.namespace
    missing.resources = missing.resources or made(job, context.group)
    for volume in volumes:
        name = f"volume-pvc-{volume.claim}"
        if name in missing.resources:
            continue
        there = context.store.get(CLAIM, namespace, volume.claim) is not None
        if volume.spec is None and not there:
            message = (
                f"Failed to create PVC, err: pvc {volume.claim} is not found, the job will be in the Pending state "
                "until the PVC is created"
            )
            missing.obstacles.append(Obstacle(EVENT_PVC_ERROR, message, (CLAIM, (namespace, volume.claim))))
            continue
        if not there:
            missing.objects.append(create_claim(job, volume))
        missing.resources[name] = volume.claim
    for name, plugin in context.plugins.items():
        if missing.resources.get(PLUGIN_KEY + name) == name:
            continue
        try:
            brought = wanted_objects({name: plugin}, job)
            missing.objects += [_creation(job, wanted) for wanted in brought]
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


def made(job: batch.Job, group: PodGroup | None) -> dict[str, str]:
    """The objects of a job whose status lists none yet, as the first status does not. The PodGroup is created last, so
    if there is one, all exist."""
    if group is None:
        return {}
    claims = {f"volume-pvc-{volume.claim}": volume.claim for volume in volumes_of(job)[0]}
    return claims | {PLUGIN_KEY + name: name for name in job.spec.plugins or () if name not in _UNLISTED}


def plugin_deletions(job: batch.Job, plugins: Mapping[str, JobPlugin]) -> list[Effect]:
    """Deletions of all plugins' objects that the job owns. Raises PluginError."""
    meta = job.metadata
    brought = wanted_objects(plugins, job)
    return [Delete(wanted.kind, meta.namespace, wanted.name, owner=meta.uid) for wanted in brought]


def _forward(context: Context, missing: MissingObjects) -> None:
    """Annotates a job whose queue extends to other clusters."""
    meta = context.job.metadata
    queue = context.store.get(QUEUE, "", context.parsed_spec.queue)
    if queue is not None and queue.spec.extend_clusters and JOB_FORWARDING not in (meta.annotations or {}):
        body = {"metadata": {"annotations": {JOB_FORWARDING: "true"}}}
        missing.objects.append(Patch(VCJOB, meta.namespace, meta.name, body, meta.uid))


def _refresh(context: Context, missing: MissingObjects) -> None:
    job = context.job
    try:
        for wanted in wanted_objects(context.plugins, job):
            if wanted.refresh:
                body, meta = {"data": wanted.build()["data"]}, job.metadata
                missing.refresh.append(Patch(wanted.kind, meta.namespace, wanted.name, body, owner=meta.uid))
    except JobPluginError as error:
        missing.obstacles.append(plugin_obstacle(error))


def plugin_obstacle(error: JobPluginError) -> Obstacle:
    return Obstacle(EVENT_PLUGIN_ERROR, f"Execute plugin when job add failed, err: {error}")


# --- Pods ---
def _pods(context: Context, group: PodGroup, volumes: list[ClaimedVolume], missing: MissingObjects) -> None:
    """The missing Pods of tasks whose dependencies are ready."""
    parsed_spec = context.parsed_spec
    if parsed_spec.slots.keys() <= context.members.keys():
        return
    waiting = {task.name for task in waiting_tasks(parsed_spec, context.members)}
    for name, slot in parsed_spec.slots.items():
        if name in context.members or slot.task.name in waiting:
            continue
        existing = context.store.get(POD, context.job.metadata.namespace, name)
        if existing is not None:
            missing.obstacles.append(_name_conflict(existing))
            continue
        pod = pod_manifest(context.job, parsed_spec, slot, name, group.metadata.name, context.status)
        try:
            mount_volumes(pod, context.job, volumes)
            mutate_pod_by_plugins(context.plugins, pod, slot.task.spec, slot.replica, context.job)
        except JobPluginError as error:
            missing.obstacles.append(plugin_obstacle(error))
            return
        missing.pods.append(Create(POD, pod))


def _name_conflict(pod: Pod) -> Obstacle:
    """A Pod that does not belong to the job has the name of one to be created."""
    meta = pod.metadata
    owners = ", ".join(f"{owner.kind} {owner.name} ({owner.uid})" for owner in meta.owner_references or ())
    problem = f"exists already, owned by {owners or 'no controller'}"
    message = f"Error creating pods: [pod {meta.namespace}/{meta.name} {problem}]"
    return Obstacle("" if meta.deletion_timestamp else EVENT_FAILED_CREATE, message, (POD, (meta.namespace, meta.name)))
