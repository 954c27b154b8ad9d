"""Changes about node groups (``nodegroup``): more groups for a queue, and more of a group."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.kinds import QUEUE
from scheduler.api.names import NODEGROUP_NAME, NODEGROUP_RESOURCE_LIMITS
from scheduler.api.queue import ancestors
from scheduler.api.resource import PODS_INDEX
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.framework.extension import ENABLE_HIERARCHY
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step, listed
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.nodes import room
from scheduler.framework.remedies.registry import node_labels, remedies
from scheduler.plugins.nodegroup.plugin import NO_GROUPS, Groups, NodeGroup

_NEAR: Final = "nodeGroupAffinity"
_AWAY: Final = "nodeGroupAntiAffinity"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SPARE: Final = 4


@remedies(NodeGroup, ChangeKind.NODE_GROUP)
def allow_groups(evidence: Evidence, plugin: NodeGroup) -> Iterator[Plan]:
    """Name more groups in the affinity of the queue, those with most room first."""
    name = evidence.job.queue
    if name not in evidence.session.queues:
        return
    queue, more = _speaker(evidence, name), _other_groups(evidence, plugin.groups[name])

    def at(degree: int) -> Step:
        text = f"let queue {queue} use node group{'s' * (degree > 1)} {listed(more[:degree])}"
        return Step(text, (Edit(QUEUE, "", queue, partial(_with_groups, more[:degree])),))

    if more:
        yield (Adjustment(ChangeKind.NODE_GROUP, 1, len(more), at),)


@node_labels(NodeGroup)
def group_label(evidence: Evidence, plugin: NodeGroup) -> dict[str, str]:
    """What a node without a group has to be labelled with for the job's queue to use it, now or once it may use the
    group that ``allow_groups`` names first."""
    groups = plugin.groups.get(evidence.job.queue, NO_GROUPS)
    if not (groups or plugin.strict):
        return {}
    named = [group for group in (*groups.required, *groups.preferred) if groups.admits(group)]
    group = next(iter([*named, *_other_groups(evidence, groups)]), None)
    return {} if group is None else {NODEGROUP_NAME: group}


def _other_groups(evidence: Evidence, groups: Groups) -> list[str]:
    """Those that the queue may not use, the ones with most room for the Pods first; where there is none and it may use
    none, one of its own name."""
    others = [group for group in _by_room(evidence) if not groups.admits(group)]
    return others or ([] if groups else [evidence.job.queue])


def _by_room(evidence: Evidence) -> list[str]:
    """The groups of nodes, those with room for most of the Pods that find no node first."""
    session, rows = evidence.session, evidence.rows
    codes, names = session.nodes.facts.label_column(NODEGROUP_NAME)
    with evidence.crowded() as left:
        rooms = [room(session.nodes.idle[:, row], left[0].cls) if left else 0 for row in rows.tolist()]
    totals = np.bincount(codes[rows] + 1, weights=np.array(rooms, dtype=float), minlength=len(names) + 1)[1:]
    there = set(codes[rows].tolist())
    return [names[code] for code in np.argsort(-totals, kind="stable").tolist() if code in there]


def _speaker(evidence: Evidence, name: str) -> str:
    """The queue whose affinity holds for a queue."""
    queues = evidence.session.queues
    options = [option for tier in evidence.session.configuration.tiers for option in tier]
    inherits = any(option.name == NodeGroup.name and option.enabled(ENABLE_HIERARCHY) for option in options)
    above = ancestors(queues, name) if inherits else []
    return next((at for at in (name, *above) if queues[at].affinity is not None), name)


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
    """Let the queue take more of the group of its own that has most room."""
    name = evidence.job.queue
    limits = plugin.limits.get(name)
    if limits is None:
        return
    names = evidence.session.dimensions.names
    for group in [group for group in _by_room(evidence) if group in limits.of and plugin.groups[name].admits(group)]:
        adjustments = []
        for d in np.flatnonzero(evidence.need).tolist():
            now = float(limits.of[group][d])
            missing = units(names[d], float(evidence.need[d] + limits.used[group][d]) - now) if np.isfinite(now) else 0
            if missing > 0 and d != PODS_INDEX:
                change = partial(_with_limit, name, group, names[d], now)
                what, grain = f"{name} {group} {names[d]}", grain_of(names[d])
                adjustments.append(
                    Adjustment(ChangeKind.NODE_GROUP_LIMIT, missing, missing * _SPARE, change, what, grain)
                )
        if adjustments:
            yield tuple(adjustments)


def _with_limit(queue: str, group: str, resource: str, now: float, degree: int) -> Step:
    then = quantity(resource, now + degree * unit_of(resource))
    text = f"raise queue {queue}'s limit of {resource} in node group {group} from {quantity(resource, now)} to {then}"

    def raised(raw: Raw) -> Raw:
        annotations = raw["metadata"]["annotations"]
        limits = json.loads(annotations[NODEGROUP_RESOURCE_LIMITS])
        limits[group] = {**limits[group], resource: then}
        raw["metadata"]["annotations"] = {**annotations, NODEGROUP_RESOURCE_LIMITS: json.dumps(limits)}
        return raw

    return Step(text, (Edit(QUEUE, "", queue, raised),))
