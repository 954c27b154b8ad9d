"""Which chips of a node are free at the start of a session, from the best source that can be read.

Sources, best first: the device plugin's ConfigMap, the Node's annotations of the same keys (older device plugins), the
number of allocatable chips. A list that is malformed is told of and the next source is asked. A list of free chips lags
what was just bound, so the chips in the annotations of the node's Pods are taken off it, terminating Pods included: as
long as the Pod exists its chips are not free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from scheduler.api.names import (
    ASCEND_REAL,
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    DEVICE_INFO_NAMESPACE,
    NETWORK_UNHEALTHY_SUFFIX,
    RECOVERING_SUFFIX,
    UNHEALTHY_SUFFIX,
)
from scheduler.api.node import Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.readings import Readings
from scheduler.plugins.ascend.chiplist import ChipListError, device_lists, parse_chips, parse_mounted
from scheduler.plugins.ascend.families import Family
from scheduler.plugins.ascend.rings import ALL, CHIPS, NONE, highest, lowest

MILLI: Final = 1000
"""Vectors hold chips in thousandths."""


@dataclass(frozen=True, slots=True)
class NodeChips:
    """The chips of one node; every field but ``capacity`` is a mask."""

    free: int
    releasing: int
    """Held by terminating Pods alone: free once those are gone."""
    network: int
    """Of no use to jobs of several NPU Pods."""
    bad: int
    """Broken, being recovered, or not there."""
    capacity: int
    """Number of chips in working order, free or not."""
    problems: tuple[Malformed, ...]


_readings: Readings[str, NodeChips] = Readings()
"""By name of the node."""


def read_nodes(
    snapshot: Snapshot, family: Family, rows: Rows, allocatable: Sequence[int], position: int
) -> list[NodeChips]:
    """The chips of the nodes at ``rows``.

    ``allocatable``: whole chips per row, as the Node object says. ``position``: the resource's place in vectors.
    """
    objects, names = snapshot.nodes.facts.objects, snapshot.nodes.names
    maps, tasks = snapshot.config_maps, snapshot.chips
    number = {names[row]: chips for row, chips in zip(rows.tolist(), allocatable, strict=True)}
    sources = {
        names[row]: (objects[row], maps.get(_config_map_key(names[row])), tasks.get(names[row], ()))
        for row in rows.tolist()
    }
    readings = _readings.of(sources.items(), lambda name: read_node(family, *sources[name], number[name], position))
    return list(readings.values())


def _config_map_key(node: str) -> str:
    return f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}{node}"


def read_node(
    family: Family, node: Node, config_map: ConfigMap | None, tasks: Sequence[Task], allocatable: int, position: int
) -> NodeChips:
    """The chips of one node with ``allocatable`` (0 to 8) of them, by all sources."""
    problems: list[Malformed] = []
    serving = leaving = NONE
    nameless = 0
    """Chips of Pods that do not say which they hold: bound by others, or their annotation is malformed."""
    for task in tasks:
        held = held_chips(family, task, problems)
        if task.status is TaskStatus.RELEASING:
            leaving |= held
        else:
            serving |= held
        nameless += max(chips_asked(task.cls, position) - held.bit_count(), 0)
    held = serving | leaving
    lists = _reported(family, node, config_map, problems)
    if lists is None:
        # Which chips a smaller number leaves out is not known: those held are there, the rest are the lowest ids.
        there = held | lowest(ALL & ~held, allocatable - held.bit_count())
        bad = ALL & ~there
        network = NONE
        free = there & ~held
        capacity = allocatable
    else:
        listed, network, bad = lists
        capacity = min(allocatable, CHIPS - bad.bit_count())
        free = listed & ~held & ~bad
        # Chips that are in order, not listed as free and in no annotation are those that kubelet gave to nameless Pods.
        nameless = max(nameless - max(capacity - ((listed | held) & ~bad).bit_count(), 0), 0)
    # Which chips nameless Pods will get is the device plugin's choice; ours are taken from the low end, so the guess
    # that collides least is the high end.
    free &= ~highest(free, nameless)
    return NodeChips(free, leaving & ~serving & ~bad, network, bad, capacity, tuple(problems))


def chips_asked(cls: TaskClass, position: int) -> int:
    """Whole chips that a task of the class asks for, a fraction counting as one."""
    return int(-(-cls.request[position] // MILLI)) if position < len(cls.request) else 0


def held_chips(family: Family, task: Task, problems: list[Malformed]) -> int:
    """The mask of the chips that a Pod's annotations say it has; what is really mounted counts before what was
    assigned. 0 if there are none or they are malformed, which is added to ``problems``."""
    annotations = task.annotations
    mounted = annotations.get(ASCEND_REAL)
    # The key is shared by all families; a Pod of another one lists other names.
    if mounted and (mounted.startswith(family.chip_prefix) or family.resource in annotations):
        try:
            return parse_mounted(mounted, family.chip_prefix)
        except ChipListError as error:
            problems.append(_of_pod(task, ASCEND_REAL, error))
    assigned = annotations.get(family.resource)
    if assigned:
        try:
            return parse_chips(assigned, family.chip_prefix)
        except ChipListError as error:
            problems.append(_of_pod(task, family.resource, error))
    return NONE


def _of_pod(task: Task, key: str, error: ChipListError) -> Malformed:
    return Malformed("Pod", task.namespace, task.name, f"metadata.annotations[{key}]", str(error))


def _reported(
    family: Family, node: Node, config_map: ConfigMap | None, problems: list[Malformed]
) -> tuple[int, int, int] | None:
    """Masks of (listed as free, network unhealthy, bad) by the first source whose list of free chips can be read."""
    if config_map is not None:
        meta = config_map.metadata
        source = _Source("ConfigMap", meta.namespace, meta.name, f"data[{DEVICE_INFO_KEY}]", problems)
        try:
            lists = device_lists((config_map.data or {}).get(DEVICE_INFO_KEY, ""))
        except ChipListError as error:
            source.complain("", str(error))
        else:
            found = _masks(family, lists, source)
            if found is not None:
                return found
    annotations = node.metadata.annotations or {}
    if family.resource not in annotations:
        return None
    return _masks(family, annotations, _Source("Node", "", node.metadata.name, "metadata.annotations", problems))


def _masks(family: Family, lists: Mapping[str, Any], source: "_Source") -> tuple[int, int, int] | None:
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
    return listed, network, unhealthy | recovering


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
