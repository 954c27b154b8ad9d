"""What is said to help helps, and one unit less of it does not: tried on clusters made at random."""

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from scheduler.api.kinds import find_kind
from scheduler.api.names import CARD_NAME, CARD_QUOTA, GROUP_NAME, WHAT_IF
from scheduler.api.quantity import format_milli, parse_quantity
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.explain import Change, Explanation, Outlook, explain, with_arguments
from scheduler.framework.configuration import DEFAULT_CONFIGURATION, Configuration, parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pods, queue

CONFIGURATIONS = {
    "built in": parse_configuration(DEFAULT_CONFIGURATION),
    "capacity": parse_configuration(
        "actions: enqueue, allocate, backfill, reclaim, preempt\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: conformance}]\n"
        "- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: capacity}, {name: nodeorder}]\n"
    ),
    "hierarchy": parse_configuration(
        "actions: enqueue, allocate, backfill, reclaim\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
        "- plugins: [{name: predicates}, {name: capacity, enableHierarchy: true}, {name: nodeorder}]\n"
    ),
    "cards": parse_configuration(
        "actions: enqueue, allocate, backfill\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
        "- plugins: [{name: predicates}, {name: capacity-card}, {name: nodeorder}]\n"
    ),
    "quotas": parse_configuration(
        "actions: enqueue, allocate, backfill, preempt, reclaim\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: conformance}]\n"
        "- plugins: [{name: resourcequota}, {name: predicates}, {name: ascend}, {name: proportion}]\n"
    ),
}
APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}


# --- clusters ---------------------------------------------------------------------------------------------------------
def cluster(random: Random, conf: str) -> list[Raw]:
    """Up to five nodes, four queues and five gangs; tainted, cordoned and labelled nodes, chips and cards."""
    places, queues = _queues(random, conf)
    objects = [*_nodes(random), *queues]
    if conf == "quotas" and random.random() < 0.6:
        hard = {"cpu": str(random.choice([4, 8, 16])), "memory": "32Gi"}
        objects.append(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "rq", "namespace": "default"},
             "spec": {"hard": hard}}
        )  # fmt: skip
    for number in range(random.randint(1, 5)):
        objects += _gang(random, f"j{number}", places)
    return objects


def _nodes(random: Random) -> Iterator[Raw]:
    for number in range(random.randint(1, 5)):
        size = f"{random.choice([4, 8, 16])}c+{random.choice([8, 16, 32])}Gi"
        labels: dict[str, str] = {}
        spec: Raw = {}
        match random.choice(["plain", "plain", "tainted", "ssd", "chips", "cards"]):
            case "tainted":
                spec["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
            case "ssd":
                labels = {"disk": "ssd"}
            case "chips":
                size, labels = f"{size}+huawei.com/Ascend910=8", {"accelerator-type": "module"}
            case "cards":
                size += "+nvidia.com/gpu=4"
                labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "4"}
        if random.random() < 0.1:
            spec["unschedulable"] = True
        yield node(f"n{number}", size, labels, **spec)


def _queues(random: Random, conf: str) -> tuple[list[str], list[Raw]]:
    """Where jobs may be, and the queues."""
    objects = []
    for name in ["qa", "qb"][: random.randint(0, 2)]:
        amounts: Raw = {}
        if random.random() < 0.6:
            amounts["capability"] = f"{random.choice([2, 4, 8])}c+{random.choice([4, 8])}Gi"
        if random.random() < 0.3:
            amounts["deserved"] = f"{random.choice([1, 2, 4])}c"
        made = queue(name, random.randint(1, 4), state="Closed" if random.random() < 0.1 else "Open", **amounts)
        if conf == "cards":
            made["metadata"]["annotations"] = {CARD_QUOTA: json.dumps({"NVIDIA-H200": random.randint(0, 3)})}
        objects.append(made)
    places = ["default", *(made["metadata"]["name"] for made in objects)]
    if conf == "hierarchy" and "qa" in places:
        objects.append(queue("qa-1", parent="qa", capability=random.choice(["", "2c", "4c"])))
        places = [name for name in places if name != "qa"] + ["qa-1"]
    return places, objects


def _gang(random: Random, name: str, places: list[str]) -> list[Raw]:
    size = random.randint(1, 4)
    asks = f"{random.choice([1, 2, 3, 5])}c+{random.choice([1, 2, 4])}Gi"
    rest: Raw = {}
    match random.choice(["plain"] * 4 + ["chips", "machine", "cards", "ssd", "apart", "gated"]):
        case "chips":
            asks, size = f"{asks}+huawei.com/Ascend910={random.choice([1, 2, 4])}", 1
        case "machine":
            asks += "+huawei.com/Ascend910=8"
        case "cards":
            asks += "+nvidia.com/gpu=1"
            rest["annotations"] = {CARD_NAME: "NVIDIA-H200"}
        case "ssd":
            rest["selector"] = {"disk": "ssd"}
        case "apart":
            rest["labels"] = {"app": "apart"}
            rest["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}}
        case "gated":
            rest["gated"] = True
    place = random.choice(places) if random.random() < 0.95 else "missing"
    minimum = random.randint(1, size) if random.random() < 0.95 else size + 1
    announced = f"{random.choice([1, 2, 4, 8])}c+{random.choice([1, 4])}Gi" if random.random() < 0.5 else None
    return [
        group(name, place, minimum, asks=announced),
        *pods(name, size, asks, name, priority=random.choice([0, 0, 10]), **rest),
    ]


# --- the changes, carried out by somebody else ------------------------------------------------------------------------
def settled(objects: list[Raw], configuration: Configuration) -> Simulation:
    simulation = Simulation(manifests(*copy.deepcopy(objects)), configuration, [NAME])
    simulation.run()
    return simulation


def placed(simulation: Simulation, name: str) -> int:
    """Pods of a gang that have a node."""
    return sum(
        1
        for raw in simulation.cluster.objects()
        if raw["kind"] == "Pod"
        and raw["metadata"].get("annotations", {}).get(GROUP_NAME) == name
        and raw["spec"].get("nodeName")
        and not raw["metadata"].get("deletionTimestamp")
    )


def runs_after(
    objects: list[Raw], configuration: Configuration, name: str, documents: list[Raw], arguments: Any
) -> bool:
    """Whether the gang has its minimum, and more Pods on nodes than before, when the change is made to a cluster at
    rest."""
    simulation = settled(objects, configuration)
    before = placed(simulation, name)
    simulation.configuration = with_arguments(configuration, arguments)
    simulation.change([Manifest("a change", find_kind(d["apiVersion"], d["kind"]), d) for d in documents])
    simulation.run()
    found = simulation.cluster.get("scheduling.volcano.sh/v1beta1", "PodGroup", "default", name)
    assert found is not None
    enough = placed(simulation, name) >= max(found["spec"]["minMember"], 1)
    return enough and (placed(simulation, name) > before or found["spec"]["minMember"] <= before)


def less(change: Change, objects: list[Raw]) -> Iterator[tuple[list[Raw], dict[str, dict[str, Any]]]]:
    """The change with one unit less, once for everything that it changes."""
    documents = list(change.documents)
    there = {(raw["kind"], raw["metadata"]["name"]): raw for raw in objects}
    for i, document in enumerate(documents):
        others = documents[:i] + documents[i + 1 :]
        smaller = list(_smaller(document, there.get((document["kind"], document["metadata"]["name"]), {})))
        for version in smaller or [None]:
            yield others + ([version] if version else []), change.arguments
    for plugin, given in change.arguments.items():
        for key, number in given.items():
            yield documents, {**change.arguments, plugin: {**given, key: round(number - 0.01, 2)}}


def _smaller(document: Raw, before: Raw) -> Iterator[Raw | None]:
    """A merge patch with one of its amounts a unit smaller; None: that is no change any more. Nothing for documents
    that are about no amount."""
    if document["metadata"].get("annotations", {}).get(WHAT_IF) != "merge":
        return
    for path in (("spec", "capability"), ("spec", "deserved"), ("spec", "hard"), ("status", "allocatable")):
        amounts = document.get(path[0], {}).get(path[1], {})
        for resource, text in amounts.items():
            old = before.get(path[0], {}).get(path[1], {}).get(resource, "0")
            yield _with(document, path, resource, _one_less(resource, str(text)), str(old))
    for key, step in (("weight", -1), ("minMember", 1)):
        if key in document.get("spec", {}):
            old = before.get("spec", {}).get(key, 1)
            yield _with(document, ("spec",), key, document["spec"][key] + step, old)
    quota = document["metadata"]["annotations"].get(CARD_QUOTA)
    if quota is not None:
        cards = {card: number - 1 for card, number in json.loads(quota).items()}
        yield _with(document, ("metadata", "annotations"), CARD_QUOTA, json.dumps(cards), quota)


def _one_less(resource: str, text: str) -> str:
    if resource == "cpu":
        return format_milli(parse_quantity(text, 1000) - 1)
    return str(parse_quantity(text) - (2**20 if resource == "memory" else 1))


def _with(document: Raw, path: tuple[str, ...], key: str, value: Any, before: Any) -> Raw | None:
    result = copy.deepcopy(document)
    at = result
    for part in path:
        at = at[part]
    at[key] = value
    same = str(value) == str(before) or (
        isinstance(value, str) and not value.startswith("{") and parse_quantity(value) == parse_quantity(before)
    )
    return None if same else result


# --- the promise ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(100))
def test_the_smallest_change_lets_the_job_run_and_one_unit_less_does_not(seed: int) -> None:
    random = Random(seed)
    conf = random.choice(list(CONFIGURATIONS))
    configuration, objects = CONFIGURATIONS[conf], cluster(random, conf)
    name, explanation = first_that_waits(objects, configuration)
    if explanation is None:
        return
    assert explanation.gates, f"{name} waits, and nobody says why"
    for change in explanation.changes:
        told = f"{conf}: {name}: {change.text}"
        assert runs_after(objects, configuration, name, list(change.documents), change.arguments), told
        for documents, arguments in less(change, objects):
            assert not runs_after(objects, configuration, name, documents, arguments), f"{told}: less does: {documents}"


def first_that_waits(objects: list[Raw], configuration: Configuration) -> tuple[str, Explanation | None]:
    for raw in objects:
        if raw["kind"] == "PodGroup":
            name = raw["metadata"]["name"]
            simulation = Simulation(manifests(*copy.deepcopy(objects)), configuration, [NAME])
            found = explain(simulation, "podgroup", "default", name)
            if found.outlook is Outlook.WAITS:
                return name, found
    return "", None


def test_nearly_every_job_that_waits_is_told_a_way_out() -> None:
    waiting = helped = 0
    for seed in range(100, 140):
        random = Random(seed)
        conf = random.choice(list(CONFIGURATIONS))
        _, explanation = first_that_waits(cluster(random, conf), CONFIGURATIONS[conf])
        if explanation is not None:
            waiting += 1
            helped += bool(explanation.changes)
    assert waiting > 20
    assert helped > 0.9 * waiting
