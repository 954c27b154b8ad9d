"""Pods that are terminating when a cluster is read, and objects that finalizers keep."""

from typing import Any

import pytest

from scheduler.api.kinds import CLAIM, POD, POD_GROUP, SECRET
from scheduler.api.names import WHAT_IF
from scheduler.cluster.memory import KubeletBehaviour, Simulation
from tests.builders import NAME, Raw, configuration, group, manifests, node, pod

READY, NOT_READY = ({"type": "Ready", "status": status} for status in ("True", "False"))


def simulation(*objects: Any, kubelet: KubeletBehaviour = KubeletBehaviour.RUN) -> Simulation:
    return Simulation(manifests(*objects), configuration(), (NAME,), kubelet=kubelet)


def pods(cluster: Simulation) -> dict[str, str]:
    found = [raw for raw in cluster.cluster.objects() if raw["kind"] == "Pod"]
    return {raw["metadata"]["name"]: f"{raw['status']['phase']} {raw['spec'].get('nodeName', '')}" for raw in found}


def kept(raw: Raw, *finalizers: str) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "finalizers": list(finalizers)}}


def full_node(**metadata: Any) -> list[Raw]:
    """A Pod that terminates on a node, and one that waits for its place."""
    old = pod("old", "4c", "a", on="n", deleting=True)
    old["metadata"] |= metadata
    return [group("a"), old, group("b"), pod("new", "4c", "b")]


def patch_of(kind: str, version: str, name: str, **rest: Any) -> Raw:
    meta = {"name": name, "namespace": "default", "annotations": {WHAT_IF: "merge"}, **rest.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


def test_a_pod_that_terminates_when_its_cluster_is_read_makes_room() -> None:
    it = simulation(node("n"), full_node())
    it.run()
    assert pods(it) == {"new": "Running n"}


def test_it_stays_while_kubelets_do_nothing() -> None:
    it = simulation(node("n"), full_node(), kubelet=KubeletBehaviour.NONE)
    it.run()
    assert set(pods(it)) == {"new", "old"}


def test_it_stays_on_a_node_that_is_not_ready_until_the_node_is() -> None:
    broken = node("n")
    broken["status"]["conditions"] = [NOT_READY]
    it = simulation(broken, full_node())
    it.run()
    assert pods(it) == {"new": "Pending ", "old": "Running n"}

    status = {"conditions": [READY]}
    it.change(manifests({"apiVersion": "v1", "kind": "Node", "status": status,
                         "metadata": {"name": "n", "annotations": {WHAT_IF: "merge"}}}))  # fmt: skip
    it.run()
    assert pods(it) == {"new": "Running n"}


def test_a_bound_pod_does_not_start_on_a_node_that_is_not_ready() -> None:
    broken = node("n")
    broken["status"]["conditions"] = [NOT_READY]
    it = simulation(broken, group("a"), pod("p", "1c", "a", on="n", phase="Pending"))
    it.run()
    assert pods(it) == {"p": "Pending n"}


def test_a_finalizer_keeps_a_pod_after_its_containers_have_ended() -> None:
    it = simulation(node("n"), full_node(finalizers=["example.com/kept"]))
    it.run()
    assert pods(it) == {"new": "Running n", "old": "Failed n"}

    it.change(manifests(patch_of("Pod", "v1", "old", metadata={"finalizers": None})))
    it.run()
    assert pods(it) == {"new": "Running n"}


def test_a_deletion_by_a_what_if_change_ends_before_the_simulation() -> None:
    it = simulation(node("n"), group("a"), pod("p", "1c", "a", on="n"))
    it.run()
    doc = patch_of("Pod", "v1", "p")
    doc["metadata"]["annotations"] = {WHAT_IF: "delete"}
    it.change(manifests(doc))
    it.run()
    assert pods(it) == {}


def test_a_finalizer_keeps_an_object_that_is_deleted_until_it_is_removed() -> None:
    server = simulation(node("n"), kept(group("a"), "example.com/kept")).cluster.server

    server.delete(POD_GROUP, "default", "a")

    stored = server.find(POD_GROUP, "default", "a")
    assert stored is not None and stored["metadata"]["deletionTimestamp"]
    server.patch(POD_GROUP, "default", "a", {"metadata": {"finalizers": None}})
    assert server.find(POD_GROUP, "default", "a") is None


@pytest.mark.parametrize("finalizer", ["kubernetes.io/pvc-protection", "foregroundDeletion", "orphan"])
def test_finalizers_of_kubernetes_keep_nothing_because_its_controllers_are_simulated(finalizer: str) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    server = simulation(node("n"), kept(claim, finalizer)).cluster.server
    server.delete(CLAIM, "default", "c")
    assert server.find(CLAIM, "default", "c") is None


@pytest.mark.parametrize("finalizers", [5, "example.com/kept", None, {"a": "b"}])
def test_malformed_finalizers_of_an_object_that_is_not_decoded_keep_nothing(finalizers: Any) -> None:
    meta = {"name": "s", "namespace": "default", "finalizers": finalizers}
    server = simulation(node("n"), {"apiVersion": "v1", "kind": "Secret", "metadata": meta}).cluster.server
    server.delete(SECRET, "default", "s")
    assert server.find(SECRET, "default", "s") is None


def test_a_pod_that_has_ended_is_removed_at_once() -> None:
    server = simulation(node("n"), group("a"), pod("p", "1c", "a", on="n", phase="Succeeded")).cluster.server
    server.delete(POD, "default", "p")
    assert server.find(POD, "default", "p") is None
