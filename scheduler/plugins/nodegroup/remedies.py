"""For ``explain``: the node groups and limits of a queue, and remedies: more groups, and higher limits in them."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import QUEUE
from scheduler.api.names import NODEGROUP_NAME, NODEGROUP_RESOURCE_LIMITS
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import Task
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step, join_names
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.nodes import room
from scheduler.framework.remedies.registry import node_labels, pod_details, remedies
from scheduler.framework.session import Session
from scheduler.plugins.nodegroup.plugin import (
    LIMIT_EXCEEDED,
    NO_AFFINITY,
    NO_GROUPS,
    NO_LABEL,
    OTHER_GROUP,
    Groups,
    NodeGroup,
)

_NEAR: Final = "nodeGroupAffinity"
_AWAY: Final = "nodeGroupAntiAffinity"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SPARE: Final = 4


@pod_details(NodeGroup)
def node_groups(session: Session, plugin: NodeGroup, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    codes, names = session.nodes.facts.label_column(NODEGROUP_NAME)
    own, limits = plugin.groups.get(job.queue, NO_GROUPS), plugin.limits.get(job.queue)
    if not reasons.isdisjoint((NO_LABEL, NO_AFFINITY, OTHER_GROUP)):
        numbers = [f"{name}: {number}" for code, name in enumerate(names) if (number := int((codes == code).sum()))]
        admitted = ", ".join(name for name in names if own.admits(name)) or "none"
        groups = ", ".join([*numbers, f"without: {int((codes < 0).sum())}"])
        text = f"of the node groups that are there queue {job.queue} may use {admitted} (nodes by group: {groups})"
        yield Gate(GateKind.NODES, text, plugin.name)
    if LIMIT_EXCEEDED in reasons and limits is not None:
        for group in limits.of:
            asked = [d for d in np.flatnonzero(task.cls.request).tolist() if np.isfinite(limits.of[group][d])]
            amounts = "; ".join(
                session.dimensions.numbers(
                    d, asked=task.cls.request[d], used=limits.used[group][d], limit=limits.of[group][d]
                )
                for d in asked
            )
            yield Gate(GateKind.NODES, f"queue {job.queue} in node group {group}: {amounts}", plugin.name)


@remedies(NodeGroup, ChangeKind.NODE_GROUP)
def allow_groups(evidence: Evidence, plugin: NodeGroup) -> Iterator[Plan]:
    """Adds groups to the affinity of the queue, beginning with those that have room for the most Pods."""
    name = evidence.job.queue
    if name not in evidence.session.queues:
        return
    queue, more = plugin.affinity_owner(name), _other_groups(evidence, plugin.groups[name])

    def at(amount: int) -> Step:
        text = f"let queue {queue} use node group{'s' * (amount > 1)} {join_names(more[:amount])}"
        return Step(text, (Edit(QUEUE, "", queue, partial(_with_groups, more[:amount])),))

    if more:
        yield (Adjustment(ChangeKind.NODE_GROUP, 1, len(more), at),)


@node_labels(NodeGroup)
def group_label(evidence: Evidence, plugin: NodeGroup) -> dict[str, str]:
    """The label that a node needs so that the job's queue can use it, now or after ``allow_groups`` has added its first
    group."""
    groups = plugin.groups.get(evidence.job.queue, NO_GROUPS)
    if not (groups or plugin.strict):
        return {}
    named = [group for group in (*groups.required, *groups.preferred) if groups.admits(group)]
    group = next(iter([*named, *_other_groups(evidence, groups)]), None)
    return {} if group is None else {NODEGROUP_NAME: group}


def _other_groups(evidence: Evidence, groups: Groups) -> list[str]:
    """The groups that the queue cannot use, beginning with those that have room for the most Pods. If there are none,
    and the queue has no groups, a new group with the name of the queue."""
    others = [group for group in _by_room(evidence) if not groups.admits(group)]
    return others or ([] if groups else [evidence.job.queue])


def _by_room(evidence: Evidence) -> list[str]:
    """All node groups, beginning with those that have room for the most Pods without a node."""
    session, rows = evidence.session, evidence.rows
    codes, names = session.nodes.facts.label_column(NODEGROUP_NAME)
    with evidence.unplaced_tasks() as left:
        counts = [room(session.nodes.idle[:, row], left[0].cls) if left else 0 for row in rows.tolist()]
    totals = np.bincount(codes[rows] + 1, weights=np.array(counts, dtype=float), minlength=len(names) + 1)[1:]
    present = set(codes[rows].tolist())
    return [names[code] for code in np.argsort(-totals, kind="stable").tolist() if code in present]


def _with_groups(groups: list[str], queue: Raw) -> Raw:
    spec = queue.setdefault("spec", {})
    affinity = spec.get("affinity") or {}
    near, away = affinity.get(_NEAR) or {}, affinity.get(_AWAY) or {}
    changed = {**affinity, _NEAR: {**near, _REQUIRED: [*(near.get(_REQUIRED) or ()), *groups]}}
    if away.get(_REQUIRED):
        changed[_AWAY] = {**away, _REQUIRED: [group for group in away[_REQUIRED] if group not in groups]}
    spec["affinity"] = changed
    return queue


@remedies(NodeGroup, ChangeKind.NODE_GROUP_LIMIT)
def raise_group_limits(evidence: Evidence, plugin: NodeGroup) -> Iterator[Plan]:
    """Raises the limits of the queue in a group that it can use, beginning with the group that has most room."""
    name = evidence.job.queue
    limits = plugin.limits.get(name)
    if limits is None:
        return
    names, need = evidence.session.dimensions.names, evidence.need
    for group in [group for group in _by_room(evidence) if group in limits.of and plugin.groups[name].admits(group)]:
        adjustments = []
        for d in np.flatnonzero(need).tolist():
            now = float(limits.of[group][d])
            missing = units(names[d], float(need[d] + limits.used[group][d]) - now) if np.isfinite(now) else 0
            if missing > 0 and d != PODS_INDEX:
                change = partial(_with_limit, name, group, names[d], now)
                what, grain = f"{name} {group} {names[d]}", grain_of(names[d])
                adjustments.append(
                    Adjustment(ChangeKind.NODE_GROUP_LIMIT, missing, missing * _SPARE, change, what, grain)
                )
        if adjustments:
            yield tuple(adjustments)


def _with_limit(queue: str, group: str, resource: str, now: float, amount: int) -> Step:
    then = quantity(resource, now + amount * unit_of(resource))
    text = f"raise queue {queue}'s limit of {resource} in node group {group} from {quantity(resource, now)} to {then}"

    def raised(raw: Raw) -> Raw:
        annotations = raw["metadata"]["annotations"]
        limits = json.loads(annotations[NODEGROUP_RESOURCE_LIMITS])
        limits[group] = {**limits[group], resource: then}
        raw["metadata"]["annotations"] = {**annotations, NODEGROUP_RESOURCE_LIMITS: json.dumps(limits)}
        return raw

    return Step(text, (Edit(QUEUE, "", queue, raised),))
