"""Pods of Nodes that do not exist, in what-if changes and dumps of live clusters."""

from typing import Any

import pytest

from scheduler.api.names import ASCEND_910, WHAT_IF
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.explain.explanation import Outlook
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pod, pods, queue

DEFAULT = parse_configuration(DEFAULT_CONFIGURATION)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "elsewhere", "controller": True}
BATCH = "batch.volcano.sh/v1alpha1"


def simulated(*objects: Any) -> Simulation:
    return Simulation(manifests(*objects), DEFAULT, [NAME])


def live(raw: Raw, *owners: Raw, **metadata: Any) -> Raw:
    """An object of a live cluster, which has a uid."""
    meta = raw["metadata"]
    return {**raw, "metadata": {**meta, "uid": f"uid-of-{meta['name']}", "ownerReferences": list(owners), **metadata}}


def delete_node(name: str) -> Raw:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {WHAT_IF: "delete"}}}


def delete(simulation: Simulation, *names: str) -> None:
    simulation.change(manifests(*map(delete_node, names)))
    simulation.run()


def get(simulation: Simulation, name: str) -> Raw | None:
    return simulation.cluster.get("v1", "Pod", "default", name)


def where(simulation: Simulation, name: str) -> str:
    found = get(simulation, name)
    assert found is not None
    return str(found["spec"].get("nodeName", ""))


# --- what-if ---
def test_pods_without_owners_in_a_manifest_are_created_again_and_scheduled() -> None:
    simulation = simulated(node("n1"), group("g"), pod("p", "2c", "g"))
    simulation.run()
    simulation.change(manifests(node("n2")))
    delete(simulation, "n1")
    assert where(simulation, "p") == "n2"


def test_a_pod_that_is_created_again_does_not_keep_the_chips_of_the_deleted_node() -> None:
    held = pod("p", "1c+huawei.com/Ascend910=1", "g", on="n1", annotations={ASCEND_910: "Ascend910-5"})
    simulation = simulated(node("n1", "4c+8Gi+huawei.com/Ascend910=8"), group("g"), held)
    delete(simulation, "n1")
    found = get(simulation, "p")
    assert found is not None
    assert ASCEND_910 not in found["metadata"]["annotations"]


def test_a_live_pod_is_created_again_only_if_it_has_an_owner() -> None:
    alone, owned = live(pod("alone", "1c", "g", on="n1")), live(pod("owned", "1c", "g", on="n1"), OWNER)
    simulation = simulated(node("n1"), node("n2"), group("g"), alone, owned)
    delete(simulation, "n1")
    assert get(simulation, "alone") is None
    assert where(simulation, "owned") == "n2"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_deleted_and_not_created_again(phase: str) -> None:
    ended = pod("p", "1c", "g", on="n1", phase=phase)
    simulation = simulated(node("n1"), node("n2"), group("g"), ended)
    delete(simulation, "n1")
    assert get(simulation, "p") is None


def test_a_pod_that_terminates_is_gone_with_its_node() -> None:
    going = live(pod("p", "1c", "g", on="n1"), OWNER, deletionTimestamp="2020-01-01T12:00:00Z")
    simulation = simulated(node("n1"), node("n2"), group("g"), going)
    delete(simulation, "n1")
    assert get(simulation, "p") is None


def test_a_pod_with_a_finalizer_stays_and_has_failed() -> None:
    kept = live(pod("p", "1c", "g", on="n1"), finalizers=["example.com/kept"])
    simulation = simulated(node("n1"), node("n2"), group("g"), kept)
    delete(simulation, "n1")
    found = get(simulation, "p")
    assert found is not None
    assert (found["status"]["phase"], bool(found["metadata"]["deletionTimestamp"])) == ("Failed", True)
    (condition,) = (each for each in found["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert condition["reason"] == "DeletionByPodGC"


def test_a_node_that_is_replaced_by_a_namesake_keeps_its_pods() -> None:
    simulation = simulated(node("n1"), node("n2"), group("g"), live(pod("p", "1c", "g", on="n1")))
    simulation.change(manifests(delete_node("n1"), node("n1")))
    simulation.run()
    found = get(simulation, "p")
    assert found is not None
    assert (where(simulation, "p"), found["metadata"]["uid"]) == ("n1", "uid-of-p")


def test_a_vcjob_handles_the_loss_of_a_node_by_its_policy_for_evicted_pods() -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": NAME, "restartPolicy": "Never", "containers": [container]}}
    policies = [{"event": "PodFailed", "action": "TerminateJob"}, {"event": "PodEvicted", "action": "AbortJob"}]
    spec = {"schedulerName": NAME, "minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": template}]}
    meta = {"name": "j", "namespace": "default"}
    job = {"apiVersion": BATCH, "kind": "Job", "metadata": meta, "spec": {**spec, "policies": policies}}
    simulation = simulated(node("n1", "1c+8Gi"), node("n2", "1c+8Gi"), queue("q"), job)
    simulation.run()
    delete(simulation, "n2")
    found = simulation.cluster.get(BATCH, "Job", "default", "j")
    assert found is not None
    assert found["status"]["state"]["phase"] == "Aborted"


# --- dumps ---
def test_a_live_pod_whose_node_is_gone_is_deleted_and_makes_room_in_its_queue() -> None:
    lost, waits = live(pod("lost", "2c", "g", on="gone")), pod("waits", "2c", "h")
    both = [group("g", "q"), group("h", "q")]
    simulation = simulated(node("n1"), queue("q", capability="2c"), *both, lost, waits)
    simulation.run()
    assert get(simulation, "lost") is None
    assert where(simulation, "waits") == "n1"


def test_explain_says_that_the_node_of_a_pod_does_not_exist() -> None:
    simulation = simulated(node("n1"), group("g"), live(pod("lost", "1c", "g", on="gone")))
    found = explain(simulation, "pod", "default", "lost")
    assert (found.outlook, found.group) == (Outlook.ENDED, "default/g")
    assert found.state == "its node gone does not exist any more, so the Pod is deleted"


@pytest.mark.parametrize("nodes", [[], [node("n1")]])
def test_pods_on_nodes_that_a_manifest_leaves_out_stay(nodes: list[Raw]) -> None:
    kept = pods("p", 2, "1c", "g", on="elsewhere")
    simulation = simulated(*nodes, group("g"), *(map(live, kept) if not nodes else kept))
    simulation.run()
    assert where(simulation, "p-0") == "elsewhere"
