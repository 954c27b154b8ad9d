"""Which chips of a node are free at the start of a session, from the best source that can be read.

Sources, best first: the device plugin's ConfigMap, the Node's annotations of the same keys (older device plugins), the
number of allocatable chips. A list that is malformed is told of and the next source is asked. A list of free chips lags
what was just bound, so what the node's Pods hold (``holdings``) is taken off it, terminating Pods included: as long as
the Pod exists its chips are not free.

A chip is not given to any Pod while it is doubtful which Pod holds it. A list of free chips that the device plugin
published after the Pod began to run there settles the doubt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler.api.names import (
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    DEVICE_INFO_NAMESPACE,
    EVENT_DEVICES_DISAGREE,
    NETWORK_UNHEALTHY_SUFFIX,
    RECOVERING_SUFFIX,
    UNHEALTHY_SUFFIX,
)
from scheduler.api.node import Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.readings import Readings
from scheduler.plugins.ascend.chiplist import ChipListError, format_chips, parse_chips
from scheduler.plugins.ascend.families import Family
from scheduler.plugins.ascend.holdings import MILLI, Asked, Holding, holding
from scheduler.plugins.ascend.rings import ALL, CHIPS, NONE, highest, lowest
from scheduler.plugins.support.device_info import DeviceInfoError, device_info

SETTLED: Final = 10.0
"""Seconds after the kubelet took a Pod up from which on a list of free chips knows of it: device plugins renew theirs
every second when chips are taken."""


@dataclass(frozen=True, slots=True)
class NodeChips:
    """The chips of one node; every field but ``capacity`` is a mask."""

    free: int
    releasing: int
    """Held by terminating Pods alone: free once those are gone."""
    freed: Mapping[str, int]
    """uid of a Pod -> mask of the chips that are free once it is gone."""
    network: int
    """Of no use to jobs of several NPU Pods."""
    bad: int
    """Broken, being recovered, or not there."""
    capacity: int
    """Number of chips in working order, free or not."""
    problems: tuple[Malformed, ...]


_readings: Readings[str, NodeChips] = Readings()
"""By name of the node."""


def read_nodes(snapshot: Snapshot, family: Family, rows: Rows, allocatable: Sequence[int]) -> list[NodeChips]:
    """The chips of the nodes at ``rows``. ``allocatable``: whole chips per row, as the Node object says."""
    objects, names = snapshot.nodes.facts.objects, snapshot.nodes.names
    maps, tasks, since = snapshot.config_maps, snapshot.chips, snapshot.signed_since
    asked = Asked(family, snapshot.dimensions)
    number = {names[row]: chips for row, chips in zip(rows.tolist(), allocatable, strict=True)}
    sources = {
        names[row]: (objects[row], maps.get(_config_map_key(names[row])), tasks.get(names[row], ()), since)
        for row in rows.tolist()
    }
    readings = _readings.of(sources.items(), lambda name: read_node(family, *sources[name], asked, number[name]))
    return list(readings.values())


def _config_map_key(node: str) -> str:
    return f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}{node}"


def read_node(
    family: Family,
    node: Node,
    config_map: ConfigMap | None,
    tasks: Sequence[Task],
    since: float,
    asked: Asked,
    allocatable: int,
) -> NodeChips:
    """The chips of one node with ``allocatable`` (0 to 8) of them, by all sources. ``since``: Unix time since which
    bindings are recorded."""
    problems: list[Malformed] = []
    lists = _reported(family, node, config_map, problems)
    pods = [(task, holding(family, task, asked, since, problems)) for task in tasks]
    contested = _contested(family, pods, asked, problems)
    held = staying = doubtful = NONE
    nameless, closed = 0, False
    for task, chips in pods:
        held |= chips.held
        if task.status is not TaskStatus.RELEASING:
            staying |= chips.held
        nameless += chips.nameless
        if chips.doubtful or chips.unknown or chips.held & contested:
            settled = lists is not None and lists.knows(task)
            doubtful |= chips.doubtful & ~lists.free if lists is not None and settled else chips.doubtful
            # Where it is not known which chips a Pod has, it may have any that no other Pod provably has.
            closed = closed or (not settled and (chips.unknown or bool(chips.held & contested)))
    if lists is None:
        # Which chips a smaller number leaves out is not known: those held are there, the rest are the lowest ids.
        there = held | lowest(ALL & ~held, allocatable - held.bit_count())
        network, bad = NONE, ALL & ~there
        free = there
        capacity = allocatable
    else:
        network, bad = lists.network, lists.bad
        free = lists.free
        capacity = min(allocatable, CHIPS - bad.bit_count())
        # Chips that are in order, not listed as free and held by none are those that kubelet gave to nameless Pods.
        known = (lists.free | held | doubtful) & ~bad
        nameless = max(nameless - max(capacity - known.bit_count(), 0), 0)
    free &= NONE if closed else ~held & ~bad & ~doubtful
    # Which chips nameless Pods will get is the device plugin's choice; ours are taken from the low end, so the guess
    # that collides least is the high end.
    free &= ~highest(free, nameless)
    barred = ALL if closed else bad | doubtful
    freed = {task.uid: chips.held & ~barred & ~contested for task, chips in pods if chips.held}
    return NodeChips(free, held & ~staying & ~barred, freed, network, bad, capacity, tuple(problems))


def _contested(family: Family, pods: Sequence[tuple[Task, Holding]], asked: Asked, problems: list[Malformed]) -> int:
    """The chips that several Pods hold which ask for whole ones; a problem is added for each of the Pods."""
    once = contested = NONE
    for task, chips in pods:
        if asked.whole(task.cls):
            contested |= once & chips.held
            once |= chips.held
    for task, chips in pods if contested else ():
        mine = chips.held & contested
        if mine:
            others = sorted(other.key for other, theirs in pods if theirs.held & mine and other is not task)
            problems.append(
                Malformed(
                    "Pod",
                    task.namespace,
                    task.name,
                    f"metadata.annotations[{family.resource}]",
                    f"{format_chips(mine, family.chip_prefix)} of node {task.node} count as Pod {others[0]}'s too",
                    "no other Pod is given them while one of the two exists",
                    EVENT_DEVICES_DISAGREE,
                    uid=task.uid,
                )
            )
    return contested


class _Lists(NamedTuple):
    """What the device plugin reports; masks."""

    free: int
    network: int
    bad: int
    published: float
    """Unix time; 0 if unknown."""

    def knows(self, task: Task) -> bool:
        """Whether the lists were made after the kubelet had given the Pod its chips."""
        return 0 < task.started_at < self.published - SETTLED


def _reported(family: Family, node: Node, config_map: ConfigMap | None, problems: list[Malformed]) -> _Lists | None:
    """The lists of the first source whose list of free chips can be read."""
    if config_map is not None:
        meta = config_map.metadata
        source = _Source("ConfigMap", meta.namespace, meta.name, f"data[{DEVICE_INFO_KEY}]", problems)
        try:
            info = device_info((config_map.data or {}).get(DEVICE_INFO_KEY, ""))
        except DeviceInfoError as error:
            source.complain("", str(error))
        else:
            found = _masks(family, info.lists, source, info.published)
            if found is not None:
                return found
    annotations = node.metadata.annotations or {}
    if family.resource not in annotations:
        return None
    return _masks(family, annotations, _Source("Node", "", node.metadata.name, "metadata.annotations", problems))


def _masks(family: Family, lists: Mapping[str, Any], source: "_Source", published: float = 0.0) -> _Lists | None:
    resource = family.resource
    if resource not in lists:
        source.complain("", f"lists no {resource}")
        return None
    listed = source.mask(family, lists, resource)
    if listed is None:
        return None
    network, unhealthy, recovering = (
        source.mask(family, lists, resource + suffix) or NONE
        for suffix in (NETWORK_UNHEALTHY_SUFFIX, UNHEALTHY_SUFFIX, RECOVERING_SUFFIX)
    )
    return _Lists(listed, network, unhealthy | recovering, published)


class _Source:
    """One object that lists chips, as complaints name it."""

    def __init__(self, kind: str, namespace: str, name: str, field: str, problems: list[Malformed]) -> None:
        self._object = (kind, namespace, name)
        self._field = field
        self._problems = problems

    def complain(self, key: str, problem: str) -> None:
        field = f"{self._field}[{key}]" if key else self._field
        self._problems.append(Malformed(*self._object, field, problem))

    def mask(self, family: Family, lists: Mapping[str, Any], key: str) -> int | None:
        """The mask of one list, 0 if it is not there, None if it is malformed."""
        text = lists.get(key, "")
        if not isinstance(text, str):
            self.complain(key, f"a comma-separated list is wanted, not {type(text).__name__}")
            return None
        try:
            return parse_chips(text, family.chip_prefix)
        except ChipListError as error:
            self.complain(key, str(error))
            return None


def whole_chips(amounts: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Amounts in thousandths as whole chips, fractions dropped."""
    return (amounts // MILLI).astype(np.int64)
