"""A simulated node in memory, on which steps take effect at once."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.playground.families import FAMILIES
from scheduler.playground.faults import Faults
from scheduler.playground.kubelet import next_step, ready_conditions
from scheduler.playground.node import Machine, machine_of, node_manifest, read_holdings
from scheduler.playground.objects import Patch, Remove, SimulatedNode, SimulatedPod, Warn
from scheduler.playground.reports import Report, report_of

NOW = 1_790_000_000.0
Raw = dict[str, Any]


class Stage:
    """One node with its Pods. ``settle`` takes steps until no step is left."""

    def __init__(self, family: str = "910b-8", division: str = "", **machine: int) -> None:
        self.machine = replace(Machine("n", FAMILIES[family], 0, division), **machine)
        self.node: Raw = node_manifest(self.machine, ready_conditions(NOW))
        self.pods: dict[str, Raw] = {}
        self.faults = Faults()
        self.warnings: list[str] = []
        self.news: list[str] = []

    def bind(self, name: str, requests: Mapping[str, int], annotations: Mapping[str, str] | None = None) -> None:
        """A Pod that the scheduler has just bound."""
        amounts = {key: str(amount) for key, amount in requests.items()}
        self.pods[name] = {
            "metadata": {"name": name, "namespace": "x", "uid": f"uid-{name}", "annotations": dict(annotations or {})},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": {"requests": amounts}}]},
            "status": {"phase": "Pending"},
        }

    def settle(self, now: float = NOW) -> float | None:
        """Returns after how many seconds something is due."""
        while True:
            step = next_step(self.machine, self._node(), self.faults, self._pods(), now)
            self.news += step.news
            for write in step.writes:
                match write:
                    case Patch(metadata=meta, body=body):
                        target = self.node if meta.name == "n" and not meta.namespace else self.pods[meta.name]
                        merge(target, body)
                    case Remove(name=name):
                        del self.pods[name]
                    case Warn(message=message):
                        self.warnings.append(message)
            if not step.writes:
                return step.after

    def report(self) -> Report:
        return report_of(self.machine, self.faults, read_holdings(self.machine.family, self._pods()))

    def annotation(self, pod: str, key: str) -> str | None:
        value: str | None = self.pods[pod]["metadata"]["annotations"].get(key)
        return value

    def status(self, pod: str) -> Raw:
        status: Raw = self.pods[pod]["status"]
        return status

    def _node(self) -> SimulatedNode:
        return msgspec.convert(self.node, SimulatedNode)

    def _pods(self) -> list[SimulatedPod]:
        return [msgspec.convert(pod, SimulatedPod) for pod in self.pods.values()]


def merge(target: Raw, patch: Mapping[str, Any]) -> None:
    """A merge patch; lists are replaced."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = value


def reread(stage: Stage) -> Machine:
    """The simulated machine that follows from the Node of a stage."""
    return machine_of(msgspec.convert(stage.node, SimulatedNode))
