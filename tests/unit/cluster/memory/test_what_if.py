"""Changes to a simulated cluster, written as manifests."""

from typing import Any

import pytest

from scheduler.api.names import WHAT_IF
from scheduler.cluster.memory import ManifestError, Simulation
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pod, pods, queue

DEFAULT = parse_configuration(DEFAULT_CONFIGURATION)


def settled(*objects: Any) -> Simulation:
    simulation = Simulation(manifests(*objects), DEFAULT, [NAME])
    simulation.run()
    return simulation


def change(what: str, kind: str, name: str, api_version: str = "v1", **rest: Any) -> Raw:
    namespace = {"namespace": "default"} if kind in ("Pod", "PodGroup") else {}
    meta = {"name": name, **namespace, "annotations": {WHAT_IF: what}}
    return {"apiVersion": api_version, "kind": kind, "metadata": meta, **rest}


def get(simulation: Simulation, kind: str, name: str, api_version: str = "v1") -> Raw | None:
    return simulation.cluster.get(api_version, kind, "default" if kind in ("Pod", "PodGroup") else "", name)


def node_name(simulation: Simulation, name: str) -> str:
    found = get(simulation, "Pod", name)
    assert found is not None
    return str(found["spec"].get("nodeName", ""))


SCHEDULING = "scheduling.volcano.sh/v1beta1"


def test_a_new_object_is_added() -> None:
    simulation = settled(node("n1", "1c"), group("g"), pod("p", "2c", "g"))
    simulation.change(manifests(node("n2")))
    simulation.run()
    assert node_name(simulation, "p") == "n2"


@pytest.mark.parametrize("status", [{}, {"status": None}, {"status": {}}])
def test_a_new_pod_needs_no_status(status: Raw) -> None:
    simulation = settled(node("n1"), pod("old", "1c"))
    new = {key: value for key, value in pod("p", "1c").items() if key != "status"}
    simulation.change(manifests({**new, **status}))
    simulation.run()
    assert node_name(simulation, "p") == "n1"


def test_an_existing_object_is_replaced_and_keeps_its_identity_and_status() -> None:
    simulation = settled(node("n1"), queue("q", capability="1c"))
    old = get(simulation, "Queue", "q", SCHEDULING)
    simulation.change(manifests({k: v for k, v in queue("q", weight=7).items() if k != "status"}))
    new = get(simulation, "Queue", "q", SCHEDULING)
    assert old is not None and new is not None
    assert new["metadata"]["uid"] == old["metadata"]["uid"]
    assert (new["spec"]["weight"], "capability" in new["spec"], new["status"]["state"]) == (7, False, "Open")


def test_merge_changes_only_the_given_fields() -> None:
    simulation = settled(node("n1", "4c+8Gi"), group("g"), pod("p", "6c", "g"))
    simulation.change(manifests(change("merge", "Node", "n1", status={"allocatable": {"cpu": "8"}})))
    simulation.run()
    changed = get(simulation, "Node", "n1")
    assert changed is not None
    assert (changed["status"]["allocatable"]["memory"], WHAT_IF in changed["metadata"].get("annotations", {})) == (
        "8Gi",
        False,
    )
    assert node_name(simulation, "p") == "n1"


def test_deleting_a_pod_group_deletes_its_pods() -> None:
    simulation = settled(node("n1", "2c"), group("g"), pods("p", 2, "1c", "g"), group("h"), pod("h-0", "2c", "h"))
    simulation.change(manifests(change("delete", "PodGroup", "g", SCHEDULING)))
    simulation.run()
    assert get(simulation, "Pod", "p-0") is None
    assert node_name(simulation, "h-0") == "n1"


def test_a_replaced_pod_has_another_uid() -> None:
    simulation = settled(node("n1"), group("g"), pod("p", "8c", "g"))
    simulation.change(manifests(pod("p", "1c", "g")))
    simulation.run()
    assert node_name(simulation, "p") == "n1"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change("forget", "Node", "n1"), "expected delete or merge, got 'forget'"),
        (change("delete", "Node", "n9"), "Node n9 is not there, so there is nothing to delete"),
        (change("merge", "Node", "n9", status={}), "Node n9 is not there, so there is nothing to merge"),
        ({"apiVersion": "x/v1", "kind": "Thing", "metadata": {"name": "a"}}, "is no kind that could make a difference"),
        (change("merge", "Queue", "default", SCHEDULING, spec={"capability": {"cpu": "lots"}}), "spec"),
    ],
)  # fmt: skip
def test_an_invalid_change_is_refused_with_file_and_document(change: Raw, words: str) -> None:
    simulation = settled(node("n1"))
    with pytest.raises(ManifestError, match="object 1") as raised:
        simulation.change(manifests(change))
    assert words in str(raised.value)


def resized(held: str) -> Raw:
    """A running Pod as a kubelet reports it, which a resize may have changed before."""
    raw = pod("big", "6c", on="n1", scheduler="other")
    amounts = {"cpu": held}
    raw["status"] |= {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
        "containerStatuses": [
            {"name": "main", "ready": True, "allocatedResources": amounts, "resources": {"requests": amounts}}
        ],
        "allocatedResources": amounts,
    }
    return raw


def test_a_pod_whose_requests_change_is_resized_at_once() -> None:
    simulation = settled(node("n1", "8c+8Gi"), resized("6"), group("g"), pod("p", "4c", "g"))
    assert node_name(simulation, "p") == ""
    smaller = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    simulation.change(manifests(change("merge", "Pod", "big", spec={"containers": smaller})))
    simulation.run()
    assert node_name(simulation, "p") == "n1"
    big = get(simulation, "Pod", "big")
    assert big is not None and big["status"] == {
        "phase": "Running",
        "conditions": [each for each in big["status"]["conditions"] if each["type"] == "PodScheduled"],
        "containerStatuses": [{"name": "main", "ready": True}],
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"name": "big", "namespace": "default", "annotations": {WHAT_IF: "merge", "other": "thing"}}},
        {
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"reason": "the kubelet is not there"},
        },
    ],
)
def test_a_resize_that_is_under_way_stays_so_if_nothing_else_is_said(changes: Raw) -> None:
    simulation = settled(node("n1", "8c+8Gi"), resized("6"), group("g"), pod("p", "4c", "g"))
    simulation.change(manifests({**change("merge", "Pod", "big"), **changes}))
    simulation.run()
    assert node_name(simulation, "p") == ""
