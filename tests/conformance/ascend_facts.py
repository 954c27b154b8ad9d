"""The facts about NPU jobs on a control plane that a record of the Ascend plugin contains, without random values.

Equal nodes may be exchanged, and with them the ranks of equal Pods. Addresses and names follow from node and Pod.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

from scheduler.api.kinds import POD, POD_GROUP, VCJOB, Kind
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
RETRIES = ("volcano-system", "vcjob-fault-npu-cm")
"""Namespace and name of the ConfigMap with the remaining retries of jobs."""


def live_facts(
    listed: Callable[[Kind], list[Raw]],
    nodes: Mapping[str, Raw],
    broken: Collection[str],
    retries: str,
    *,
    kubelet: bool,
) -> Raw:
    """The facts now. ``nodes``: the Nodes of the scenario; ``broken``: those that break; ``retries``: the record of the
    retries that remain; ``kubelet``: when it was recorded, bound Pods ran."""
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
    jobs = [
        {**status, "state": status["state"].get("phase")}
        for job in listed(VCJOB)
        if (status := job.get("status") or {}).get("state")
    ]
    return _facts(pods, groups, jobs, nodes, broken, retries)


def recorded_facts(record: Raw, nodes: Mapping[str, Raw], broken: Collection[str], label: str = "") -> list[Raw]:
    """The facts of each run that was recorded, at the end or of an observation; one if the runs agreed."""
    runs = record["variants"] or [record]
    if label:
        record, runs = record["observations"][label], [run.get("observations", {}).get(label, {}) for run in runs]
    return [_recorded(record, run, nodes, broken) for run in runs]


def _recorded(record: Raw, run: Raw, nodes: Mapping[str, Raw], broken: Collection[str]) -> Raw:
    pods = [
        {**pod, **run.get("pods", {}).get(name, {}), "name": name, "uid": f"<uid:{name}>"}
        for name, pod in record["pods"].items()
    ]
    groups = [{key: group[key] for key in ("phase", "spec", "owner")} for group in record["podgroups"].values()]
    retries = record.get("configmaps", {}).get(f"{RETRIES[0]}/{RETRIES[1]}", {}).get("remain-retry-times", "")
    return _facts(pods, groups, list(record.get("vcjobs", {}).values()), nodes, broken, retries)


def _facts(
    pods: list[Raw], groups: list[Raw], jobs: list[Raw], nodes: Mapping[str, Raw], broken: Collection[str], retries: str
) -> Raw:
    return {
        "pods": sorted(json.dumps(_pod(pod, nodes), sort_keys=True) for pod in pods),
        "nodes": sorted(Counter(str(pod["node"]) for pod in pods).values()),
        "on broken nodes": sorted(str(pod["node"]) for pod in pods if pod["node"] in broken),
        "ranks": sorted(str(pod["annotations"].get(HCCL_RANK_INDEX)) for pod in pods if pod["node"]),
        "podgroups": sorted(json.dumps(group, sort_keys=True) for group in groups),
        "vcjobs": [{key: job.get(key) for key in ("state", "retryCount", "version")} for job in jobs],
        "retries": [job["Times"] for job in json.loads(retries or "{}").values()],
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
