"""The reports of ClusterD, which copies those of all nodes into a few ConfigMaps (``mindx-dl/cluster-info-*``).

Such a ConfigMap has one key, its own name, with a JSON object: the name of a node's ConfigMap -> its content. The text
is empty if ClusterD has nothing to report: no node has a fault, or the reports need fewer ConfigMaps than before. If
two ConfigMaps have a report on one node, because ClusterD moved it from one to the other, the newer report counts.

A ConfigMap is parsed again only if it changed, and the report on a node remains the same object while its text is the
same: ClusterD writes the ConfigMaps every few seconds, and most of their content stays as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.api.json_texts import json_problem
from scheduler.api.names import CLUSTER_INFO_PREFIX
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot

NAMESPACE: Final = "mindx-dl"
LABELS: Final = ("mx-consumer-cim=true", "mx-consumer-volcano=true")
"""Selectors of the ConfigMaps of NodeD, and of those of ClusterD."""
_PREFIXES: Final = tuple(f"{NAMESPACE}/{CLUSTER_INFO_PREFIX}{kind}" for kind in ("device-", "switch-", "node-cm"))


class NodeReport(NamedTuple):
    """The report of one ConfigMap about one node."""

    namespace: str
    name: str
    """The name of the ConfigMap."""
    field: str
    text: str


class ClusterReports(NamedTuple):
    reports: Mapping[str, NodeReport]
    """Name of the ConfigMap that was copied (``mindx-dl-deviceinfo-<node>``) -> its report."""
    problems: tuple[Malformed, ...]


NO_REPORTS: Final = ClusterReports({}, ())


def reported(config_map: ConfigMap | None, key: str, copied: NodeReport | None) -> list[NodeReport]:
    """Returns the reports about a node: ClusterD's copy, and the one in the node's own ConfigMap."""
    reports = [] if copied is None else [copied]
    if config_map is not None:
        meta, text = config_map.metadata, (config_map.data or {}).get(key, "")
        reports.append(NodeReport(meta.namespace, meta.name, f"data[{key}]", text))
    return reports


class _Kept(NamedTuple):
    parts: Mapping[str, tuple[ConfigMap, ClusterReports]]
    """Key of a ConfigMap -> the ConfigMap and its reports."""
    together: ClusterReports


def read(snapshot: Snapshot) -> ClusterReports:
    """Returns the reports of all ``cluster-info-*`` ConfigMaps."""
    config_maps = snapshot.config_maps
    key = ("ascend", "reports of ClusterD")
    return snapshot.memory.memo(key, (config_maps,), lambda before: _read(config_maps, before)).together


def _read(config_maps: Mapping[str, ConfigMap], before: _Kept | None) -> _Kept:
    known = {} if before is None else before.parts
    parts: dict[str, tuple[ConfigMap, ClusterReports]] = {}
    for key in sorted(key for key in config_maps if key.startswith(_PREFIXES)):
        config_map, kept = config_maps[key], known.get(key)
        if kept is None or kept[0] is not config_map:
            kept = config_map, _parse(config_map, {} if kept is None else kept[1].reports)
        parts[key] = kept
    return _Kept(parts, _together([found for _, found in parts.values()]))


def _together(parts: Sequence[ClusterReports]) -> ClusterReports:
    if not parts:
        return NO_REPORTS
    reports: dict[str, NodeReport] = {}
    for part in parts:
        twice = reports.keys() & part.reports.keys()
        newest = {name: max(reports[name], part.reports[name], key=_published) for name in twice}
        reports |= part.reports
        reports |= newest
    return ClusterReports(reports, tuple(problem for part in parts for problem in part.problems))


def _parse(config_map: ConfigMap, before: Mapping[str, NodeReport]) -> ClusterReports:
    meta = config_map.metadata
    field = f"data[{meta.name}]"
    text = (config_map.data or {}).get(meta.name)
    if text == "":
        return NO_REPORTS
    try:
        entries = msgspec.json.decode(text or "", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        reason = json_problem(text or "") or f"not a JSON object: {error}"
        problem = Malformed("ConfigMap", meta.namespace, meta.name, field, reason)
        return ClusterReports({}, (problem,))
    reports = {}
    for name, raw in entries.items():
        report = NodeReport(meta.namespace, meta.name, f"{field}[{name}]", bytes(raw).decode())
        kept = before.get(name)
        reports[name] = kept if kept == report else report
    return ClusterReports(reports, ())


class _Dated(msgspec.Struct):
    UpdateTime: int = 0


def _published(report: NodeReport) -> int:
    """Returns the time of a report in seconds; 0 if it has none."""
    try:
        return msgspec.json.decode(report.text, type=_Dated).UpdateTime
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return 0
