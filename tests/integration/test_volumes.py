"""Volumes on a real API server with its volume controller: each volume is bound to one claim or provisioned on request,
and whole gangs wait for their volumes."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.run import ControlPlane
from scheduler.api.names import SELECTED_NODE
from tests.integration.stage import Namespace, Role, a_control_plane, emptied

pytestmark = pytest.mark.controlplane

STORAGE = "/apis/storage.k8s.io/v1"
HOSTNAME = "kubernetes.io/hostname"
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - name: predicates
    arguments: {volumebinding.bindTimeoutSeconds: %d}
  - name: nodeorder
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane whose volume controller runs."""
    with a_control_plane() as started:
        started.start_controller_manager(("persistentvolume-binder-controller",))
        yield started


class Storage(Namespace):
    """A namespace with claims, and volumes for them."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.local, self.dynamic = f"{self.name}-local", f"{self.name}-dynamic"
        for name, provisioner in ((self.local, "kubernetes.io/no-provisioner"), (self.dynamic, "example.com/maker")):
            mode = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
            self.api.create(f"{STORAGE}/storageclasses", {"metadata": {"name": name}, **mode})

    def volume(self, name: str, node: str, storage_class: str, claim: dict[str, str] | None = None) -> None:
        term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]}
        spec: dict[str, Any] = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        if claim is not None:
            spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
        self.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})

    def claim(self, name: str, storage_class: str) -> None:
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        self.api.create(self._claims, {"metadata": {"name": name}, "spec": {**spec, "storageClassName": storage_class}})

    def mounting(self, name: str, group: str, claims: Sequence[str] = ()) -> None:
        """A Pod that mounts claims."""
        volumes = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
        self.pod(name, group, {"cpu": "1"}, volumes=volumes)

    # --- what has become of them ---
    @property
    def _claims(self) -> str:
        return f"{self.path}/persistentvolumeclaims"

    def claims(self) -> dict[str, dict[str, Any]]:
        return {item["metadata"]["name"]: item for item in self.api.get(self._claims)["items"]}

    def volumes(self) -> dict[str, str]:
        """Maps each claim to the volume to which it is bound."""
        return {n: c["spec"]["volumeName"] for n, c in self.claims().items() if c["status"].get("phase") == "Bound"}

    def scheduler(self, directory: Path, bind_timeout: int = 60) -> AbstractContextManager[Role]:
        """A scheduler that waits so many seconds for the volumes of a Pod."""
        conf = directory / "scheduler.conf"
        conf.write_text(CONF % bind_timeout, encoding="utf-8")
        return self.scheduled(directory, f"--scheduler-conf={conf}")


@pytest.fixture
def storage(plane: ControlPlane) -> Storage:
    emptied(plane)
    return Storage(plane)


@contextmanager
def provisioning(storage: Storage, work: Callable[[str, dict[str, Any]], None]) -> Iterator[None]:
    """A provisioner: calls ``work(claim, object)`` for each claim with a selected node, once per node."""
    stop = threading.Event()

    def run() -> None:
        served: set[tuple[str, str]] = set()
        while not stop.wait(0.05):
            for name, claim in storage.claims().items():
                node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
                if node and not claim["spec"].get("volumeName") and (name, node) not in served:
                    served.add((name, node))
                    work(name, claim)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def make(storage: Storage, name: str, claim: dict[str, Any]) -> None:
    """Creates the volume that a claim requests, on its selected node."""
    held = {"namespace": storage.name, "name": name, "uid": claim["metadata"]["uid"]}
    node = claim["metadata"]["annotations"][SELECTED_NODE]
    storage.volume(f"made-{claim['metadata']['uid']}", node, storage.dynamic, held)


def test_existing_volumes_are_bound_to_one_claim_each(storage: Storage, tmp_path: Path) -> None:
    nodes = [storage.node(f"n{i}") for i in range(4)]
    where = {f"{storage.name}-v{i}": nodes[i % 4] for i in range(12)}
    for name, node in where.items():
        storage.volume(name, node, storage.local)
    for job in range(8):
        storage.group(f"j{job}", 2)
        for member in range(2):
            storage.claim(f"j{job}-{member}", storage.local)
            storage.mounting(f"j{job}-{member}", f"j{job}", [f"j{job}-{member}"])

    with storage.scheduler(tmp_path):
        storage.wait(lambda: len(storage.bound()) == 12)
        time.sleep(2)

    bound, volumes = storage.bound(), storage.volumes()
    assert len(bound) == 12, "as many as there are volumes"
    assert {name.split("-")[0] for name in bound} == {name.split("-")[0] for name in volumes}
    assert sorted(volumes.values()) == sorted(where), "each volume once"
    assert all(where[volumes[name]] == node for name, node in bound.items())
    assert all(sum(name.startswith(f"j{job}-") for name in bound) in (0, 2) for job in range(8)), "whole gangs"


def test_volumes_are_provisioned_on_the_nodes_of_the_pods_before_the_pods_are_bound(
    storage: Storage, tmp_path: Path
) -> None:
    for i in range(2):
        storage.node(f"n{i}", cpu="2")
    storage.group("g", 4)
    for i in range(4):
        storage.claim(f"c{i}", storage.dynamic)
        storage.mounting(f"p{i}", "g", [f"c{i}"])
    early: list[str] = []

    def slowly(name: str, claim: dict[str, Any]) -> None:
        early.extend(storage.bound())
        time.sleep(0.2)
        make(storage, name, claim)

    with provisioning(storage, slowly), storage.scheduler(tmp_path):
        storage.wait(lambda: len(storage.bound()) == 4)

    bound = storage.bound()
    assert not early, "no Pod is bound while a volume of its gang is still to be made"
    claims = storage.claims()
    assert all(claims[f"c{i}"]["status"]["phase"] == "Bound" for i in range(4))
    assert all(claims[f"c{i}"]["metadata"]["annotations"][SELECTED_NODE] == bound[f"p{i}"] for i in range(4))


def test_a_gang_whose_volume_is_not_provisioned_is_not_bound_and_is_tried_again(
    storage: Storage, tmp_path: Path
) -> None:
    storage.node("n0", cpu="2")
    storage.group("g", 2)
    storage.claim("c", storage.dynamic)
    storage.mounting("waits", "g", ["c"])
    storage.mounting("ready", "g")

    with storage.scheduler(tmp_path, bind_timeout=3):
        storage.wait(lambda: {storage.condition(p)["reason"] for p in ("ready", "waits")} == {"SchedulerError"})
        assert not storage.bound()
        why = storage.condition("waits")["message"]
        with provisioning(storage, lambda name, claim: make(storage, name, claim)):
            storage.wait(lambda: set(storage.bound()) == {"waits", "ready"})

    waited = f"timed out after 3 s waiting for persistentvolumeclaim {storage.name}/c to be bound"
    assert why == f"execute preBind for pod {storage.name}/waits failed: {waited}, resync the task"


def test_when_a_provisioner_rejects_a_node_the_pod_is_placed_elsewhere_at_once(
    storage: Storage, tmp_path: Path
) -> None:
    nodes = {storage.node("n0"), storage.node("n1")}
    storage.group("g", 1)
    storage.claim("c", storage.dynamic)
    storage.mounting("p", "g", ["c"])
    tried: list[str] = []

    def second_time_only(name: str, claim: dict[str, Any]) -> None:
        node = claim["metadata"]["annotations"][SELECTED_NODE]
        tried.append(node)
        if len(tried) == 2:
            make(storage, name, claim)
            return
        storage.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
        path = f"/api/v1/namespaces/{storage.name}/persistentvolumeclaims/{name}"
        storage.api.patch(path, {"metadata": {"annotations": {SELECTED_NODE: None}}})

    with provisioning(storage, second_time_only), storage.scheduler(tmp_path):
        storage.wait(lambda: len(tried) == 1)
        storage.wait(lambda: "provisioning failed" in storage.condition("p")["message"] or storage.bound())
        storage.wait(storage.bound)

    assert set(tried) == nodes
    assert storage.bound() == {"p": tried[1]}
