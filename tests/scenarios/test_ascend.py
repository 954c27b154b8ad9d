"""Decisions of the NPU plugin on real clusters, compared scenario by scenario with the scheduler's decisions on the
same manifests.

Each directory of ``ascend`` holds the manifests, the configuration and the outcome of two runs of Volcano with the
plugin. ``wanted.yaml`` lists the scenarios in which this scheduler decides otherwise, and why. Equal nodes may be
exchanged, and so may equal Pods, cards that are equally free, and the chips of dynamic virtual devices.
"""

import json
import re
from collections import Counter
from functools import cache, cached_property
from typing import Any

import pytest
import yaml

from scheduler.api.names import (
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    BASE_DEVICE_INFOS,
    CHIP_ANNOTATIONS,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    PREDICATE_TIME,
)
from scheduler.cluster.memory import KubeletBehaviour
from tests.scenarios.test_scenarios import HERE, given, outcome

FOLDER = HERE / "ascend"
NAMES = sorted(d.name for d in FOLDER.iterdir() if (d / "expected.json").exists())
WANTED = yaml.safe_load((FOLDER / "wanted.yaml").read_text(encoding="utf-8"))
SHARING = tuple(f"huawei.com/scheduler.softShareDev.{x}" for x in ("aicoreQuota", "hbmQuota", "policy"))
FLAGS = (DISTRIBUTED_JOB, PREDICATE_TIME, "super-pod-id", "super-pod-rank", *SHARING)
REASONS = {"JobValidateFailed", "NodePredicateFailed", "JobEnqueueFailed", "BatchOrderFailed"}
Raw = dict[str, Any]


@pytest.mark.parametrize("name", NAMES)
def test_places_pods_as_the_npu_plugin(name: str) -> None:
    cluster = cluster_of(name)
    found = cluster.placement(decided(name))
    accepted = [cluster.placement(run) for run in recorded(name)]
    assert found in accepted


@pytest.mark.parametrize("name", NAMES)
def test_gives_pods_the_recorded_ranks(name: str) -> None:
    cluster = cluster_of(name)
    found = cluster.ranks(decided(name), bound=True)
    assert any(not found - cluster.ranks(run, bound=False) for run in recorded(name))


@pytest.mark.parametrize("name", NAMES)
def test_says_why_a_job_waits_as_recorded(name: str) -> None:
    found = reasons(decided(name))
    accepted = [reasons(run) for run in recorded(name)]
    for group, wanted in [item for each in accepted for item in each.items()]:
        assert not wanted or found[group] & wanted


@cache
def decided(name: str) -> Raw:
    """The outcome in the form of a record. Cached, like the others: read it only."""
    return as_run(outcome(f"ascend/{name}", KubeletBehaviour.NONE))


@cache
def cluster_of(name: str) -> "Cluster":
    return Cluster(name)


def as_run(items: list[Raw]) -> Raw:
    run: Raw = {"pods": {}, "podgroups": {}}
    for item in items:
        meta = item["metadata"]
        if item["kind"] == "Pod":
            run["pods"][meta["name"]] = {
                "node": item["spec"].get("nodeName"),
                "annotations": meta.get("annotations") or {},
                "uid": meta.get("uid"),
            }
        elif item["kind"] == "PodGroup":
            conditions = (item.get("status") or {}).get("conditions") or []
            run["podgroups"][meta["name"]] = {"conditions": conditions}
    return run


@cache
def recorded(name: str) -> list[Raw]:
    """The accepted outcomes: the wanted outcome, or the outcomes that either run recorded."""
    about = WANTED.get(name) or {}
    if "want" in about:
        return [about["want"]]
    record = json.loads((FOLDER / name / "expected.json").read_text(encoding="utf-8"))
    return [*(record.get("variants") or [record]), *about.get("accept", [])]


def reasons(run: Raw) -> dict[str, set[str]]:
    """The reasons of the PodGroups of which no Pod is bound. On other PodGroups, conditions of earlier sessions
    remain."""
    if any(pod.get("node") for name, pod in run["pods"].items() if not name.startswith("held-")):
        return {}
    return {
        group: {c["reason"] for c in about.get("conditions") or [] if c["type"] == "Unschedulable"} & REASONS
        for group, about in (run.get("podgroups") or {}).items()
    }


class Cluster:
    """The data in the manifests of a scenario by which equal nodes and equal Pods are recognized."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._objects = given(f"ascend/{name}")
        self._nodes = {o["metadata"]["name"]: o for o in self._objects if o["kind"] == "Node"}
        self._waiting = {
            o["metadata"]["name"]: o for o in self._objects if o["kind"] == "Pod" and not o["spec"].get("nodeName")
        }
        self._card = 2 if name.startswith("a3-") else 0

    def placement(self, run: Raw) -> Any:
        """The nodes, chips and annotations of Pods, without random values."""
        pods = {name: pod for name, pod in run["pods"].items() if name in self._waiting}
        nodes: dict[str, list[str]] = {}
        for name, pod in pods.items():
            if pod.get("node"):
                nodes.setdefault(pod["node"], []).append(self._of_pod(name, pod))
        super_pods: dict[str, list[str]] = {}
        for node, texts in nodes.items():
            super_pods.setdefault(self._super_pod(node), []).append(f"{self._classes[node]} {sorted(texts)}")
        return (
            sorted(str((self._sizes[each], sorted(texts))) for each, texts in super_pods.items()),
            Counter(self._kind(name) for name, pod in pods.items() if not pod.get("node")),
        )

    def ranks(self, run: Raw, *, bound: bool) -> Counter[tuple[str, str | None]]:
        """The ranks of Pods that are equal in all but their names; ``bound``: of those that are bound."""
        pods = {name: pod for name, pod in run["pods"].items() if name in self._waiting}
        return Counter(
            (self._kind(name), _annotations(pod).get(HCCL_RANK_INDEX))
            for name, pod in pods.items()
            if pod.get("node") or not bound
        )

    # --- nodes ---
    @cached_property
    def _classes(self) -> dict[str, str]:
        """Maps each node to all its data except its name, addresses and index."""
        result = {}
        for name, node in self._nodes.items():
            annotations = dict(node["metadata"].get("annotations") or {})
            chips = sorted(self._devices(name))
            for key in (BASE_DEVICE_INFOS, "superPodID", "serverIndex"):
                annotations.pop(key, None)
            status = {k: v for k, v in node["status"].items() if k != "addresses"}
            own = [node["metadata"].get("labels"), annotations, chips, node.get("spec"), status]
            for other in self._objects:
                meta = other["metadata"]
                if other["kind"] == "ConfigMap" and meta["name"].endswith(f"info-{name}"):
                    data = {key: json.loads(text) for key, text in other["data"].items() if text.startswith("{")}
                    for key in ("SuperPodID", "ServerIndex", "CheckCode"):
                        data.get("DeviceInfoCfg", {}).pop(key, None)
                    own.append([meta["name"].removesuffix(name), data])
                elif other["kind"] == "Pod" and other["spec"].get("nodeName") == name:
                    own.append([_chips(other["metadata"]), other["spec"]["containers"]])
            result[name] = json.dumps(own, sort_keys=True)
        return result

    def _super_pod(self, node: str) -> str:
        return str((self._nodes[node]["metadata"].get("annotations") or {}).get("superPodID"))

    @cached_property
    def _sizes(self) -> dict[str, str]:
        """Maps each super pod to its nodes, without their names."""
        groups: dict[str, list[str]] = {}
        for name in self._nodes:
            groups.setdefault(self._super_pod(name), []).append(self._classes[name])
        return {name: str(sorted(classes)) for name, classes in groups.items()}

    def _devices(self, node: str) -> Raw:
        text = (self._nodes[node]["metadata"].get("annotations") or {}).get(BASE_DEVICE_INFOS)
        devices: Raw = json.loads(text) if text else {}
        return devices

    # --- Pods ---
    def _kind(self, pod: str) -> str:
        """The data of a Pod except its name and rank; for Pods of super pods, which share the data by rank, the
        name."""
        if len(self._sizes) > 1 or self._name.startswith("a3-superpod"):
            return pod
        meta, spec = self._waiting[pod]["metadata"], self._waiting[pod]["spec"]
        annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k != HCCL_RANK_INDEX}
        requests = [c.get("resources") for c in spec["containers"]]
        return json.dumps([annotations, meta.get("labels"), spec.get("nodeSelector"), requests], sort_keys=True)

    def _of_pod(self, name: str, pod: Raw) -> str:
        """The annotations of a bound Pod, without values that follow from its node and its chips."""
        annotations, node = _annotations(pod), pod["node"]
        key, chips = _chips({"annotations": annotations})
        flags = {flag: annotations[flag] for flag in FLAGS if flag in annotations}
        if re.fullmatch(r"<ns>|\d{15,20}", flags.get(PREDICATE_TIME, "")):
            flags[PREDICATE_TIME] = "<ns>"
        if flags.get("super-pod-id") == self._super_pod(node):
            flags["super-pod-id"] = "<own>"
        real = annotations.get(ASCEND_REAL)
        taken: Any = chips
        if key and self._card:
            taken = self._cards(node, [int(chip.rpartition("-")[2]) for chip in chips.split(",")])
        elif key.endswith("npu-core"):
            taken = [chip.partition("-")[2] for chip in chips.split(",")]
        configuration = self._configuration(name, pod, chips, annotations.get(ASCEND_910_CONFIGURATION))
        return str((self._kind(name), key, taken, flags, "<own>" if chips and real == chips else real, configuration))

    def _cards(self, node: str, chips: list[int]) -> Any:
        """The number of chips on cards with each number of free chips, and whether the chips are listed in ascending
        order."""
        held = {
            int(chip.rpartition("-")[2])
            for o in self._objects
            if o["kind"] == "Pod" and o["spec"].get("nodeName") == node
            for chip in _chips(o["metadata"])[1].split(",")
        }
        cards = Counter(chip // self._card for chip in chips)
        there = [int(chip.rpartition("-")[2]) for chip in self._devices(node)]
        free = Counter(chip // self._card for chip in there if chip not in held)
        return sorted((free[card], number) for card, number in cards.items()), chips == sorted(chips)

    def _configuration(self, name: str, pod: Raw, chips: str, value: Any) -> Any:
        if value is None:
            return None
        document = dict(json.loads(value) if isinstance(value, str) else value)
        node = self._nodes[pod["node"]]
        devices = self._devices(pod["node"])
        own = [
            {
                "device_id": chip.rpartition("-")[2],
                "device_ip": devices.get(chip, {}).get("IP"),
                "super_device_id": str(devices.get(chip, {}).get("SuperDeviceID")),
            }
            for chip in chips.split(",")
        ]
        host = next(a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP")
        index = (node["metadata"].get("annotations") or {}).get("serverIndex", "")
        for key, wanted in (
            ("devices", [own]),
            ("server_ip", [host]),
            ("host_ip", [host]),
            ("server_id", [f"<uid:{name}>", pod.get("uid")]),
            ("pod_name", [name]),
            ("server_index", [index]),
            ("super_pod_id", [self._reported_super_pod(pod["node"])]),
        ):
            if document.get(key) in wanted:
                document[key] = "<own>"
        return json.dumps(document, sort_keys=True)

    def _reported_super_pod(self, node: str) -> int | None:
        for other in self._objects:
            if other["kind"] == "ConfigMap" and other["metadata"]["name"] == f"mindx-dl-deviceinfo-{node}":
                number: int | None = json.loads(other["data"]["DeviceInfoCfg"]).get("SuperPodID")
                return number
        return None


def _annotations(pod: Raw) -> Raw:
    return pod.get("annotations") or {}


def _chips(meta: Raw) -> tuple[str, str]:
    """The annotation of a Pod's chips, and its value."""
    annotations = meta.get("annotations") or {}
    return next(((key, annotations[key]) for key in CHIP_ANNOTATIONS if key in annotations), ("", ""))
