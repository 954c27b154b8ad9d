"""Volcano's decisions on real clusters, compared scenario by scenario with the scheduler's decisions on the same
manifests.

Each directory holds the manifests, the configuration, a description of the scenario, and the outcome on which three
runs of Volcano agreed. Of `meta.yaml`, the fields `title`, `kubelet`, `cycles`, `usage` and `flags` are read; the
others describe how Volcano was run.

Which of several equal Pods is placed is random in Volcano, and so is the choice between equal nodes. Interchangeable
Pods (same PodGroup, same spec, not on a node at first) are compared as a set: how many of them are on each node.
Interchangeable nodes (equal except for their names, without Pods at first) may be swapped.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.api.names import GROUP_NAME
from scheduler.api.usage import NodeUsage
from scheduler.cli.flags import FeatureGates
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import KubeletBehaviour, read_manifests, simulate
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.documents import read_yaml

Raw = dict[str, Any]
HERE = Path(__file__).parent
NAMES = sorted(d.name for d in HERE.iterdir() if (d / "expected.json").exists())


@cache
def meta(name: str) -> Raw:
    """The description of a scenario. Cached: read it only."""
    result: Raw = read_yaml((HERE / name / "meta.yaml").read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize("name", NAMES)
def test_decides_as_volcano(name: str, record_property: Any) -> None:
    about = meta(name)
    record_property("title", about["title"])
    items = outcome(name, KubeletBehaviour.RUN if about.get("kubelet") else KubeletBehaviour.NONE)
    differences = differences_from_record(name, items)
    assert not differences, f"{about['title']}:\n" + "\n".join(differences)


def differences_from_record(name: str, items: list[Raw]) -> list[str]:
    expected = json.loads((HERE / name / "expected.json").read_text(encoding="utf-8"))
    started = {key_of(o) for o in given(name) if o["kind"] == "Pod" and o["spec"].get("nodeName")}
    differences = []
    for swapped in with_nodes_swapped(name, items):
        differences.append(compare(expected, swapped, started))
        if not differences[-1]:
            break
    return min(differences, key=len)


@cache
def manifests_of(name: str) -> list[Manifest]:
    """The manifests of a scenario. Cached: read them only."""
    return read_manifests([str(HERE / name / "input.yaml")])


def given(name: str) -> list[Raw]:
    """The objects of a scenario. Read them only."""
    return [manifest.raw for manifest in manifests_of(name)]


def compare(expected: Raw, items: list[Raw], started: set[str]) -> list[str]:
    """``started``: the Pods that had a node at the start."""
    pods = compare_pods(expected, items, started)
    return [*compare_summary(expected, items), *pods, *compare_groups(expected, items)]


def with_nodes_swapped(name: str, items: list[Raw]) -> Iterator[list[Raw]]:
    """The outcome itself, and then the outcomes with interchangeable nodes swapped."""
    yield items
    manifests = given(name)
    used = {o["spec"].get("nodeName") for o in manifests if o["kind"] == "Pod"}
    alike: dict[str, list[str]] = {}
    for node in (o for o in manifests if o["kind"] == "Node"):
        own = node["metadata"]["name"]
        if own not in used:
            text = json.dumps(node, sort_keys=True).replace(json.dumps(own), '"*"')
            alike.setdefault(text, []).append(own)
    for names in alike.values():
        for order in permutations(names):
            swap = dict(zip(names, order, strict=True))
            yield [_moved(o, swap) if o["kind"] == "Pod" else o for o in items]


def _moved(pod: Raw, swap: dict[str, str]) -> Raw:
    node = pod["spec"].get("nodeName")
    return {**pod, "spec": {**pod["spec"], "nodeName": swap.get(node, node)}} if node else pod


def outcome(name: str, kubelet: KubeletBehaviour) -> list[Raw]:
    """Every object after the scheduler has settled on the scenario's manifests."""
    return settled(name, read_manifests([str(HERE / name / "input.yaml")]), kubelet)


def settled(
    name: str, manifests: Sequence[Manifest], kubelet: KubeletBehaviour, nodes: Mapping[str, str] | None = None
) -> list[Raw]:
    """Every object after the scheduler has settled on manifests, with the configuration of a scenario. ``usage`` in its
    meta is the usage of nodes in per cent of cpu and memory, and ``cycles`` the number of cycles. ``nodes``: node ->
    its name in the manifests, where this differs."""
    conf, about = HERE / name / "scheduler.conf", meta(name)
    configuration = replace(parse_configuration(conf.read_text(encoding="utf-8"), conf.name), features=features(name))
    used = {(nodes or {}).get(node, node): load for node, load in about.get("usage", {}).items()}
    loads = {node: NodeUsage(cpu, memory, 0.0) for node, (cpu, memory) in used.items()}
    report = simulate(manifests, configuration, ["volcano"], cycles=about.get("cycles"), kubelet=kubelet, usage=loads)
    return report.cluster.objects()


def features(name: str) -> frozenset[str]:
    """The feature gates with which the scheduler was started."""
    prefix = "--feature-gates="
    given = [flag for flag in meta(name).get("flags", {}).get("scheduler", []) if flag.startswith(prefix)]
    read = [FeatureGates().convert(flag.removeprefix(prefix), None, None) for flag in given]
    return frozenset(gate for gates in read for gate, on in gates.items() if on)


# --- counts ---
def compare_summary(expected: Raw, items: list[Raw]) -> list[str]:
    """Compares the numbers of Pods that are bound per PodGroup and Queue and evicted per PodGroup, and their nodes, if
    the runs agreed on them."""
    got, want, weak = summary(items), expected["summary"], expected.get("weak", {})
    unsure = expected.get("disagreed", [])
    result = [
        f"{field} {key}: {got[field].get(key, 0)}, expected {number}"
        for field in ("bound_per_group", "bound_per_queue", "evicted_per_group")
        for key, number in want.get(field, {}).items()
        if got[field].get(key, 0) != number
    ]
    if not any(path.startswith("summary/evicted_per_group") for path in unsure):
        surplus = {k: n for k, n in got["evicted_per_group"].items() if k not in want.get("evicted_per_group", {})}
        result += [f"evicted {surplus}, expected none of them"] if surplus else []
    if want.get("pods_per_node") and not any(path.startswith("summary/pods_per_node") for path in unsure):
        result += differ("Pods per node", got["pods_per_node"], want["pods_per_node"])
    elif "node_multiset" in want:
        result += differ("Pods per node in any order", got["node_multiset"], want["node_multiset"])
    for key, spread in want.get("spread_per_group", {}).items():
        result += differ(f"spread of {key}", got["spread_per_group"].get(key, []), sorted(spread))
    if "mix" in weak:
        result += differ("groups sharing nodes", got["mix"], sorted(weak["mix"], key=str))
    for stem, states in weak.get("pods_by_group", {}).items():
        bound: Counter[str] = Counter()
        for state, number in states.items():
            bound[state.split("|")[1]] += number
        have = Counter(got["states"].get(stem, {}))
        if bound - have:  # Pods whose state differed between runs are left out of the record: it is a lower bound
            result.append(f"Pods called {stem}-*: {dict(have)}, expected at least {dict(bound)}")
    return result


def summary(items: list[Raw]) -> dict[str, Any]:
    groups = {key_of(o): o for o in items if o["kind"] == "PodGroup"}
    per_group: Counter[str] = Counter()
    per_queue: Counter[str] = Counter()
    evicted: Counter[str] = Counter()
    per_node: Counter[str] = Counter()
    spread: dict[str, Counter[str]] = {}
    mix: dict[str, Counter[str]] = {}
    states: dict[str, Counter[str]] = {}
    for pod in pods_of(items):
        group, node = group_of(pod), pod["spec"].get("nodeName")
        stem = group.split("/")[-1] if group != "-" else pod["metadata"]["name"].rsplit("-", 1)[0]
        states.setdefault(stem, Counter())["bound" if node else "unbound"] += 1
        if pod["metadata"].get("deletionTimestamp"):
            evicted[group] += 1
        elif node:
            per_group[group] += 1
            per_queue[groups[group]["spec"]["queue"] if group in groups else "-"] += 1
            per_node[node] += 1
            spread.setdefault(group, Counter())[node] += 1
            mix.setdefault(node, Counter())[key_of(pod).rsplit("-", 1)[0]] += 1
    return {
        "bound_per_group": per_group,
        "bound_per_queue": per_queue,
        "evicted_per_group": evicted,
        "pods_per_node": dict(per_node),
        "node_multiset": sorted(per_node.values()),
        "spread_per_group": {group: sorted(nodes.values()) for group, nodes in spread.items()},
        "mix": sorted((dict(sorted(stems.items())) for stems in mix.values()), key=str),
        "states": {stem: dict(counter) for stem, counter in states.items()},
    }


# --- Pods ---
def compare_pods(expected: Raw, items: list[Raw], started: set[str]) -> list[str]:
    """Compares the node of each Pod that was recorded; for interchangeable Pods, the number on each node."""
    pods = {key_of(pod): pod for pod in pods_of(items)}
    alike: dict[str, list[str]] = {}
    for key, pod in pods.items():
        alike.setdefault(key if key in started else shape(pod), []).append(key)
    result = []
    unsure = set(expected.get("disagreed", []))
    recorded = {
        key: fields
        for key, fields in expected["pods"].items()
        if "node" in fields and f"pods/{key}/node" not in unsure and not fields.get("deleted") and key in pods
    }
    for keys in alike.values():
        want = Counter(recorded[key]["node"] for key in keys if key in recorded)
        have = Counter(pods[key]["spec"].get("nodeName") for key in keys)
        missing = want - have
        if missing:
            result.append(f"{keys[0]} and equal Pods ({len(keys)}) on {dict(have)}, expected at least {dict(want)}")
    for key, fields in expected["pods"].items():
        nominated = fields.get("nominatedNodeName")
        if nominated and key in pods:
            result += differ(f"{key} nominated", pods[key]["status"].get("nominatedNodeName"), nominated)
    return result


def shape(pod: Raw) -> str:
    """The fields that interchangeable Pods have in common."""
    spec = {k: v for k, v in pod["spec"].items() if k not in ("nodeName", "schedulingGates")}  # what sessions change
    return json.dumps([group_of(pod), spec, pod["metadata"].get("labels")], sort_keys=True)


# --- PodGroups ---
def compare_groups(expected: Raw, items: list[Raw]) -> list[str]:
    groups = {key_of(o): o.get("status") or {} for o in items if o["kind"] == "PodGroup"}
    result = []
    for key, want in expected["podgroups"].items():
        status = groups[key]
        if "phase" in want and f"podgroups/{key}/phase" not in expected.get("disagreed", []):
            result += differ(f"PodGroup {key}", status.get("phase") or None, want["phase"])
        have = {(c["type"], c["status"], c.get("reason")) for c in status.get("conditions") or []}
        lacking = {(c["type"], c["status"], c.get("reason")) for c in want.get("conditions", [])} - have
        result += [f"PodGroup {key} has conditions {sorted(have)}, lacks {sorted(lacking)}"] if lacking else []
    return result


# --- helpers ---
def differ(what: str, got: object, want: object) -> list[str]:
    return [] if got == want else [f"{what}: {got}, expected {want}"]


def pods_of(items: list[Raw]) -> list[Raw]:
    return [o for o in items if o["kind"] == "Pod"]


def key_of(obj: Raw) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def group_of(pod: Raw) -> str:
    name = (pod["metadata"].get("annotations") or {}).get(GROUP_NAME)
    return f"{pod['metadata']['namespace']}/{name}" if name else "-"
