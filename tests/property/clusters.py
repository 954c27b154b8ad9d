"""Random clusters in which jobs wait, for property tests of ``explain``."""

import json
from collections.abc import Callable, Iterator
from random import Random

from scheduler.api.names import (
    CARD_NAME,
    CARD_QUOTA,
    GROUP_NAME,
    NODEGROUP_NAME,
    NODEGROUP_RESOURCE_LIMITS,
    REVOCABLE_ZONE,
)
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import Raw, group, node, pods, queue
from tests.device_builders import device_class, gpus, request, resource_slice, template, templated
from tests.unit.plugins.predicates.volumes.claims import DRIVER, STORAGE, claim, csi_node, storage_class, volume

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
    "volumes": parse_configuration(
        "actions: enqueue, allocate, backfill\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
        "- plugins: [{name: predicates}, {name: nodeorder}]\n"
    ),
    "devices": parse_configuration(
        "actions: enqueue, allocate, backfill\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
        "- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]\n"
    ),
    "priorities": parse_configuration(
        "actions: enqueue, allocate, preempt, gangpreempt, gangreclaim, backfill\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: conformance}]\n"
        "- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]\n"
    ),
    "zones": parse_configuration(
        "actions: enqueue, allocate, backfill, shuffle\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
        "- plugins:\n  - {name: predicates}\n  - {name: nodeorder}\n  - name: tdm\n    arguments:\n"
        "      tdm.revocable-zone.early: 08:00-11:15\n      tdm.revocable-zone.late: 13:30-20:00\n"
        "      tdm.revocable-zone.open: 09:00-17:00\n"
    ),
    "groups": parse_configuration(
        "actions: enqueue, allocate, backfill\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
        "- plugins: [{name: predicates}, {name: nodegroup}, {name: nodeorder}]\n"
    ),
}
APART = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "apart"}}}


# --- clusters ---------------------------------------------------------------------------------------------------------
def cluster(random: Random, conf: str) -> list[Raw]:
    """Generates up to five nodes, four queues and five gangs, with tainted, cordoned and labelled nodes, chips and
    cards."""
    places, queues = _queues(random, conf)
    objects = [*_nodes(random), *queues]
    if conf == "quotas" and random.random() < 0.6:
        hard = {"cpu": str(random.choice([4, 8, 16])), "memory": "32Gi"}
        objects.append(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "rq", "namespace": "default"},
             "spec": {"hard": hard}}
        )  # fmt: skip
    for number in range(random.randint(1, 5)):
        objects += _gang(random, f"j{number}", places, odd=conf not in _FURNISHED)
    return furnish(random, objects) if (furnish := _FURNISHED.get(conf)) is not None else objects


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
    """The queues, and the names of those that take jobs."""
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


def _gang(random: Random, name: str, places: list[str], *, odd: bool) -> list[Raw]:
    size = random.randint(1, 4)
    asks = f"{random.choice([1, 2, 3, 5])}c+{random.choice([1, 2, 4])}Gi"
    rest: Raw = {}
    match random.choice(["plain"] * (4 if odd else 40) + ["chips", "machine", "cards", "ssd", "apart", "gated"]):
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


# --- what some configurations look at ---------------------------------------------------------------------------------
def _with_volumes(random: Random, objects: list[Raw]) -> list[Raw]:
    """A few volumes, drivers that attach a few to each node, storage from which some can be made, and claims."""
    names = [raw["metadata"]["name"] for raw in objects if raw["kind"] == "Node"]
    made = [storage_class("late"), storage_class("made", DRIVER), *_storage(f"{random.choice([2, 2, 5, 12])}Gi")]
    made += [csi_node(name, random.randint(0, 2)) for name in names]
    for i in range(random.randint(0, 3)):
        made.append(volume(f"v{i}", f"{random.choice([1, 4])}Gi", on=random.choice([[], [random.choice(names)]])))
    for raw in objects:
        if raw["kind"] == "Pod" and random.random() < 0.6:
            name = f"{raw['metadata']['name']}-data"
            raw["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            if random.random() < 0.9:
                sort = random.choice(["late", "made", "made", "nowhere"])
                made.append(claim(name, f"{random.choice([1, 3, 8])}Gi", sort))
    return [*made, *objects]


def _storage(capacity: str) -> list[Raw]:
    """A driver that reports its free capacity."""
    driver = {
        "apiVersion": STORAGE,
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {"storageCapacity": True},
    }
    meta = {"name": "pool", "namespace": "default"}
    rest = {"storageClassName": "made", "capacity": capacity, "nodeTopology": {}}
    return [driver, {"apiVersion": STORAGE, "kind": "CSIStorageCapacity", "metadata": meta, **rest}]


def _with_devices(random: Random, objects: list[Raw]) -> list[Raw]:
    """Some nodes have devices, some queues may have few, and some gangs claim one or two for each Pod."""
    made = [device_class(), template("one", request()), template("two", request(count=2))]
    names = [raw["metadata"]["name"] for raw in objects if raw["kind"] == "Node"]
    made += [resource_slice(gpus(random.randint(1, 3)), name) for name in names if random.random() < 0.7]
    wanting = {name for name in _groups(objects) if random.random() < 0.7}
    asked = {name: random.choice(["one", "two"]) for name in sorted(wanting)}
    for raw in objects:
        if raw["kind"] == "Pod" and (wanted := asked.get(raw["metadata"]["annotations"].get(GROUP_NAME, ""))):
            raw["spec"]["resourceClaims"] = templated(wanted)
        if raw["kind"] == "Queue" and random.random() < 0.4:
            raw["spec"]["capability"] = {
                **raw["spec"].get("capability", {}),
                "deviceclass/gpu": str(random.randint(1, 3)),
            }
    return [*made, *objects]


def _groups(objects: list[Raw]) -> list[str]:
    return [raw["metadata"]["name"] for raw in objects if raw["kind"] == "PodGroup"]


def _with_priorities(random: Random, objects: list[Raw]) -> list[Raw]:
    """Gangs of several priorities, and on every node a running one that uses most of it."""
    made = [_priority_class("low", 10), _priority_class("high", 1000)]
    for raw in objects:
        if raw["kind"] == "PodGroup" and random.random() < 0.4:
            raw["spec"]["priorityClassName"] = "low"
    for raw in [raw for raw in objects if raw["kind"] == "Node"]:
        name, holder = raw["metadata"]["name"], f"on-{raw['metadata']['name']}"
        number = int(raw["status"]["allocatable"]["cpu"]) // 4
        made.append(group(holder, priority_class=random.choice(["low", "high"]), minimum=random.choice([1, number])))
        made += pods(holder, number, "4c", holder, on=name)
    return [*objects, *made]


def _priority_class(name: str, value: int) -> Raw:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def _with_zones(random: Random, objects: list[Raw]) -> list[Raw]:
    """Most nodes are in a revocable zone, and some Pods may use it."""
    for raw in objects:
        if raw["kind"] == "Node" and random.random() < 0.8:
            raw["metadata"]["labels"][REVOCABLE_ZONE] = random.choice(["early", "late", "open", "unknown"])
        if raw["kind"] == "Pod" and random.random() < 0.5:
            raw["metadata"]["annotations"][REVOCABLE_ZONE] = "*"
    return objects


def _with_groups(random: Random, objects: list[Raw]) -> list[Raw]:
    """Most nodes are in node groups, and queues may use some of the groups, or a limited amount of them."""
    for raw in objects:
        if raw["kind"] == "Node" and random.random() < 0.8:
            raw["metadata"]["labels"][NODEGROUP_NAME] = random.choice(["a", "b"])
        if raw["kind"] == "Queue" and random.random() < 0.7:
            required = random.choice([["a"], ["b"], ["a", "b"]])
            near = {"requiredDuringSchedulingIgnoredDuringExecution": required}
            raw["spec"]["affinity"] = {"nodeGroupAffinity": near}
            limits = {"a": {"cpu": str(random.choice([1, 4]))}} if random.random() < 0.4 else {}
            raw["metadata"]["annotations"] = {NODEGROUP_RESOURCE_LIMITS: json.dumps(limits)} if limits else {}
    return objects


_FURNISHED: dict[str, Callable[[Random, list[Raw]], list[Raw]]] = {
    "volumes": _with_volumes,
    "devices": _with_devices,
    "priorities": _with_priorities,
    "zones": _with_zones,
    "groups": _with_groups,
}
