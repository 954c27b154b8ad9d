"""pg-controller: every Pod of these schedulers is in a PodGroup.

A Pod that names no PodGroup gets the PodGroup of its owner, which is created for the first Pod of the owner. A key is
one such PodGroup: each Pod is annotated once, and one plan covers all Pods that wait for their PodGroup.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.api.batch import Workload
from scheduler.api.kinds import POD, POD_GROUP, find_kind
from scheduler.api.names import GROUP_NAME, PODGROUP_PREFIX
from scheduler.api.objects import ENDED_PHASES, KubeObject, Pod
from scheduler.api.scheduling import PodGroup
from scheduler.api.times import seconds_left
from scheduler.controllers.controller import Controller, observes
from scheduler.controllers.effects import Create, Delete, Effect, Json, Patch, Plan, diff
from scheduler.controllers.podgroup.manifest import (
    OWNERS,
    Owner,
    WantedGroup,
    group_name,
    inherited,
    manifest,
    wanted,
)
from scheduler.controllers.store import Key, Store, key_of

RECHECK_PERIOD: Final = 0.5
"""Seconds between two checks for Pods that an owner scaled to zero still has."""
_FIELDS: Final = ("minMember", "minResources", "priorityClassName", "queue", "networkTopology")
"""Fields of the spec that this controller writes."""


class PodGroupController(Controller):
    """Creates and updates the PodGroups of Pods that name none."""

    name = "pg-controller"

    def __init__(self, store: Store, scheduler_names: Collection[str], head_start: float = 0.0) -> None:
        """``scheduler_names``: the schedulers whose Pods are handled. ``head_start``: seconds that the scheduler has to
        bind plain Pods before their PodGroup is created: until then, these writes would only delay the binding, with
        which the scheduler writes the name of their PodGroup onto them."""
        self._store = store
        self._head_start = head_start
        self._head_starts: dict[Key, float] = {}
        """PodGroup of plain Pods -> when it is created."""
        self._schedulers = frozenset(scheduler_names)
        self._waiting: dict[Key, set[str]] = {}
        """PodGroup -> names of the Pods that belong to it and do not name it yet."""

    # --- observing ----------------------------------------------------------------------------------------------------
    @observes(POD_GROUP)
    def _observe_group(self, old: PodGroup | None, new: PodGroup | None, now: float) -> list[Key]:
        if old is not None and new is None and old.metadata.name.startswith(PODGROUP_PREFIX):
            return [key_of(old)]
        return []

    @observes(POD)
    def _observe_pod(self, old: Pod | None, new: Pod | None, now: float) -> list[Key]:
        before = None if old is None else self._place(old)
        after = None if new is None else self._place(new)
        if before == after:
            if new is None:
                return []
            return self._without_group(new) if old is None else self._resized(old, new)
        if before is not None:
            names = self._waiting[before.key]
            names.discard(before.name)
            if not names:
                del self._waiting[before.key]
        if after is None:
            return []
        self._waiting.setdefault(after.key, set()).add(after.name)
        return [after.key]

    def _without_group(self, pod: Pod) -> list[Key]:
        """The key of the PodGroup that the scheduler has named on a Pod, if it is still to be created."""
        key = (pod.metadata.namespace, group_name(pod))
        if (pod.metadata.annotations or {}).get(GROUP_NAME) != key[1] or not self._concerns(pod):
            return []
        return [key] if self._store.get(POD_GROUP, *key) is None else []

    def _resized(self, old: Pod, new: Pod) -> list[Key]:
        """The key of the PodGroup of a Pod whose requests have changed: its minResources follow from them."""
        was, now = old.spec, new.spec
        if (was.containers, was.init_containers, was.resources) == (now.containers, now.init_containers, now.resources):
            return []
        name = group_name(new)
        if (new.metadata.annotations or {}).get(GROUP_NAME) != name or not self._concerns(new):
            return []
        return [(new.metadata.namespace, name)]

    def _place(self, pod: Pod) -> "_Place | None":
        """The key of the PodGroup that a Pod has to be added to, or None."""
        meta = pod.metadata
        if (meta.annotations and meta.annotations.get(GROUP_NAME)) or not self._concerns(pod):
            return None
        return _Place((meta.namespace, group_name(pod)), meta.name, meta.uid)

    def _concerns(self, pod: Pod) -> bool:
        """Whether a Pod is to be in a PodGroup."""
        return pod.spec.scheduler_name in self._schedulers and _lives(pod)

    @observes(*OWNERS)
    def _observe_owner(self, old: Workload | None, new: Workload | None, now: float) -> list[Key]:
        if new is None:
            return []
        key = (new.metadata.namespace, PODGROUP_PREFIX + new.metadata.uid)
        if key in self._waiting:
            return [key]
        if old is not None and (_idle(old), inherited(old)) == (_idle(new), inherited(new)):
            return []
        return [key] if self._store.get(POD_GROUP, *key) is not None else []

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        group = self._store.get(POD_GROUP, *key)
        waiting = [self._store.get(POD, key[0], name) for name in self._waiting.get(key, ())]
        pods = [pod for pod in waiting if pod is not None]
        if pods:
            return self._admit(key, group, pods, now)
        self._head_starts.pop(key, None)
        pods = [pod for pod in self._store.pods_in_group(*key).values() if _lives(pod) and group_name(pod) == key[1]]
        return self._keep(group, pods)

    def _admit(self, key: Key, group: PodGroup | None, pods: Sequence[Pod], now: float) -> Plan:
        """Adds Pods to their PodGroup. An existing one is updated before, so that its minMember counts for them.
        A new one is created at the same time: its Pods are scheduled without it, or wait for it."""
        model = _newest(pods)
        owners, missing = self._owners(model)
        if missing and group is None:
            return Plan(problem=f"{missing}, so what its PodGroup should be is not known")
        want = None if missing else wanted(model, owners)
        written = [] if want is None else _written(group, model, want)
        if self._head_start and want is not None and want.plain and (group is None or not written):
            due = self._head_starts.setdefault(key, now + self._head_start)
            if left := seconds_left(due, now, self._head_start):
                return Plan(after=left)
        self._head_starts.pop(key, None)
        body: Json = {"metadata": {"annotations": {GROUP_NAME: key[1]}}}
        named = [Patch(POD, key[0], pod.metadata.name, body, pod.metadata.uid) for pod in pods]
        return Plan().then(*written, *named) if group is None else Plan().then(*written).then(*named)

    def _keep(self, group: PodGroup | None, pods: Sequence[Pod]) -> Plan:
        """Brings a PodGroup up to date with its owner: deletes it when the owner is scaled to zero, updates it with the
        owner's annotations, and creates it again if it was deleted while its Pods exist."""
        some = _newest(pods) if pods else group
        if some is None:
            return Plan()
        owners, missing = self._owners(some)
        if missing:
            return Plan()
        idle = any(_idle(owner) for _, owner in owners)
        if idle and pods:
            return Plan(after=RECHECK_PERIOD)
        if idle and group is not None:
            return Plan([[Delete(POD_GROUP, *key_of(group), group.metadata.uid)]])
        if not pods or any(owner.metadata.deletion_timestamp for _, owner in owners):
            return Plan()
        model = _newest(pods)
        return Plan().then(*_written(group, model, wanted(model, owners)))

    def _owners(self, obj: KubeObject) -> tuple[list[Owner], str]:
        """The owners whose annotations count, and the text about the first of them that does not exist, or ""."""
        owners: list[Owner] = []
        for reference in obj.metadata.owner_references or ():
            kind = find_kind(reference.api_version, reference.kind)
            if kind not in OWNERS:
                continue
            owner = self._store.get(kind, obj.metadata.namespace, reference.name)
            if not isinstance(owner, Workload) or owner.metadata.uid != reference.uid:
                return owners, f"{reference.kind} {reference.name} ({reference.uid}) is not there"
            owners.append((kind, owner))
        return owners, ""


class _Place(NamedTuple):
    """The identity of a waiting Pod."""

    key: Key
    name: str
    uid: str


def _written(group: PodGroup | None, model: Pod, want: WantedGroup) -> list[Effect]:
    """The effects that bring the PodGroup into the wanted state. The queue stays if the Pod does not name one; further
    annotations and labels always stay."""
    if group is None:
        return [Create(POD_GROUP, manifest(model, want)), *want.problems]
    spec = msgspec.to_builtins(group.spec)
    known = {field: spec[field] for field in _FIELDS if field in spec and (field != "queue" or field in want.spec)}
    body: Json = {}
    if changes := diff({"minMember": 0, **known}, want.spec):
        body["spec"] = changes
    for field, now, then in (
        ("annotations", group.metadata.annotations or {}, want.annotations),
        ("labels", group.metadata.labels or {}, want.labels),
    ):
        if news := {key: value for key, value in then.items() if now.get(key) != value}:
            body.setdefault("metadata", {})[field] = news
    if not body:
        return []
    meta = group.metadata
    return [Patch(POD_GROUP, meta.namespace, meta.name, body, meta.uid), *want.problems]


def _newest(pods: Sequence[Pod]) -> Pod:
    """The Pod that reflects the current template."""
    return max(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))


def _idle(owner: KubeObject) -> bool:
    """Whether an owner is scaled to zero."""
    return isinstance(owner, Workload) and owner.spec.replicas == 0


def _lives(pod: Pod) -> bool:
    return not pod.metadata.deletion_timestamp and pod.status.phase not in ENDED_PHASES
