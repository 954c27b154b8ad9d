"""Cards of nodes from labels and resources: the design's examples, and invalid labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.snapshot import Memory
from scheduler.plugins.capacity_card.card_labels import read_cards
from scheduler.plugins.capacity_card.discovery import CardInventory, inventory_of
from tests.builders import World, feed, node
from tests.unit.plugins.capacity_card.cards import CONFIGURATION, GPU, H200, gpu_node, labels

H20 = "NIVIDIA-H20"


def test_the_name_of_a_whole_card_is_its_product() -> None:
    assert read_cards("n", labels(H20), ["cpu", "memory", "pods", GPU]).by_resource == {GPU: H20}


def test_the_name_of_a_shared_card_has_product_memory_and_replicas() -> None:
    shared = {**labels("NVIDIA-H800", memory=81559), f"{GPU}.replicas": "2"}
    cards = read_cards("n", shared, [GPU, f"{GPU}.shared"])
    assert cards.by_resource == {GPU: "NVIDIA-H800", f"{GPU}.shared": "NVIDIA-H800/mps-80g*1/2"}


@pytest.mark.parametrize("written", [90, 95, 96, 97, 98, 102])
def test_a_shared_card_matches_names_with_similar_memory(written: int) -> None:
    """The design calls a card of 97871 MiB ``mps-90g``; it has 95.6 GiB, 97.9 thousand MiB and 102.6 GB."""
    inventory = CardInventory([read_cards("n", {**labels(H20), f"{GPU}.replicas": "2"}, [f"{GPU}.shared"])])
    assert inventory.canonical(f"{H20}/mps-{written}g*1/2") == f"{H20}/mps-96g*1/2"


@pytest.mark.parametrize("other", [f"{H20}/mps-80g*1/2", f"{H20}/mps-96g*1/4", "NVIDIA-H20/mps-96g*1/2", H20])
def test_a_different_memory_replica_count_or_product_is_a_different_card(other: str) -> None:
    inventory = CardInventory([read_cards("n", {**labels(H20), f"{GPU}.replicas": "2"}, [f"{GPU}.shared"])])
    assert inventory.canonical(other) == other


def test_a_node_can_have_whole_cards_and_mig_slices() -> None:
    mig = {"nvidia.com/mig-1g.12gb.product": f"{H20}-MIG-1g.12gb", "nvidia.com/mig-1g.12gb.count": "2"}
    cards = read_cards("n", {**labels(H20), **mig}, [GPU, "nvidia.com/mig-1g.12gb", "nvidia.com/mig-3g.71gb"])
    assert cards.by_resource == {
        GPU: H20,
        "nvidia.com/mig-1g.12gb": f"{H20}/mig-1g.12gb-mixed",
        "nvidia.com/mig-3g.71gb": f"{H20}/mig-3g.71gb-mixed",
    }
    assert cards.problems == ()


def test_cards_of_other_vendors_follow_the_same_rule() -> None:
    npu = {"huawei.com/npu.product": "Ascend-910B", "huawei.com/npu.memory": "65536"}
    assert read_cards("n", npu, ["cpu", "huawei.com/Ascend910"]).by_resource == {"huawei.com/Ascend910": "Ascend-910B"}
    old = npu | {"huawei.com/npu.product": "Ascend-310P3"}
    assert read_cards("n", old, ["huawei.com/Ascend710"]).by_resource == {"huawei.com/Ascend710": "Ascend-310P3"}


def test_if_a_resource_has_the_name_of_the_labels_only_it_counts_cards() -> None:
    cards = read_cards("n", labels(H20), [GPU, "nvidia.com/gpumem", "rdma/hca"])
    assert cards.by_resource == {GPU: H20}


def test_resources_without_labels_are_not_cards() -> None:
    assert read_cards("n", {}, [GPU]).by_resource == {}


@pytest.mark.parametrize(
    ("given", "field", "cards"),
    [
        ({f"{GPU}.product": H20, f"{GPU}.count": "eight"}, f"{GPU}.count", {GPU: H20}),
        ({f"{GPU}.product": H20, f"{GPU}.memory": "-1"}, f"{GPU}.memory", {GPU: H20}),
        ({f"{GPU}.count": "8", f"{GPU}.memory": "97871"}, f"{GPU}.product", {}),
        ({f"{GPU}.product": "", f"{GPU}.count": "8"}, f"{GPU}.product", {}),
        ({f"{GPU}.product": "A|B", f"{GPU}.count": "8"}, f"{GPU}.product", {}),
    ],
)
def test_an_invalid_label_is_ignored_and_reported(given: dict[str, str], field: str, cards: dict[str, str]) -> None:
    read = read_cards("n", given, [GPU])
    assert [problem.field for problem in read.problems] == [f"metadata.labels[{field}]"]
    assert read.by_resource == cards


@pytest.mark.parametrize("replicas", ["", "0", "two", "-2"])
def test_shared_cards_without_a_number_of_shares_have_no_name(replicas: str) -> None:
    read = read_cards("n", {**labels(H20), f"{GPU}.replicas": replicas}, [GPU, f"{GPU}.shared"])
    assert read.by_resource == {GPU: H20}
    assert [problem.field for problem in read.problems] == [f"metadata.labels[{GPU}.replicas]"]


label_text = st.text(max_size=20) | st.sampled_from(["8", "0", H20, "nvidia.com", "a|b"])
label_key = st.builds(
    "{}/{}.{}".format,
    st.sampled_from(["nvidia.com", "huawei.com", ""]),
    st.sampled_from(["gpu", "npu", "mig-1g", ""]),
    st.sampled_from(["product", "count", "memory", "replicas", ""]),
)


@given(st.dictionaries(label_key | st.text(max_size=30), label_text, max_size=8), st.sets(label_key, max_size=5))
def test_arbitrary_labels_raise_no_error(given: dict[str, str], resources: set[str]) -> None:
    inventory = CardInventory([read_cards("n", given, [*resources, GPU, f"{GPU}.shared", "nvidia.com/mig-"])])
    assert all(inventory.resources_of(name) for name in inventory.names)


def test_the_inventory_is_reused_until_the_cards_of_a_node_change() -> None:
    world = World(gpu_node("a"), gpu_node("b"))
    memory = Memory()

    def now() -> CardInventory:
        return inventory_of(memory, world.session(CONFIGURATION).nodes.facts)

    first = now()
    feed(world.cluster.cache, gpu_node("a", cards=4, more="x"))
    assert now() is first, "fewer cards with the same name, another label"
    feed(world.cluster.cache, node("c", "4c"))
    assert now() is not first
    assert now().nodes_with([H200]).tolist() == [True, True, False]


def test_nodes_with_the_same_labels_and_different_resources_have_their_own_cards() -> None:
    same, mig = labels(H200), f"{GPU.partition('/')[0]}/mig-1g.10gb"
    world = World(node("a", f"4c+{GPU}=8", labels=same), node("b", f"4c+{mig}=7", labels=same))
    inventory = inventory_of(Memory(), world.session(CONFIGURATION).nodes.facts)
    assert inventory.nodes_with([H200]).tolist() == [True, False]
    assert inventory.by_resource[mig] == (f"{H200}/mig-1g.10gb-mixed",)


def test_each_node_with_an_invalid_label_is_reported() -> None:
    wrong = labels(H200) | {f"{GPU}.count": "many"}
    world = World(*(node(name, f"4c+{GPU}=8", labels=wrong) for name in "ab"))
    inventory = inventory_of(Memory(), world.session(CONFIGURATION).nodes.facts)
    assert [problem.name for problem in inventory.problems] == ["a", "b"]
