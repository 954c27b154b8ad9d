"""Random clusters in which jobs wait for cards (quotas by model, choices, slices, gangs in several queues), and the
remedies that a user would try."""

import copy
import json
from collections.abc import Iterator
from random import Random

from scheduler.api.names import CARD_NAME, CARD_QUOTA, CARD_REQUEST, WHAT_IF
from scheduler.framework.configuration_file import parse_configuration
from tests.builders import Raw, group, node, pods, queue

_TIER = "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: conformance}]\n"
CONFIGURATIONS = {
    "plain": parse_configuration(
        f"actions: enqueue, allocate, backfill\n{_TIER}"
        "- plugins: [{name: predicates}, {name: capacity-card}, {name: nodeorder}]\n"
    ),
    "overcommit": parse_configuration(
        f"actions: enqueue, allocate, backfill\n{_TIER}"
        "- plugins: [{name: overcommit}, {name: drf}, {name: predicates}, {name: capacity-card}, {name: nodeorder}]\n"
    ),
    "reclaim": parse_configuration(
        f"actions: enqueue, allocate, backfill, preempt, reclaim\n{_TIER}"
        "- plugins: [{name: predicates}, {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}]\n"
    ),
}
_GPU = "nvidia.com/gpu"
MODELS: dict[str, tuple[str, dict[str, str]]] = {
    "NVIDIA-H200": (_GPU, {f"{_GPU}.product": "NVIDIA-H200", f"{_GPU}.count": "4"}),
    "NVIDIA-L40S": (_GPU, {f"{_GPU}.product": "NVIDIA-L40S", f"{_GPU}.count": "4"}),
    "NVIDIA-H200/mig-1g.18gb-mixed": (
        "nvidia.com/mig-1g.18gb", {f"{_GPU}.product": "NVIDIA-H200", f"{_GPU}.count": "4"}),
    "NVIDIA-H800/mps-80g*1/2": (
        f"{_GPU}.shared",
        {f"{_GPU}.product": "NVIDIA-H800", f"{_GPU}.memory": "81559", f"{_GPU}.replicas": "2"},
    ),
}  # fmt: skip
"""Maps each card to the resource that counts it, and the labels of a node with the card."""
_CHOICES = ("NVIDIA-H200|NVIDIA-L40S", "NVIDIA-L40S|NVIDIA-H200")


# --- clusters ---------------------------------------------------------------------------------------------------------
def card_cluster(random: Random) -> list[Raw]:
    """Generates up to five nodes, four queues and seven gangs."""
    objects = [_node(random, f"n{number}") for number in range(random.randint(1, 5))]
    queues = [_queue(random, name) for name in ["qa", "qb", "qc"][: random.randint(1, 3)]]
    places = ["default", *(made["metadata"]["name"] for made in queues)]
    objects += queues
    for number in range(random.randint(1, 7)):
        objects += _gang(random, f"j{number}", random.choice(places))
    return objects


def _node(random: Random, name: str) -> Raw:
    size = f"{random.choice([4, 8, 16])}c+{random.choice([8, 16, 32])}Gi"
    labels: dict[str, str] = {}
    card = random.choice([None, *MODELS])
    if card is not None:
        resource, labels = MODELS[card]
        size += f"+{resource}={random.choice([1, 2, 4, 8])}"
    tainted = {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]} if random.random() < 0.1 else {}
    return node(name, size, labels, **tainted)


def _queue(random: Random, name: str) -> Raw:
    state = "Closed" if random.random() < 0.05 else "Open"
    made = queue(name, capability=random.choice(["", "", "4c+8Gi", "8c+16Gi"]), state=state)
    quota = {card: random.randint(0, 6) for card in MODELS if random.random() < 0.6}
    made["metadata"]["annotations"] = {CARD_QUOTA: json.dumps(quota)}
    return made


def _gang(random: Random, name: str, place: str) -> list[Raw]:
    size = random.randint(1, 4)
    asks = f"{random.choice([1, 1, 2, 3])}c+{random.choice([1, 2, 4])}Gi"
    card = random.choice([None, *MODELS, *_CHOICES, *_CHOICES, ""])
    if card is not None:
        resource = MODELS[card][0] if card in MODELS else _GPU
        asks += f"+{resource}={random.choice([1, 1, 2])}"
    made = group(name, place, random.randint(1, size), asks=random.choice([None, None, "2c", "4c+4Gi"]))
    if card and random.random() < 0.4:
        made["metadata"].setdefault("annotations", {})[CARD_REQUEST] = json.dumps({card: random.randint(1, 4)})
    named = {"annotations": {CARD_NAME: card}} if card else {}
    return [made, *pods(name, size, asks, name, priority=random.choice([0, 0, 10]), **named)]


# --- remedies ---------------------------------------------------------------------------------------------------------
def remedies(objects: list[Raw], name: str) -> Iterator[list[Raw]]:
    """Changes, as documents, that may let a gang run: deleted jobs, more nodes, larger quotas, and all of these
    together."""
    groups = [raw["metadata"]["name"] for raw in objects if raw["kind"] == "PodGroup"]
    deleted = [_changed("PodGroup", other, {WHAT_IF: "delete"}) for other in groups if other != name]
    nodes = [raw for raw in objects if raw["kind"] == "Node"]
    opened = [_raised(raw) for raw in [queue("default"), *(raw for raw in objects if raw["kind"] == "Queue")]]
    yield from ([document] for document in deleted)
    yield deleted
    for raw in nodes:
        for number in (1, 4, 16):
            yield _more(raw, number)
    yield opened
    yield [*opened, *deleted]
    yield [*opened, *(copied for raw in nodes for copied in _more(raw, 8))]


def _changed(kind: str, name: str, annotations: dict[str, str]) -> Raw:
    namespace = {"namespace": "default"} if kind == "PodGroup" else {}
    meta = {"name": name, "annotations": annotations, **namespace}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": meta}


def _raised(raw: Raw) -> Raw:
    """The open queue with unlimited quotas."""
    quota = json.dumps(dict.fromkeys(MODELS, 99))
    document = _changed("Queue", raw["metadata"]["name"], {CARD_QUOTA: quota, WHAT_IF: "merge"})
    capability = {"cpu": "999", "memory": "999Gi"} if raw["spec"].get("capability") else {}
    return {**document, "spec": {"capability": capability}, "status": {"state": "Open"}}


def _more(raw: Raw, number: int) -> list[Raw]:
    copied = [copy.deepcopy(raw) for _ in range(number)]
    for i, made in enumerate(copied):
        name = made["metadata"]["name"] = f"{raw['metadata']['name']}-{i}"
        made["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return copied
