"""Clusters with nodes of two accelerators, and vcjobs that can use either, with scheduler and controllers."""

import json
from collections.abc import Mapping
from typing import Any

from scheduler.api.kinds import POD, POD_GROUP, QUEUE, VCJOB, Kind
from scheduler.api.names import CARD_ALTERNATIVE, CARD_ALTERNATIVES, CARD_NAME, CARD_QUOTA, CONDITION_ALTERNATIVE
from scheduler.cluster.memory import Simulation
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, manifests, node, queue

H200, PPU = "NVIDIA-H200", "PPU-ZW810E"
RESOURCES = {H200: "nvidia.com/gpu", PPU: "example.com/ppu"}
CARDS = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
    "- plugins: [{name: predicates}, {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}},"
    " {name: nodeorder}]\n"
)
CAPACITY = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
    "- plugins: [{name: overcommit}, {name: predicates}, {name: capacity}, {name: nodeorder}]\n"
)


PROPORTION = parse_configuration(DEFAULT_CONFIGURATION)
TOPOLOGY = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: network-topology-aware}]\n"
    "- plugins: [{name: predicates}, {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}]\n"
)


def card_node(name: str, card: str, number: int, **labels: str) -> Raw:
    resource = RESOURCES[card]
    named = {f"{resource}.product": card, f"{resource}.count": str(number), f"{resource}.memory": "97871"}
    return node(name, f"64c+256Gi+{resource}={number}", {**named, **labels})


def card_queue(name: str = "team", quota: Mapping[str, int] | None = None, capability: str = "") -> Raw:
    made = queue(name, capability=capability)
    made["metadata"]["annotations"] = {CARD_QUOTA: json.dumps({H200: 8, PPU: 8} if quota is None else quota)}
    return made


def alternative(card: str, count: int = 4, **fields: Any) -> Raw:
    return {"card": card, "resource": RESOURCES[card], "count": count, **fields}


def card_job(
    name: str, *alternatives: Raw, replicas: int = 2, queue: str = "team", template: Raw | None = None, **spec: Any
) -> Raw:
    """A vcjob of ``replicas`` Pods that start together; by default with four H200 or PPU each. ``template``: fields of
    the Pod spec."""
    listed = alternatives or (alternative(H200), alternative(PPU))
    container = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    task = {
        "name": "w",
        "replicas": replicas,
        "minAvailable": replicas,
        "template": {
            "metadata": {"annotations": {CARD_ALTERNATIVES: json.dumps(listed)}},
            "spec": {"restartPolicy": "Never", "containers": [container], **(template or {})},
        },
    }
    return {
        "apiVersion": VCJOB.api_version,
        "kind": VCJOB.name,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": NAME, "queue": queue, "minAvailable": replicas, "tasks": [task], **spec},
    }


def holder(name: str, on: str, card: str, number: int) -> Raw:
    """A running Pod of another scheduler that holds cards of a node."""
    resources = {"requests": {RESOURCES[card]: str(number)}, "limits": {RESOURCES[card]: str(number)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": on,
            "schedulerName": "other",
            "containers": [{"name": "c", "image": "x", "resources": resources}],
        },
        "status": {"phase": "Running"},
    }


class Cluster:
    """A simulated cluster with scheduler, controllers and kubelets."""

    def __init__(self, *objects: Raw, configuration: Configuration = CARDS) -> None:
        self.simulation = Simulation(manifests(*objects), configuration, [NAME])

    def run(self, cycles: int | None = None) -> "Cluster":
        self.simulation.run(cycles)
        return self

    def apply(self, *objects: Raw) -> "Cluster":
        self.simulation.change(manifests(*objects))
        return self

    def delete(self, kind: Kind, name: str) -> None:
        self.simulation.cluster.server.delete(kind, "" if kind is QUEUE else "default", name, force=True)

    def all(self, kind: Kind) -> list[Raw]:
        return list(self.simulation.cluster.server.of(kind))

    def pods(self, job: str) -> list[Raw]:
        return [pod for pod in self.all(POD) if pod["metadata"]["name"].startswith(f"{job}-w-")]

    def group(self, job: str) -> Raw:
        return next(group for group in self.all(POD_GROUP) if group["metadata"]["name"].startswith(f"{job}-"))

    def cards(self, job: str) -> set[str]:
        """The cards that the Pods of a job name."""
        return {pod["metadata"]["annotations"][CARD_NAME] for pod in self.pods(job)}

    def nodes(self, job: str) -> set[str]:
        return {pod["spec"].get("nodeName", "") for pod in self.pods(job)}

    def chosen(self, job: str) -> str | None:
        found: str | None = self.group(job)["metadata"]["annotations"].get(CARD_ALTERNATIVE)
        return found

    def phase(self, job: str) -> str:
        return str(self.group(job)["status"].get("phase", ""))

    def condition(self, job: str) -> Raw:
        conditions = self.group(job)["status"].get("conditions") or ()
        return next((each for each in conditions if each["type"] == CONDITION_ALTERNATIVE), {})

    def lines(self, job: str) -> dict[str, str]:
        """Alternative -> what the condition says about it."""
        pairs = (line.partition(": ") for line in self.condition(job)["message"].split("\n"))
        return {name: text for name, _, text in pairs}
