"""Quotas of every kind of card: shared, divided by a plugin, named by MindCluster's labels, or by a rule."""

from typing import Any

import pytest

from scheduler.api.cards import MILLI
from scheduler.api.names import CARD_NAME, CHIP_NAME, NPU_CORE
from scheduler.framework.extension import QUEUE_USAGE
from tests.builders import Raw, configuration, node, pod
from tests.unit.plugins.capacity_card.cards import H200, card_group, insufficient, quota_queue
from tests.unit.plugins.capacity_card.histories import History
from tests.unit.plugins.capacity_card.parts import (
    A100,
    ARGUMENTS,
    CASES,
    CONFIGURATION,
    MIND_CLUSTER,
    TIERS,
    Case,
    labeled,
)
from tests.unit.plugins.deviceshare.devices import limited, slice_of

EVERY = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
NAMED = pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])


def single(case: Case, name: str, queue: str = "q", *, named: bool = False, **rest: Any) -> list[Raw]:
    made = case.job(name, queue, **rest)
    for raw in made[1:]:
        raw["metadata"]["annotations"] |= {CARD_NAME: case.card} if named else {}
    return made


def used(history: History, queue: str = "q") -> dict[str, float]:
    """The cards that a queue uses."""
    session = history.session(CONFIGURATION)
    usages = session.ask(QUEUE_USAGE, session.queues[queue])
    return {card: its.used / MILLI for usage in usages for card, its in usage.items() if its.used}


@EVERY
@NAMED
def test_a_pod_is_charged_in_the_quota_of_its_card(case: Case, named: bool) -> None:
    history = History(case.node("n"), quota_queue("q", case.quota(2)))
    for number in range(3):
        history.create(single(case, f"j{number}", named=named))
    bound: dict[str, str] = {}
    messages: list[str] = []
    for _ in range(3):  # some plugins place one Pod at a time on a chip
        bound |= history.cycle(CONFIGURATION)
        messages += filter(None, [history.message_of("j2-0")])
    assert bound == {"j0-0": "n", "j1-0": "n"}
    assert used(history) == {case.card: 2}
    assert messages[-1].startswith(insufficient("q", case.card, 1000, 3000, 2000))


@EVERY
@NAMED
def test_a_queue_whose_quota_does_not_list_the_card_gets_none(case: Case, named: bool) -> None:
    history = History(case.node("n"), quota_queue("q", {"other": 9}), quota_queue("theirs", case.quota(1)))
    history.create(single(case, "j", named=named))
    assert history.cycle(CONFIGURATION) == {}
    assert "insufficient" in history.message_of("j-0")


@EVERY
def test_the_charge_stays_after_a_restart_and_when_the_node_loses_its_labels(case: Case) -> None:
    history = History(case.node("n"), case.node("m"), quota_queue("q", case.quota(1)))
    history.create(single(case, "j0"))
    (there,) = history.cycle(CONFIGURATION).values()
    raw = history.get("Node", there)
    for key in raw["metadata"].get("labels") or {}:
        history.label(there, key, None)
    history.restart()
    history.create(single(case, "j1"))
    assert history.cycle(CONFIGURATION) == {}
    assert used(history) == {case.card: 1}
    history.finish("j0-0")
    assert set(history.cycle(CONFIGURATION)) == {"j1-0"}


@EVERY
def test_the_request_of_a_job_is_checked_before_its_pods_exist(case: Case) -> None:
    history = History(
        case.node("n"),
        quota_queue("q", case.quota(2)),
        card_group("large", "q", 3, {case.card: 3}),
        card_group("small", "q", 2, {case.card: 2}),
    )
    history.cycle(CONFIGURATION)
    assert history.get("PodGroup", "small")["status"]["phase"] == "Inqueue"
    conditions = history.get("PodGroup", "large")["status"]["conditions"]
    assert insufficient("q", case.card, 3000, 3000, 2000) in conditions[-1]["message"]


@pytest.mark.parametrize("other", CASES.values(), ids=CASES)
@EVERY
def test_a_pod_that_names_a_card_of_another_kind_gets_none(case: Case, other: Case) -> None:
    if other.card in (case.card, case.card.partition("/")[0]):  # its own name, and the model, which means the part
        return
    history = History(case.node("n"), quota_queue("q", case.quota(1) | other.quota(1)))
    made = case.job("j", "q")
    made[1]["metadata"]["annotations"][CARD_NAME] = other.card
    history.create(made)
    assert history.cycle(CONFIGURATION) == {}


@pytest.mark.parametrize("kind", ["vGPU", "dynamic vNPU", "share", "share of HAMi"])
def test_a_pod_that_names_the_model_gets_a_part_of_it(kind: str) -> None:
    case = CASES[kind]
    history = History(case.node("n"), quota_queue("q", case.quota(1)))
    made = case.job("j", "q")
    made[1]["metadata"]["annotations"][CARD_NAME] = case.card.partition("/")[0]
    history.create(made)
    assert history.cycle(CONFIGURATION) == {"j-0": "n"}
    assert used(history) == {case.card: 1}


@EVERY
def test_cards_that_a_node_offers_beside_others_keep_their_quotas(case: Case) -> None:
    """A queue that has quota of one kind holds nothing of the others of one node."""
    others = [other for other in CASES.values() if other.card != case.card]
    history = History(case.node("n"), quota_queue("q", dict.fromkeys((other.card for other in others), 9)))
    history.create(case.job("j", "q"))
    if case.besides:
        history.create(quota_queue("theirs", case.besides))
    assert history.cycle(CONFIGURATION) == {} or case.card in {other.card for other in others}


def test_a_container_counts_each_of_its_gpus_and_containers_of_other_sizes_count_apart() -> None:
    case = CASES["vGPU"]
    large, small = f"{A100}/vgpu-16g", f"{A100}/vgpu-1g"
    history = History(case.node("n"), quota_queue("q", {large: 2, small: 1}))
    asks = (slice_of(2, 16384), slice_of(1, 1024))
    history.create([card_group("g", "q", 1, phase="Inqueue"), limited("p", *asks, group="g")])
    assert history.cycle(CONFIGURATION) == {"p": "n"}
    assert used(history) == {large: 2, small: 1}
    history.restart()
    assert used(history) == {large: 2, small: 1}
    history.create([card_group("h", "q", 1, phase="Inqueue"), limited("r", slice_of(1, 1024), group="h")])
    assert history.cycle(CONFIGURATION) == {}
    assert history.message_of("r").startswith(insufficient("q", small, 1000, 2000, 1000))


def test_init_containers_count_where_they_use_more_than_the_containers_after_them() -> None:
    case = CASES["vGPU"]
    card = f"{A100}/vgpu-1g"
    history = History(case.node("n"), quota_queue("q", {card: 3}))
    raw = limited("p", slice_of(1, 1024), init=[slice_of(2, 1024)], group="g")
    history.create([card_group("g", "q", 1, phase="Inqueue"), raw])
    history.session(CONFIGURATION)
    history.create([card_group("h", "q", 1, phase="Inqueue"), limited("r", slice_of(2, 1024), group="h")])
    history.cycle(CONFIGURATION)
    assert used(history) == {card: 2}


def test_on_a_node_with_a_product_label_virtual_npus_count_as_whole_cards_until_a_quota_lists_one() -> None:
    resource = "huawei.com/Ascend910-2c"
    labels = {"huawei.com/npu.product": "Ascend-910A", "huawei.com/npu.count": "8"}
    history = History(node("n", f"64c+64Gi+{resource}=8", labels), quota_queue("q", {"Ascend-910A": 1}))
    history.create([card_group("g", "q", 1, phase="Inqueue"), pod("p", f"1c+1Gi+{resource}=1", "g")])
    assert history.cycle(CONFIGURATION) == {"p": "n"}
    assert used(history) == {"Ascend-910A": 1}
    history.create(quota_queue("r", {"Ascend-910A/vnpu-vir02": 1}))
    history.create([card_group("h", "r", 1, phase="Inqueue"), pod("s", f"1c+1Gi+{resource}=1", "h")])
    assert history.cycle(CONFIGURATION) == {"s": "n"}
    assert used(history, "r") == {"Ascend-910A/vnpu-vir02": 1}
    assert used(history) == {"Ascend-910A": 1}, "the Pod holds what it was charged for"


def test_on_a_node_with_a_product_label_ai_cores_count_as_whole_cards_until_a_quota_lists_a_virtual_npu() -> None:
    product = {"huawei.com/gpu.product": "Ascend-310P3", "huawei.com/gpu.count": "2"}
    case = CASES["dynamic vNPU of a 310P"]
    (raw,) = case.node("n")
    history = History(labeled(raw, product), quota_queue("q", {"Ascend-310P3": 4}), case.job("j", "q"))
    assert history.cycle(CONFIGURATION) == {"j-0": "n"}
    assert used(history) == {"Ascend-310P3": 4}
    history.create(quota_queue("r", {"Ascend-310P3/vnpu-vir04_3c": 1}), case.job("k", "r"))
    history.cycle(CONFIGURATION)
    assert used(history, "r") == {"Ascend-310P3/vnpu-vir04_3c": 1}


def test_vgpus_are_not_limited_until_a_quota_lists_one() -> None:
    case = CASES["vGPU"]
    history = History(case.node("n"), quota_queue("q", {H200: 1}), case.job("j", "q"))
    assert history.cycle(CONFIGURATION) == {"j-0": "n"}
    assert used(history) == {}


@pytest.mark.parametrize("kind", ["vGPU", "dynamic vNPU", "static vNPU", "vNPU of HAMi", "share", "Ascend", "rule"])
def test_a_node_without_labels_is_refused_with_the_label_that_it_lacks(kind: str) -> None:
    case = CASES[kind]
    objects = case.node("n")
    objects[0]["metadata"]["labels"] = {}
    history = History(objects, quota_queue("q", case.quota(1)), case.job("j", "q"))
    assert history.cycle(CONFIGURATION) == {}
    label = {"vGPU": "nvidia.com/gpu.product", "rule": "example.com/model"}.get(kind, "huawei.com/npu.product")
    assert (
        f"Node n metadata.labels[{label}]: missing, so the model of the node's cards is not known" in history.malformed
    )


def test_the_memory_of_a_slice_may_be_written_in_mib() -> None:
    case = CASES["vGPU"]
    quota = {f"{A100}/vgpu-8192m-30c": 1}
    history = History(case.node("n"), quota_queue("q", quota), case.job("j", "q"))
    assert history.cycle(CONFIGURATION) == {"j-0": "n"}
    assert used(history) == {case.card: 1}


def test_ascend_may_be_written_with_a_hyphen() -> None:
    case = CASES["Ascend"]
    history = History(case.node("n"), quota_queue("q", {"Ascend-910B3": 1}), single(case, "j"))
    history.annotate("j-0", CARD_NAME, "Ascend-910B3")
    assert history.cycle(CONFIGURATION) == {"j-0": "n"}
    assert used(history) == {"Ascend910B3": 1}


def test_parts_may_be_alternatives() -> None:
    """The template for a number of cores is named differently on each model."""
    small = MIND_CLUSTER | {CHIP_NAME: "910B4"}
    cards = "Ascend910B3/vnpu-vir05_1c_16g", "Ascend910B4/vnpu-vir05_1c_8g"
    nodes = [node(name, f"64c+512Gi+{NPU_CORE}=80", labels=own) for name, own in (("a", MIND_CLUSTER), ("b", small))]
    history = History(nodes, quota_queue("q", dict.fromkeys(cards, 1)))
    for name in ("j", "k", "l"):
        made = CASES["dynamic vNPU"].job(name, "q")
        made[1]["metadata"]["annotations"][CARD_NAME] = "|".join(cards)
        history.create(made)
    assert history.cycle(CONFIGURATION) == {"j-0": "a", "k-0": "b"}
    assert used(history) == dict.fromkeys(cards, 1)


EXISTING = {
    "whole": 4,
    "MPS": 4,
    "MIG": 4,
    "vGPU": 6,  # three of 30 percent of the cores on each of two GPUs
    "vGPU by percentage": 8,
    "whole vGPU": 4,
    "dynamic vNPU": 16,  # four chips of 20 AI cores
    "dynamic vNPU of a 310P": 4,
    "whole chips by AI cores": 4,
    "static vNPU": 4,
    "vNPU of HAMi": 14,  # its nodes report places
    "whole NPU of HAMi": 28,
    "share of HAMi": 14,
    "share": 8,
    "Ascend": 8,
    "rule": 4,
}
"""Case -> how many of its cards its node could have."""


@pytest.mark.parametrize("kind", CASES)
def test_the_cards_that_exist_are_those_that_nodes_could_have(kind: str) -> None:
    case = CASES[kind]
    history = History(case.node("n"), quota_queue("q", case.quota(1)), case.job("j", "q"))
    history.cycle(CONFIGURATION)
    session = history.session(CONFIGURATION)
    (usage,) = session.ask(QUEUE_USAGE, session.queues["q"])
    totals = usage[case.card].totals
    assert totals is not None
    assert (totals.existing, totals.healthy, totals.used) == (EXISTING[kind] * MILLI, EXISTING[kind] * MILLI, MILLI)


@EVERY
def test_a_queue_borrows_idle_quota_of_any_card(case: Case) -> None:
    arguments = ARGUMENTS | {"capacity-card": {**ARGUMENTS["capacity-card"], "cardBorrowing": True}}
    borrowing = configuration(*TIERS, arguments=arguments)
    history = History(case.node("n"), quota_queue("q", case.quota(0)), quota_queue("theirs", case.quota(1)))
    history.create(case.job("j", "q"), case.job("k", "q"))
    bound: dict[str, str] = {}
    for _ in range(3):
        bound |= history.cycle(borrowing)
    assert bound == {"j-0": "n"}
