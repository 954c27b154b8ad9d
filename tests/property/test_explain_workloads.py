"""The changes that ``explain`` proposes work, and it proposes a change if a simple one works, in random clusters of
vcjobs, Deployments and gangs, with tainted nodes, closed queues, quotas and Pods that terminate."""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from scheduler.api.kinds import find_kind
from scheduler.api.names import GROUP_NAME, WHAT_IF
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.explain import Outlook, explain, with_arguments
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pods, queue

GROUPS = "scheduling.volcano.sh/v1beta1"
EVICTING = DEFAULT_CONFIGURATION.replace("allocate, backfill", "allocate, backfill, preempt, reclaim")
CONFIGURATIONS = {
    "built in": parse_configuration(DEFAULT_CONFIGURATION),
    "evicting": parse_configuration(EVICTING),
    "capacity": parse_configuration(EVICTING.replace("proportion", "capacity")),
}
TAINTS = ("dedicated", "node.kubernetes.io/not-ready", "other")


# --- clusters ---------------------------------------------------------------------------------------------------------
def cluster(random: Random) -> tuple[list[Raw], list[tuple[str, str]]]:
    """The objects, and the kinds and names of the objects that may wait."""
    cores = {f"n{i}": random.choice([2, 4, 8, 16]) for i in range(random.randint(1, 4))}
    objects = [a_node(random, name, number) for name, number in cores.items()]
    states = {name: "Closed" if random.random() < 0.15 else "Open" for name in ("a", "b")}
    for name, state in states.items():
        limit = f"{random.choice([2, 4, 8])}c+16Gi" if random.random() < 0.4 else ""
        objects.append(queue(name, weight=random.randint(1, 3), state=state, capability=limit))
    open_queues = ["default", *(name for name, state in states.items() if state == "Open")]
    targets = []
    for i in range(random.randint(2, 7)):
        name, number, cpu = f"j{i}", random.randint(1, 5), random.choice([1, 1, 2, 3, 5, 9])
        minimum = random.choice([number, random.randint(1, number)])
        kind = random.choice(["vcjob", "deployment", "gang", "gang", "gang"])
        targets.append(("job" if kind == "vcjob" else "podgroup", name))
        if kind == "vcjob":
            objects.append(vcjob(name, random.choice(open_queues), cpu, number, minimum))
        elif kind == "deployment":
            targets.pop()
            objects.append(deployment(name, cpu, number))
        else:
            objects += gang(random, name, random.choice(["default", *states]), cpu, number, minimum, cores)
    return objects, targets


def a_node(random: Random, name: str, cores: int) -> Raw:
    spec: Raw = {}
    if random.random() < 0.2:
        spec["taints"] = [{"key": random.choice(TAINTS), "effect": "NoSchedule"}]
    elif random.random() < 0.1:
        spec["unschedulable"] = True
    return node(name, f"{cores}c+{2 * cores}Gi", {"zone": random.choice("ab")}, **spec)


def template(cpu: int, labels: Raw) -> Raw:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}]
    return {"metadata": {"labels": labels}, "spec": {"schedulerName": NAME, "containers": containers}}


def vcjob(name: str, queue_name: str, cpu: int, number: int, minimum: int) -> Raw:
    tasks = [{"name": "w", "replicas": number, "template": template(cpu, {})}]
    spec = {"schedulerName": NAME, "minAvailable": minimum, "queue": queue_name, "tasks": tasks}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def deployment(name: str, cpu: int, number: int) -> Raw:
    labels = {"app": name}
    spec = {"replicas": number, "selector": {"matchLabels": labels}, "template": template(cpu, labels)}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def gang(
    random: Random, name: str, queue_name: str, cpu: int, number: int, minimum: int, free: dict[str, int]
) -> list[Raw]:
    """A PodGroup with its Pods; some of them run, and are taken from the ``free`` cores of nodes."""
    asked = random.choice([minimum, 3 * number]) * cpu
    made = group(name, queue_name, minimum, asks=f"{asked}c" if random.random() < 0.5 else None)
    priority = random.choice([0, 0, 1, 5])
    selector = {"zone": random.choice("abc")} if random.random() < 0.15 else None
    members = pods(name, number, f"{cpu}c", name, priority=priority, selector=selector, gated=random.random() < 0.05)
    if random.random() < 0.4:
        made["status"] = {"phase": "Running"}
        for member in members:
            fitting = [at for at, cores in free.items() if cores >= cpu]
            if fitting:
                at = random.choice(fitting)
                free[at] -= cpu
                member["spec"]["nodeName"], member["status"] = at, {"phase": "Running"}
                if random.random() < 0.1:
                    member["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return [made, *members]


# --- changes ----------------------------------------------------------------------------------------------------------
def runs_after(
    objects: list[Raw], conf: Configuration, kind: str, name: str, change: list[Raw], arguments: Any
) -> bool:
    simulation = Simulation(manifests(*copy.deepcopy(objects)), conf, [NAME])
    simulation.run()
    before, _ = placed(simulation, kind, name)
    simulation.configuration = with_arguments(conf, arguments)
    parts = copy.deepcopy(change)
    simulation.change([Manifest("a change", find_kind(raw["apiVersion"], raw["kind"]), raw) for raw in parts])
    simulation.run()
    simulation.run()
    after, minimum = placed(simulation, kind, name)
    return after >= minimum and (after > before or minimum <= before)


def placed(simulation: Simulation, kind: str, name: str) -> tuple[int, int]:
    """The number of Pods that have a node, and the number that must have one."""
    everything = list(simulation.cluster.objects())
    groups = {raw["metadata"]["name"]: raw["spec"] for raw in everything if raw["kind"] == "PodGroup"}
    own = next((each for each in groups if each == name or (kind == "job" and each.startswith(f"{name}-"))), "")
    members = (
        raw
        for raw in everything
        if raw["kind"] == "Pod" and (raw["metadata"].get("annotations") or {}).get(GROUP_NAME) == own
    )
    number = sum(bool(raw["spec"].get("nodeName")) and not raw["metadata"].get("deletionTimestamp") for raw in members)
    return number, max(groups.get(own, {}).get("minMember", 1), 1) if own else 1


def simple_changes(objects: list[Raw]) -> Iterator[list[Raw]]:
    """Changes: nodes of an existing size, repaired nodes, open queues without limits, deleted jobs."""

    def merged(raw: Raw, **parts: Any) -> Raw:
        meta = {**raw["metadata"], "annotations": {WHAT_IF: "merge"}}
        return {"apiVersion": raw["apiVersion"], "kind": raw["kind"], "metadata": meta, **parts}

    nodes = [raw for raw in objects if raw["kind"] == "Node"]
    queues = [raw for raw in objects if raw["kind"] == "Queue"]
    for raw in nodes:
        for number in (1, 3, 12):
            yield [node_like(raw, i) for i in range(number)]
        yield [merged(raw, spec={"taints": [], "unschedulable": False})]
    opened = {"status": {"state": "Open"}, "spec": {"capability": {"cpu": "1000", "memory": "1000Gi"}}}
    yield from ([merged(raw, **opened)] for raw in queues)
    yield [merged(raw, **opened) for raw in queues] + [node_like(nodes[-1], i) for i in range(12)]
    for raw in objects:
        if raw["kind"] in ("PodGroup", "Job", "Deployment"):
            yield [{**merged(raw), "metadata": {**raw["metadata"], "annotations": {WHAT_IF: "delete"}}}]


def node_like(raw: Raw, i: int) -> Raw:
    meta = {**raw["metadata"], "name": f"new-{i}"}
    return {**raw, "metadata": {**meta, "labels": {**meta["labels"], "kubernetes.io/hostname": f"new-{i}"}}, "spec": {}}


@pytest.mark.parametrize("seed", range(16))
def test_changes_work_and_one_is_found_if_a_simple_one_works(seed: int) -> None:
    random = Random(seed)
    conf = CONFIGURATIONS[random.choice(list(CONFIGURATIONS))]
    objects, targets = cluster(random)
    checked = 0
    for kind, name in random.sample(targets, len(targets)):
        found = explain(Simulation(manifests(*copy.deepcopy(objects)), conf, [NAME]), kind, "default", name)
        if found.outlook is not Outlook.WAITS or checked == 2:
            continue
        checked += 1
        assert found.gates, f"{name} waits without a cause"
        for change in found.changes:
            works = runs_after(objects, conf, kind, name, list(change.documents), change.arguments)
            assert works, f"{kind} {name}: {change.text}"
        if not found.changes:
            for simple in simple_changes([raw for raw in objects if raw["metadata"]["name"] != name]):
                works = runs_after(objects, conf, kind, name, simple, {})
                assert not works, f"{kind} {name}: no change was found, but this works: {simple}"
