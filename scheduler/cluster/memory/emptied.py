"""The objects of a cluster that remain if all its workloads end: what a job would find on an empty cluster.

Pods of DaemonSets and static Pods belong to their nodes, so they remain. Chips of Pods that end become free: the device
plugin lists a chip again when no Pod holds it, on its node and in ClusterD's copy.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from scheduler.api.kinds import (
    ACJOB,
    ATTACHMENT,
    BATCH_JOB,
    COMMAND,
    CONFIG_MAP,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB_FLOW,
    NODE,
    POD,
    POD_GROUP,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from scheduler.api.names import (
    CHIP_ANNOTATIONS,
    CLUSTER_INFO_PREFIX,
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    UNHEALTHY_SUFFIX,
)
from scheduler.api.objects import ENDED_PHASES
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory.index import node_of
from scheduler.cluster.memory.raw_objects import Json, controller_of
from scheduler.cluster.memory.server import MemoryServer

_LEFT_OUT: Final = frozenset(
    {
        ACJOB, ATTACHMENT, BATCH_JOB, COMMAND, CRON_JOB, DEPLOYMENT, JOB_FLOW, POD_GROUP, REPLICA_SET,
        REPLICATION_CONTROLLER, STATEFUL_SET, VCJOB,
    }
)  # fmt: skip
_OF_NODES: Final = (DAEMON_SET.name, NODE.name)
"""Kinds of the controllers of Pods that remain."""
Chips = Mapping[str, Mapping[str, list[str]]]
"""Node -> annotation -> names of chips."""


def remaining(server: MemoryServer) -> Iterator[Manifest]:
    """The objects of the server that remain without its workloads."""
    chips = _chips_of_workloads(server)
    for kind, raw in server:
        if kind in _LEFT_OUT or (kind is POD and not _belongs_to_node(raw)):
            continue
        if kind is RESOURCE_CLAIM and (controller_of(raw) or {}).get("kind") == POD.name:
            continue
        yield Manifest("the cluster", kind, _without_use(kind, raw, chips))


def _without_use(kind: Kind | None, raw: Json, chips: Chips) -> Json:
    """An object without what Pods of workloads use of it."""
    if kind is RESOURCE_CLAIM:
        return {key: value for key, value in raw.items() if key != "status"}
    return _with_free_chips(raw, chips) if kind is CONFIG_MAP and chips else raw


def _belongs_to_node(pod: Json) -> bool:
    active = pod["status"].get("phase") not in ENDED_PHASES and not pod["metadata"].get("deletionTimestamp")
    return active and (controller_of(pod) or {}).get("kind") in _OF_NODES


# --- Ascend chips ---
def _chips_of_workloads(server: MemoryServer) -> Chips:
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for pod in server.by_index(POD, _has_chips):
        if not _belongs_to_node(pod):
            annotations = pod["metadata"]["annotations"]
            for key in CHIP_ANNOTATIONS:
                text = annotations.get(key)
                if isinstance(text, str) and text:
                    found[pod["spec"]["nodeName"]][key] += text.split(",")
    return found


def _has_chips(pod: Json) -> bool | None:
    """Whether a Pod on a node has chips; None instead of False, for an index."""
    annotations = pod["metadata"].get("annotations") or {}
    return (node_of(pod) is not None and any(key in annotations for key in CHIP_ANNOTATIONS)) or None


def _with_free_chips(config_map: Json, chips: Chips) -> Json:
    """A ConfigMap of a device plugin or of ClusterD in which chips are free; any other ConfigMap as it is."""
    name, data = config_map["metadata"]["name"], config_map.get("data")
    if not isinstance(data, dict):
        return config_map
    if name.startswith(DEVICE_INFO_CONFIGMAP_PREFIX):
        key, per_node = DEVICE_INFO_KEY, False
    elif name.startswith(CLUSTER_INFO_PREFIX):
        key, per_node = name, True
    else:
        return config_map
    try:
        document = json.loads(data.get(key) or "")
    except (TypeError, ValueError, RecursionError):  # the scheduler reports what is malformed
        return config_map
    reports = document.items() if per_node and isinstance(document, dict) else ((name, document),)
    changed = [
        _free(content, chips.get(str(report).removeprefix(DEVICE_INFO_CONFIGMAP_PREFIX), {}))
        for report, content in reports
    ]
    return {**config_map, "data": {**data, key: json.dumps(document)}} if any(changed) else config_map


def _free(report: Any, chips: Mapping[str, list[str]]) -> bool:
    """Adds healthy chips to the lists of free chips of a report, in place. Returns whether the report has lists."""
    inner = report.get("DeviceInfo", report) if isinstance(report, dict) else None
    lists = inner.get("DeviceList") if isinstance(inner, dict) else None
    if not isinstance(lists, dict):
        return False
    for resource, names in chips.items():
        listed, faulty = lists.get(resource), lists.get(f"{resource}{UNHEALTHY_SUFFIX}") or ""
        if isinstance(listed, str) and isinstance(faulty, str):
            known = dict.fromkeys(filter(None, listed.split(",")))
            broken = faulty.split(",")
            lists[resource] = ",".join({**known, **dict.fromkeys(chip for chip in names if chip not in broken)})
    return True
