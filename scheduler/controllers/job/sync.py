"""What a job that is to run is to have: claims, what plugins bring, a PodGroup, and Pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

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
from scheduler.api.scheduling import PodGroup, Queue
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.controllers.effects import Create, Delete, Effect, Json, Patch
from scheduler.controllers.job.blueprint import Blueprint, Task
from scheduler.controllers.job.census import Member
from scheduler.controllers.job.plugins.contract import JobPlugin, PluginError, dress_pod, wanted_objects
from scheduler.controllers.job.pod import pod_manifest
from scheduler.controllers.job.podgroup import admitted, create_group, update_group
from scheduler.controllers.job.volumes import Volume, create_claim, mount_volumes, volumes_of
from scheduler.controllers.store import Key, Store

PLUGIN_KEY = "plugin-"
"""Prefix of the keys of plugins in ``controlledResources``."""
_UNLISTED = frozenset({"hcclrank"})
"""Plugins that a job's status does not name, as in Volcano."""


class Obstacle(NamedTuple):
    """Why something cannot be made now."""

    reason: str
    """Of the Warning Event; "": it will pass, nobody need be told."""
    message: str
    waits_for: tuple[Kind, Key] | None = None
    """The object whose coming or going would help."""


@dataclass(slots=True)
class Wants:
    """What is missing, in the order in which it is to be made."""

    objects: list[Effect] = field(default_factory=list)
    """Claims and what plugins bring."""
    resources: dict[str, str] = field(default_factory=dict)
    """The status's ``controlledResources`` once the objects are there."""
    group: list[Effect] = field(default_factory=list)
    refresh: list[Effect] = field(default_factory=list)
    """What plugins brought, for another number of Pods."""
    pods: list[Effect] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Context:
    """What is known of a job that is to run."""

    store: Store
    job: batch.Job
    blueprint: Blueprint
    plugins: Mapping[str, JobPlugin]
    status: batch.JobStatus
    """As it is about to be."""
    members: Mapping[str, Member]
    group: PodGroup | None
    group_spec: Json
    refreshed: bool


def missing(context: Context, surplus: bool) -> Wants:
    """What is to be made. ``surplus``: there are Pods that the spec has no place for."""
    wants = Wants(resources=dict(context.status.controlled_resources or {}))
    volumes, _ = volumes_of(context.job)
    _objects(context, volumes, wants)
    _forward(context, wants)
    group = context.group
    if wants.obstacles:
        return wants
    if group is None:
        obstacle = no_queue(context.store, context.blueprint)
        if obstacle is None:
            wants.group.append(create_group(context.job, context.group_spec))
        else:
            wants.obstacles.append(obstacle)
        return wants
    if group.metadata.deletion_timestamp is not None:
        return wants
    update = update_group(group, context.group_spec)
    if update is not None:
        wants.group.append(update)
    if admitted(group):
        _pods(context, group, volumes, wants)
    if (wants.pods or surplus) and not context.refreshed:
        _refresh(context, wants)
    return wants


def no_queue(store: Store, blueprint: Blueprint) -> Obstacle | None:
    """That the job's Queue does not exist; None if it does."""
    name = blueprint.queue
    if store.get(QUEUE, Queue, "", name) is not None:
        return None
    return Obstacle(REASON_QUEUE_NOT_FOUND, f"queue {name} is not there; the job waits for it", (QUEUE, ("", name)))


def _objects(context: Context, volumes: list[Volume], wants: Wants) -> None:
    """Claims and plugins' objects that the status does not list yet."""
    job, namespace = context.job, context.job.metadata.namespace
    wants.resources = wants.resources or made(job, context.group)
    for volume in volumes:
        name = f"volume-pvc-{volume.claim}"
        if name in wants.resources:
            continue
        there = context.store.get(CLAIM, PersistentVolumeClaim, namespace, volume.claim) is not None
        if volume.spec is None and not there:
            message = (
                f"Failed to create PVC, err: pvc {volume.claim} is not found, the job will be in the Pending state "
                "until the PVC is created"
            )
            wants.obstacles.append(Obstacle(EVENT_PVC_ERROR, message, (CLAIM, (namespace, volume.claim))))
            continue
        if not there:
            wants.objects.append(create_claim(job, volume))
        wants.resources[name] = volume.claim
    for name, plugin in context.plugins.items():
        if wants.resources.get(PLUGIN_KEY + name) == name:
            continue
        try:
            brought = wanted_objects({name: plugin}, job)
            wants.objects += [Create(wanted.kind, wanted.build(), job.metadata.uid) for wanted in brought]
        except PluginError as error:
            wants.obstacles.append(plugin_obstacle(error))
            continue
        if name not in _UNLISTED:
            wants.resources[PLUGIN_KEY + name] = name


def made(job: batch.Job, group: PodGroup | None) -> dict[str, str]:
    """What a job has of which the status lists nothing yet: the first one does not. The PodGroup is made last, so where
    there is one there is all."""
    if group is None:
        return {}
    claims = {f"volume-pvc-{volume.claim}": volume.claim for volume in volumes_of(job)[0]}
    return claims | {PLUGIN_KEY + name: name for name in job.spec.plugins or () if name not in _UNLISTED}


def withdrawn(job: batch.Job, plugins: Mapping[str, JobPlugin]) -> list[Effect]:
    """The deletion of all that plugins brought to a job and that is the job's. Raises PluginError."""
    meta = job.metadata
    brought = wanted_objects(plugins, job)
    return [Delete(wanted.kind, meta.namespace, wanted.name, owner=meta.uid) for wanted in brought]


def _forward(context: Context, wants: Wants) -> None:
    """A job in a queue that reaches other clusters says so."""
    meta = context.job.metadata
    queue = context.store.get(QUEUE, Queue, "", context.blueprint.queue)
    if queue is not None and queue.spec.extend_clusters and JOB_FORWARDING not in (meta.annotations or {}):
        body = {"metadata": {"annotations": {JOB_FORWARDING: "true"}}}
        wants.objects.append(Patch(VCJOB, meta.namespace, meta.name, body, meta.uid))


def _refresh(context: Context, wants: Wants) -> None:
    job = context.job
    try:
        for wanted in wanted_objects(context.plugins, job):
            if wanted.refresh:
                body, meta = {"data": wanted.build()["data"]}, job.metadata
                wants.refresh.append(Patch(wanted.kind, meta.namespace, wanted.name, body, owner=meta.uid))
    except PluginError as error:
        wants.obstacles.append(plugin_obstacle(error))


def plugin_obstacle(error: PluginError) -> Obstacle:
    return Obstacle(EVENT_PLUGIN_ERROR, f"Execute plugin when job add failed, err: {error}")


# --- Pods ---
def _pods(context: Context, group: PodGroup, volumes: list[Volume], wants: Wants) -> None:
    """Pods that are to be and are not, of tasks that wait for no other."""
    blueprint = context.blueprint
    if blueprint.slots.keys() <= context.members.keys():
        return
    waiting = {task.name for task in blueprint.tasks.values() if not _may_start(task, context)}
    for name, slot in blueprint.slots.items():
        if name in context.members or slot.task.name in waiting:
            continue
        stranger = context.store.get(POD, Pod, context.job.metadata.namespace, name)
        if stranger is not None:
            wants.obstacles.append(_in_the_way(stranger))
            continue
        pod = pod_manifest(context.job, blueprint, slot, name, group.metadata.name, context.status)
        try:
            mount_volumes(pod, context.job, volumes)
            dress_pod(context.plugins, pod, slot.task.spec, slot.replica, context.job)
        except PluginError as error:
            wants.obstacles.append(plugin_obstacle(error))
            return
        wants.pods.append(Create(POD, pod))


def _may_start(task: Task, context: Context) -> bool:
    """Whether the tasks that a task waits for are far enough; of several, one may be enough."""
    if not task.depends:
        return True
    ready = (_is_ready(context.blueprint.tasks[name], context) for name in task.depends)
    return any(ready) if task.any_dependency else all(ready)


def _is_ready(task: Task, context: Context) -> bool:
    if task.min_available is None:
        return True
    mine = (member for member in context.members.values() if member.task == task.name)
    return sum(member.ready and not member.deleting for member in mine) >= task.min_available


def _in_the_way(pod: Pod) -> Obstacle:
    """A Pod that is not the job's has the name of one that is to be."""
    meta = pod.metadata
    owners = ", ".join(f"{owner.kind} {owner.name} ({owner.uid})" for owner in meta.owner_references or ())
    message = f"Error creating pods: [pod {meta.namespace}/{meta.name} is there already, owned by {owners or 'nobody'}]"
    return Obstacle("" if meta.deletion_timestamp else EVENT_FAILED_CREATE, message, (POD, (meta.namespace, meta.name)))
