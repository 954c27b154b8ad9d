"""A cluster in memory with controllers: short builders of objects, and the results."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scheduler.api.kinds import KINDS, POD, POD_GROUP, QUEUE, Kind
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.operator import MemoryOperator
from scheduler.controllers.controller import Controller
from scheduler.controllers.store import Store
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import run_cycle

Raw = dict[str, Any]


class Controlled:
    """Controllers over a cluster in memory without webhooks; every change is processed at once."""

    def __init__(self, make_controllers: Callable[[Store], Sequence[Controller]]) -> None:
        self.cluster = MemoryCluster(ClusterCache(["volcano"]), ["volcano"])
        self.cluster.server.set_admission(lambda kind, raw: raw)
        self._operator = MemoryOperator(self.cluster, make_controllers)
        self.cluster.load([])
        self.settle()

    def settle(self) -> None:
        self._operator.run()

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.cluster.tick()
        self.settle()

    def schedule(self, configuration: Configuration, cycles: int = 3) -> None:
        """Lets the scheduler and a kubelet act."""
        for _ in range(cycles):
            cache = self.cluster.cache
            outcome = run_cycle(cache.snapshot(self.cluster.now), configuration)
            cache.assume(outcome.decisions)
            self.cluster.carry_out(outcome.decisions, cache.take_malformed() + outcome.malformed)
            self.cluster.run_kubelet()
            self.wait(1)

    def create(self, *manifests: Raw) -> None:
        """Creates objects at the same moment, before the controllers run."""
        for manifest in manifests:
            kind = next(k for k in KINDS if (k.api_version, k.name) == (manifest["apiVersion"], manifest["kind"]))
            assert self.cluster.server.create(kind, manifest)
        self.settle()

    def patch(self, kind: Kind, name: str, body: Raw) -> None:
        assert self.cluster.server.patch(kind, "default" if kind.namespaced else "", name, body)
        self.settle()

    def delete(self, kind: Kind, name: str) -> None:
        assert self.cluster.server.delete(kind, "default" if kind.namespaced else "", name)
        self.settle()

    def find(self, kind: Kind, name: str) -> Raw | None:
        return self.cluster.server.find(kind, "default" if kind.namespaced else "", name)

    def groups(self) -> dict[str, Raw]:
        return {raw["metadata"]["name"]: raw for raw in self.cluster.server.of(POD_GROUP)}

    def group_of(self, pod: str) -> str | None:
        """The PodGroup that a Pod names."""
        raw = self.find(POD, pod)
        assert raw is not None
        return (raw["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name")

    def queue(self, name: str) -> Raw:
        raw = self.find(QUEUE, name)
        assert raw is not None
        return raw

    def events(self) -> list[tuple[str, str, str, str, str]]:
        """The kind and name, type, reason and message of every Event."""
        return [
            (
                raw["involvedObject"]["kind"],
                raw["involvedObject"]["name"],
                raw["type"],
                raw["reason"],
                raw["message"],
            )
            for raw in self.cluster.objects()
            if raw["kind"] == "Event"
        ]


def owner(kind: Kind, name: str, replicas: int | None = None, annotations: Mapping[str, str] | None = None) -> Raw:
    """A ReplicaSet or the like; its uid is ``uid-<name>``."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {} if replicas is None else {"replicas": replicas},
    }


def reference(kind: Kind, name: str, **rest: bool) -> Raw:
    rest = rest or {"controller": True, "blockOwnerDeletion": True}
    return {"apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": f"uid-{name}", **rest}


def pod(
    name: str,
    *owners: Raw,
    scheduler: str = "volcano",
    requests: Raw | None = None,
    annotations: Raw | None = None,
    labels: Raw | None = None,
    phase: str = "Pending",
    **spec: Any,
) -> Raw:
    """A Pod of 1 cpu; its uid is ``uid-<name>``."""
    resources = {"requests": {"cpu": "1"} if requests is None else requests}
    metadata: Raw = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    metadata |= {"ownerReferences": list(owners)} if owners else {}
    metadata |= {"annotations": annotations} if annotations else {}
    metadata |= {"labels": labels} if labels else {}
    containers = [{"name": "main", "resources": resources}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, "containers": containers, **spec},
        "status": {"phase": phase},
    }
