"""The lists of free and faulty chips that the device plugin of a node publishes.

Their sources, best first: the device plugin's ConfigMap or ClusterD's copy of it, whichever is newer; the Node's
annotations with the same keys (older device plugins). If a source cannot be read, a Warning Event reports it and the
next source is read; a malformed list counts as empty.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from scheduler.api.json_texts import EMPTY_LIST
from scheduler.api.names import (
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    DEVICE_INFO_NAMESPACE,
    FAULT_SUFFIX,
    NETWORK_UNHEALTHY_SUFFIX,
    RECOVERING_SUFFIX,
    UNHEALTHY_SUFFIX,
)
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.framework.kept_values import ObjectsByNode
from scheduler.plugins.ascend.cluster_reports import ClusterReports, NodeReport, reported
from scheduler.plugins.ascend.masks import ALL, NONE, ChipListError, parse_chips
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.support.device_info import DeviceInfoError, device_info, sub_healthy_chips

SETTLE_TIME: Final = 10.0
"""Seconds after the start of a Pod from which on a list of free chips accounts for it. Device plugins update their
lists every second while chips are assigned."""


def device_reports(node: str, config_maps: Mapping[str, ConfigMap], reports: ClusterReports) -> list[NodeReport]:
    """Returns what the device plugin of a node reports: ClusterD's copy, which is outdated if ClusterD does not run,
    and its own ConfigMap."""
    name = f"{DEVICE_INFO_CONFIGMAP_PREFIX}{node}"
    config_map = config_maps.get(f"{DEVICE_INFO_NAMESPACE}/{name}")
    return reported(config_map, DEVICE_INFO_KEY, reports.reports.get(name))


class NodeSources(NamedTuple):
    """What says which chips a node has, and which of them Pods hold."""

    node: Node
    reports: Sequence[NodeReport]
    """What its device plugin reports (``device_reports``)."""
    tasks: Sequence[Task]
    """The Pods on the node that hold or request chips."""

    @classmethod
    def of(
        cls, node: Node, config_map: ConfigMap | None, copied: NodeReport | None, tasks: Sequence[Task] | None
    ) -> "NodeSources":
        """Returns the sources from the objects of a node in ``sources_by_node``."""
        return cls(node, reported(config_map, DEVICE_INFO_KEY, copied), tasks or ())


def sources_by_node(snapshot: Snapshot, reports: ClusterReports) -> Sequence[ObjectsByNode]:
    """Returns the objects that say which chips nodes have, for a ``NodeReading``."""
    return (
        ObjectsByNode(snapshot.config_maps, f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}"),
        ObjectsByNode(reports.reports, DEVICE_INFO_CONFIGMAP_PREFIX),
        ObjectsByNode(snapshot.chips),
    )


class Lists(NamedTuple):
    """The lists of the device plugin, as masks."""

    free: int
    network_faults: int
    unusable: int
    recovering: int
    sub_healthy: int
    published: float
    """Unix time; 0 if unknown."""
    malformed: bool
    """The list of free chips is malformed."""
    super_pod: int | None
    """Id of the super pod; None if the source does not give it."""
    annotated: bool = False
    """Whether the lists are annotations of the Node, whose device plugin publishes no ConfigMap."""

    @property
    def present(self) -> int:
        """The chips that any list names."""
        return self.free | self.network_faults | self.unusable

    def includes(self, task: Task) -> bool:
        """Whether the lists were published after the Pod got its chips."""
        return 0 < task.started_at < self.published - SETTLE_TIME


def reported_lists(resource: ChipResource, sources: NodeSources, problems: list[Malformed]) -> Lists | None:
    """Returns the lists of the best source whose list of free chips can be read; None if there is no such source."""
    readable = [lists for report in sources.reports if (lists := _lists_of(resource, report, problems)) is not None]
    if readable:
        return max(readable, key=lambda lists: (not lists.malformed, lists.published))
    meta = sources.node.metadata
    annotations = meta.annotations or {}
    if resource.name not in annotations:
        return None
    lists = _masks(resource, annotations, _Source("Node", "", meta.name, "metadata.annotations", problems))
    return None if lists is None else lists._replace(annotated=True)


def _lists_of(resource: ChipResource, report: NodeReport, problems: list[Malformed]) -> Lists | None:
    source = _Source("ConfigMap", report.namespace, report.name, report.field, problems)
    try:
        info = device_info(report.text)
    except DeviceInfoError as error:
        source.report("", str(error))
        return None
    return _masks(resource, info.lists, source, info.published, info.super_pod)


def _masks(
    resource: ChipResource,
    lists: Mapping[str, Any],
    source: "_Source",
    published: float = 0.0,
    super_pod: int | None = None,
) -> Lists | None:
    name = resource.name
    if name not in lists:
        source.report("", f"lists no {name}")
        return None
    listed = source.free_chips(resource, lists)
    network_faults = source.faulty_chips(resource, lists, name + NETWORK_UNHEALTHY_SUFFIX)
    unhealthy = source.faulty_chips(resource, lists, name + UNHEALTHY_SUFFIX)
    recovering = source.faulty_chips(resource, lists, name + RECOVERING_SUFFIX)
    return Lists(
        listed or NONE,
        network_faults,
        unhealthy | recovering,
        recovering,
        source.sub_healthy(resource, lists),
        published,
        listed is None,
        super_pod,
    )


class _Source:
    """An object that contains chip lists, as problems name it."""

    def __init__(self, kind: str, namespace: str, name: str, field: str, problems: list[Malformed]) -> None:
        self._object = (kind, namespace, name)
        self._field = field
        self._problems = problems

    def report(self, key: str, problem: str, consequence: str = "ignored") -> None:
        field = f"{self._field}[{key}]" if key else self._field
        self._problems.append(Malformed(*self._object, field, problem, consequence))

    def free_chips(self, resource: ChipResource, lists: Mapping[str, Any]) -> int | None:
        """Returns the mask of the list of free chips; None if it is malformed."""
        text = self._text(lists, resource.name)
        try:
            return None if text is None else parse_chips(text, resource.prefix)
        except ChipListError as error:
            self.report(resource.name, str(error), EMPTY_LIST)
            return None

    def faulty_chips(self, resource: ChipResource, lists: Mapping[str, Any], key: str) -> int:
        """Returns the mask of a list of chips with a fault; 0 if it is absent. Of a malformed list the valid names
        count, so that one wrong name does not make the other chips healthy."""
        text = self._text(lists, key) if key in lists else ""
        if not text:
            return NONE
        try:
            return parse_chips(text, resource.prefix)
        except ChipListError as error:
            self.report(key, str(error), "its valid names count")
        mask = NONE
        for name in set(text.split(",")):
            with suppress(ChipListError):
                mask |= parse_chips(name.strip(), resource.prefix)
        return mask

    def _text(self, lists: Mapping[str, Any], key: str) -> str | None:
        text = lists.get(key, "")
        if isinstance(text, str):
            return text
        self.report(key, f"a comma-separated list is wanted, not {type(text).__name__}", EMPTY_LIST)
        return None

    def sub_healthy(self, resource: ChipResource, lists: Mapping[str, Any]) -> int:
        """Returns the mask of the chips with sub-health faults; of all chips if such a fault names none."""
        key = resource.name + FAULT_SUFFIX
        if key not in lists:
            return NONE
        try:
            names = sub_healthy_chips(lists[key])
        except DeviceInfoError as error:
            self.report(key, str(error), EMPTY_LIST)
            return NONE
        mask = NONE
        for name in names:
            try:
                mask |= parse_chips(name, resource.prefix) or ALL
            except ChipListError:
                mask = ALL
        return mask
