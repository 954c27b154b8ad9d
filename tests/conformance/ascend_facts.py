"""The facts about NPU jobs on a control plane that a record of the Ascend plugin has, without what is random in them.

Equal nodes may change places, and with them the ranks of equal Pods. Addresses and names follow from node and Pod.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from scheduler.api.kinds import POD, POD_GROUP, Kind
from scheduler.api.names import (
    ASCEND_910,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    BASE_DEVICE_INFOS,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    NPU_CORE,
    PREDICATE_TIME,
)

Raw = dict[str, Any]


def live_facts(listed: Callable[[Kind], list[Raw]], nodes: Mapping[str, Raw], *, kubelet: bool) -> Raw:
    """The facts now. ``nodes``: the Nodes of the scenario; ``kubelet``: when it was recorded, bound Pods ran."""
    pods = [
        {
            "name": pod["metadata"]["name"],
            "uid": pod["metadata"]["uid"],
            "node": pod["spec"].get("nodeName"),
            "phase": pod["status"].get("phase") if kubelet else "Pending",
            "annotations": pod["metadata"].get("annotations") or {},
        }
        for pod in listed(POD)
    ]
    groups = [
        {
            "phase": (group.get("status") or {}).get("phase"),
            "spec": group["spec"],
            "owner": [owner["kind"] for owner in group["metadata"].get("ownerReferences", ())],
        }
        for group in listed(POD_GROUP)
    ]
    return _facts(pods, groups, nodes)


def recorded_facts(record: Raw, nodes: Mapping[str, Raw]) -> list[Raw]:
    """The facts of each run that was recorded; one if the runs agreed."""
    return [_recorded(record, run, nodes) for run in record["variants"] or [record]]


def _recorded(record: Raw, run: Raw, nodes: Mapping[str, Raw]) -> Raw:
    pods = [{**record["pods"][name], **pod, "name": name, "uid": f"<uid:{name}>"} for name, pod in run["pods"].items()]
    groups = [{key: group[key] for key in ("phase", "spec", "owner")} for group in record["podgroups"].values()]
    return _facts(pods, groups, nodes)


def _facts(pods: list[Raw], groups: list[Raw], nodes: Mapping[str, Raw]) -> Raw:
    return {
        "pods": sorted(json.dumps(_pod(pod, nodes), sort_keys=True) for pod in pods),
        "nodes": sorted(Counter(str(pod["node"]) for pod in pods).values()),
        "ranks": sorted(str(pod["annotations"].get(HCCL_RANK_INDEX)) for pod in pods if pod["node"]),
        "podgroups": sorted(json.dumps(group, sort_keys=True) for group in groups),
    }


def _pod(pod: Raw, nodes: Mapping[str, Raw]) -> Raw:
    annotations = pod["annotations"]
    time = annotations.get(PREDICATE_TIME, "")
    return {
        "phase": pod["phase"],
        **{key: annotations.get(key) for key in (ASCEND_910, NPU_CORE, ASCEND_REAL, DISTRIBUTED_JOB)},
        PREDICATE_TIME: bool(re.fullmatch(r"<ns>|\d{15,20}", time)),
        "configuration": _configuration(pod, nodes) if ASCEND_910_CONFIGURATION in annotations else None,
    }


def _configuration(pod: Raw, nodes: Mapping[str, Raw]) -> Raw:
    """The configuration, with a word for each part that is as the Node and the Pod say."""
    value = pod["annotations"][ASCEND_910_CONFIGURATION]
    found: Raw = dict(json.loads(value) if isinstance(value, str) else value)
    node = nodes[pod["node"]]
    host = next(each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP")
    chips = json.loads(node["metadata"]["annotations"][BASE_DEVICE_INFOS])
    devices = [
        {
            "device_id": name.rpartition("-")[2],
            "device_ip": chips[name]["IP"],
            "super_device_id": str(chips[name]["SuperDeviceID"]),
        }
        for name in pod["annotations"][ASCEND_910].split(",")
    ]
    own = {"pod_name": pod["name"], "server_id": pod["uid"], "server_ip": host, "host_ip": host, "devices": devices}
    return {key: "<own>" if key in own and own[key] == part else part for key, part in found.items()}
