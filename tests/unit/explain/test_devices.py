"""Gates and changes for claimed devices, GPU cards and exclusive cpus."""

from scheduler.api.names import VGPU_IDS
from scheduler.framework.remedies.gates import GateKind
from tests.builders import configuration, group, node, pod, pods, queue
from tests.device_builders import claim, device_class, gpus, named, request, resource_slice, template, templated
from tests.unit.explain.small_clusters import changes, explained
from tests.unit.plugins.deviceshare.devices import VGPU, limited, slice_of, vgpu_node
from tests.unit.plugins.numa_aware.test_numa_aware import guaranteed, nodes, numa

CAPACITY = configuration(["priority", "gang"], ["predicates", "capacity"])


def test_suggests_devices_on_the_node_that_lacks_fewest() -> None:
    objects = (
        node("n1"), node("n2"), device_class(), resource_slice(gpus(1), "n1"), resource_slice(gpus(2), "n2"),
        template("three", request(count=3)), group("g"), pod("p", "1c", "g", resourceClaims=templated("three")),
    )  # fmt: skip
    assert changes("g", *objects) == ["1 more device of class gpu on node n2"]
    (nodes,) = explained("podgroup", "g", *objects).nodes
    (shortage,) = nodes.shortages
    assert (shortage.resource, shortage.asked, shortage.free) == ("deviceclass/gpu", 3000, 2000)


def test_suggests_devices_like_those_of_other_nodes() -> None:
    found = changes(
        "g", node("n1"), node("n2", "1c+1Gi"), device_class(), resource_slice(gpus(2), "n2"),
        template("two", request(count=2)), group("g"), pod("p", "2c", "g", resourceClaims=templated("two")),
    )  # fmt: skip
    assert found[0] == "2 more devices of class gpu on node n1"


def test_a_shared_claim_counts_once() -> None:
    found = changes(
        "g", node("n1"), device_class(), resource_slice(gpus(1), "n1"), claim("both", request(count=2)),
        group("g", minimum=2), pods("p", 2, "1c", "g", resourceClaims=named("both")),
    )  # fmt: skip
    assert found == ["1 more device of class gpu on node n1"]


def test_a_new_node_has_the_devices_of_its_model() -> None:
    found = changes(
        "g", node("n1", "2c+4Gi"), device_class(), resource_slice(gpus(2), "n1"), template("one", request()),
        group("h"), pod("h", "2c", "h", on="n1", priority=5), group("g"),
        pod("p", "2c", "g", resourceClaims=templated("one")),
    )  # fmt: skip
    assert "1 node like n1 more" in found


def test_a_missing_device_class_is_reported_without_a_change() -> None:
    objects = (
        node("n1"), resource_slice(gpus(2), "n1"), template("one", request()), group("g"),
        pod("p", "1c", "g", resourceClaims=templated("one")),
    )  # fmt: skip
    (gate,) = explained("podgroup", "g", *objects).gates
    assert "device class gpu does not exist" in gate.message
    assert changes("g", *objects) == []


def test_suggests_a_higher_device_limit_of_a_queue() -> None:
    found = changes(
        "g", node("n1", "64c+64Gi"), device_class(), resource_slice(gpus(4), "n1"),
        queue("q", capability="deviceclass/gpu=1"), template("one", request()), group("g", "q", 3),
        pods("p", 3, "1c", "g", resourceClaims=templated("one")), conf=CAPACITY,
    )  # fmt: skip
    assert found == ["raise queue q's capability deviceclass/gpu from 1 to 3"]


def test_reports_a_card_with_too_little_free_and_the_best_available() -> None:
    held = [
        limited(f"h{i}", slice_of(1, 6000, 10), group="h", on="n1", annotations={VGPU_IDS: f"n1-{i},NVIDIA,6000,10:"})
        for i in range(2)
    ]
    objects = (vgpu_node("n1"), group("h"), held, group("g"), limited("p", slice_of(1, 5000, 10), group="g"))
    messages = [gate.message for gate in explained("podgroup", "g", *objects, conf=VGPU).gates]
    assert (
        "p asks for GPU with 5000 of its memory and 10% of the cores free; of 2 cards the one with most memory free is "
        "on node n1, with 4000 of 10000 memory, 90 of 100 cores, 9 of 10 places free"
    ) in messages
    assert changes("g", *objects, conf=VGPU)[0] == "1 node like n1 more"


def test_reports_cpus_that_no_numa_node_has_and_the_best_available() -> None:
    it = explained(
        "podgroup", "g", nodes("n1"), numa("n1", free="0-2,4-6"), guaranteed("g", "4"),
        conf=configuration(["gang"], ["predicates", "numa-aware"]),
    )  # fmt: skip
    assert [gate.message for gate in it.gates if gate.kind is GateKind.NODES and gate.plugin] == [
        "g-0 requests exclusive cpus (by container: main 4); at most 3 are free on one NUMA node (of n1)"
    ]
