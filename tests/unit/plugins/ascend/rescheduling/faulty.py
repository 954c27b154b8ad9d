"""Clusters with vcjobs on NPU servers whose nodes, chips and Pods fail, for the tests of rescheduling."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.api.kinds import CONFIG_MAP, NODE, POD, SCHEDULER_KINDS, VCJOB
from scheduler.api.names import ASCEND_910, HCCL_RANK_INDEX, RESCHEDULING_HISTORY, RESCHEDULING_STATE
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.simulation import Simulation
from scheduler.framework.configuration import Configuration
from scheduler.plugins.ascend.rescheduling.state import Histories, RestartState, read_history, read_state
from tests.builders import NAME, Raw, configuration, manifests
from tests.unit.plugins.ascend.chips import device_info, names, npu_node

CONFIGURATION = configuration(["gang", "ascend", "priority"], ["predicates"])
RESTART = [{"event": "PodEvicted", "action": "RestartJob"}]


def vcjob(
    name: str = "train",
    replicas: int = 2,
    chips: int = 8,
    *,
    policies: Sequence[Mapping[str, str]] = RESTART,
    annotations: Mapping[str, str] | None = None,
    minimum: int | None = None,
    **labels: str,
) -> Raw:
    """A vcjob. ``labels``: the labels of the job and its Pods, with ``_`` for ``-``."""
    given = {key.replace("_", "-"): value for key, value in labels.items()}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", ASCEND_910: str(chips)}}}
    template = {
        "metadata": {"labels": given, "annotations": dict(annotations or {})},
        "spec": {"schedulerName": NAME, "restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "labels": given, "annotations": dict(annotations or {})},
        "spec": {
            "minAvailable": replicas if minimum is None else minimum,
            "schedulerName": NAME,
            "queue": "default",
            "maxRetry": 1000,
            "policies": [*policies],
            "tasks": [{"name": "t", "replicas": replicas, "template": template}],
        },
    }


class Cluster:
    """A cluster in memory with its controllers and kubelets."""

    def __init__(
        self, *objects: Raw, nodes: Iterable[str] = ("a", "b", "c"), settings: Configuration = CONFIGURATION
    ) -> None:
        lists = [raw for node in nodes for raw in (npu_node(node), device_info(node, [*range(8)]))]
        self.simulation = Simulation(manifests(*lists, *objects), settings, [NAME])
        self.server = self.simulation.cluster.server

    def run(self, cycles: int = 1) -> "Cluster":
        for _ in range(cycles):
            self.simulation.cycle()
        return self

    def restart(self) -> None:
        """Replaces the scheduler by a new process, which has the state of the API server."""
        cluster = self.simulation.cluster
        cluster.cache = ClusterCache([NAME])
        for kind in SCHEDULER_KINDS:
            for obj in self.server.structs(kind):
                cluster.cache.upsert(kind, obj)

    def evicted(self) -> dict[str, int | None]:
        """Maps each Pod to the grace period of all evictions so far."""
        return {each.task.name: each.grace_period for each in self.simulation.evictions}

    # --- faults ---
    def chips(self, node: str, **lists: Any) -> None:
        """The device plugin reports other lists: ``Unhealthy=[3]``."""
        broken = [*lists.get("Unhealthy", ()), *lists.get("Recovering", ())]
        raw = device_info(node, [chip for chip in range(8) if chip not in broken], **lists)
        self.server.patch(CONFIG_MAP, "kube-system", raw["metadata"]["name"], {"data": raw["data"]})
        amounts = {ASCEND_910: str(8 - len(broken))}
        self.server.patch(NODE, "", node, {"status": {"allocatable": amounts}})

    def node_status(self, node: str, status: str) -> None:
        """NodeD reports the health of a node."""
        report = json.dumps({"NodeInfo": {"FaultDevList": [], "NodeStatus": status}})
        metadata = {"name": f"mindx-dl-nodeinfo-{node}", "namespace": "mindx-dl"}
        raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"NodeInfo": report}}
        self.server.create(CONFIG_MAP, raw)

    def fail(self, pod: str) -> None:
        self.server.patch(POD, "default", pod, {"status": {"phase": "Failed"}})

    def label(self, pod: str, **labels: str) -> None:
        given = {key.replace("_", "-"): value for key, value in labels.items()}
        self.server.patch(POD, "default", pod, {"metadata": {"labels": given}})

    # --- what there is ---
    def placed(self) -> dict[str, str]:
        """Maps each running Pod to its node."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.server.of(POD)
            if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        }

    def uids(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.server.of(POD)}

    def ranks(self) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: (pod["metadata"].get("annotations") or {}).get(HCCL_RANK_INDEX, "")
            for pod in self.server.of(POD)
        }

    def chips_of(self, pod: str) -> str:
        found = self.server.find(POD, "default", pod)
        assert found is not None
        return str(found["metadata"]["annotations"][ASCEND_910])

    def restarts_of(self, job: str = "train") -> int:
        """The number of times that the controller restarted a vcjob."""
        found = self.server.find(VCJOB, "default", job)
        assert found is not None
        return int((found.get("status") or {}).get("version") or 0)

    def state(self) -> RestartState:
        found = self.server.decoded(CONFIG_MAP, "volcano-system", RESCHEDULING_STATE)
        return read_state(found)

    def data(self) -> dict[str, str]:
        found = self.server.find(CONFIG_MAP, "volcano-system", RESCHEDULING_STATE)
        return {} if found is None else dict(found["data"])

    def history(self) -> Histories:
        found = self.server.decoded(CONFIG_MAP, "mindx-dl", RESCHEDULING_HISTORY)
        return read_history(found)[0]

    def events(self, reason: str) -> list[str]:
        return [
            o["message"] for o in self.simulation.cluster.objects() if o["kind"] == "Event" and o["reason"] == reason
        ]


def all_chips() -> str:
    return names(range(8))
