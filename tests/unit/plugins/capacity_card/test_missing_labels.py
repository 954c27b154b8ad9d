"""While nodes do not say which cards they have, their cards stay charged and no Pod gets them, whatever other nodes
say."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.api.cards import MILLI
from scheduler.api.kinds import NODE
from scheduler.api.names import CARD_QUOTA
from scheduler.framework.configuration import Configuration
from scheduler.framework.extension import QUEUE_USAGE
from tests.builders import Raw, configuration, node
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    GPU,
    H200,
    H800,
    PLUGINS,
    card_group,
    card_pod,
    gang,
    gpu_node,
    insufficient,
    labels,
    quota_queue,
)
from tests.unit.plugins.capacity_card.histories import History

MIG, MPS = "nvidia.com/mig-1g.18gb", f"{GPU}.shared"
NPU = "huawei.com/Ascend910"
BORROWING = configuration(
    *PLUGINS, arguments={"capacity-card": {"cardBorrowing": True}}, actions="enqueue, allocate, reclaim, backfill"
)
ALLOWED = configuration(*PLUGINS, arguments={"capacity-card": {"cardAllowUnlabeled": True}})
FURTHER = configuration(*PLUGINS, arguments={"capacity-card": {"cardResources": "example.com/accel*"}})
DESCRIBED = labels(H200, memory=81559) | {f"{GPU}.replicas": "2"}
FORMS = {GPU: H200, MIG: f"{H200}/mig-1g.18gb-mixed", MPS: f"{H200}/mps-80g*1/2"}
Loss = Callable[[History], None]


def offering(resource: str, name: str, described: dict[str, str] = DESCRIBED, cards: int = 8) -> Raw:
    return node(name, f"64c+64Gi+{resource}={cards}", described)


def running(name: str, number: int, on: str, card: str | None = None, resource: str = GPU) -> list[Raw]:
    """A PodGroup of queue ``q`` with Pods that run, but that this scheduler did not bind."""
    pods = [card_pod(f"{name}-{i}", name, card, f"1c+1Gi+{resource}=1", on=on) for i in range(number)]
    return [card_group(name, "q", 1, phase="Running"), *pods]


def on_nodes(history: History) -> list[str]:
    """The Warnings on Nodes."""
    return [problem for problem in history.malformed if problem.startswith("Node ")]


def resource_is_zero(history: History) -> None:
    history.cluster.server.patch(NODE, "", "a", {"status": {"allocatable": {GPU: "0", MIG: "0", MPS: "0"}}})


def resource_is_gone(history: History) -> None:
    history.cluster.server.patch(NODE, "", "a", {"status": {"allocatable": {GPU: None, MIG: None, MPS: None}}})


def labels_are_gone(history: History) -> None:
    for key in DESCRIBED:
        history.label("a", key, None)


def product_is_gone(history: History) -> None:
    history.label("a", f"{GPU}.product", None)


def resource_and_labels_are_gone(history: History) -> None:
    resource_is_gone(history)
    labels_are_gone(history)


def node_is_gone(history: History) -> None:
    history.cluster.server.delete(NODE, "", "a")


LOSSES = [
    resource_is_zero,
    resource_is_gone,
    labels_are_gone,
    product_is_gone,
    resource_and_labels_are_gone,
    node_is_gone,
]

UNNAMED = LOSSES[2:]
"""Then only the name that the Pod gives identifies its cards."""


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and a restart"])
@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("resource", FORMS)
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_pods_stay_charged_when_their_node_loses_its_cards(
    resource: str, lose: Loss, named: bool, restarted: bool
) -> None:
    card = FORMS[resource]
    history = History(
        [offering(resource, name) for name in "ab"],
        quota_queue("q", {card: 2}),
        running("old", 2, "a", card if named else None, resource),
    )
    history.cycle()
    lose(history)
    if restarted:
        history.restart()
    history.create(gang("new", "q", 1, card if named else None, f"1c+1Gi+{resource}=1"))
    assert history.cycle() == {}
    assert "total would be <3000>, but capability is <2000>" in history.message_of("new-0")
    assert ("<2000> of these may be other cards" in history.message_of("new-0")) is (not named and lose in UNNAMED)
    history.finish("old-0")
    assert history.cycle() == {"new-0": "b"}


def test_a_pod_of_an_unknown_card_counts_as_every_card_that_it_may_be() -> None:
    history = History(
        offering(GPU, "a"),
        gpu_node("b", H200),
        gpu_node("c", H800),
        quota_queue("q", {H200: 2, H800: 1, FORMS[MIG]: 1, "Ascend-910B": 1}),
        running("old", 1, "a"),
    )
    labels_are_gone(history)
    session = history.session(CONFIGURATION)
    (usage,) = session.ask(QUEUE_USAGE, session.queues["q"])
    assert {card: its.used / MILLI for card, its in usage.items()} == {
        H200: 1,
        H800: 1,
        FORMS[MIG]: 0,
        "Ascend-910B": 0,
    }


def test_a_pod_that_names_two_cards_counts_as_both_while_its_node_names_none() -> None:
    history = History(
        offering(GPU, "a"),
        gpu_node("c", H800),
        quota_queue("q", {H200: 1, H800: 1}),
        running("old", 1, "a", f"{H200}|{H800}"),
    )
    labels_are_gone(history)
    history.create(gang("new", "q", 1, H800))
    assert history.cycle() == {}


def test_cards_of_several_resources_stay_charged() -> None:
    mixed = node("a", f"64c+64Gi+{GPU}=6+{MIG}=7", DESCRIBED)
    history = History(
        mixed,
        offering(MIG, "b"),
        gpu_node("c", H200),
        quota_queue("q", {H200: 1, FORMS[MIG]: 1}),
        running("whole", 1, "a"),
        running("part", 1, "a", resource=MIG),
    )
    resource_and_labels_are_gone(history)
    history.create(gang("new", "q", 1, None), gang("other", "q", 1, None, f"1c+1Gi+{MIG}=1"))
    assert history.cycle() == {}


def test_a_terminating_pod_of_an_unknown_card_is_charged_until_it_is_deleted() -> None:
    history = History(offering(GPU, "a"), gpu_node("b"), quota_queue("q", {H200: 1}), running("old", 1, "a"))
    labels_are_gone(history)
    history.terminate("old-0")
    history.create(gang("new", "q", 1))
    assert history.cycle() == {}
    history.gone("old-0")
    assert history.cycle() == {"new-0": "b"}


def test_no_pod_is_evicted_because_a_card_is_not_known() -> None:
    """Queue q would have borrowed an H800 if both Pods of unknown cards held one."""
    history = History(
        offering(GPU, "a"),
        gpu_node("b", H200, 1),
        gpu_node("c", H800, 1),
        quota_queue("q", {H200: 2, H800: 1}),
        quota_queue("other", {H800: 1}),
        running("old", 2, "a"),
        running("known", 1, "c"),
        gang("theirs", "other", 1, H800),
    )
    labels_are_gone(history)
    history.cycle(BORROWING)
    history.cycle(BORROWING)
    assert not history.evicted


# --- Events ---
@pytest.mark.parametrize("lose", [labels_are_gone, product_is_gone, resource_and_labels_are_gone])
def test_a_missing_label_is_one_warning_on_the_node(lose: Loss) -> None:
    pods = [pod for i in range(3) for pod in running(f"old-{i}", 2, "a")]
    history = History(offering(GPU, "a"), quota_queue("q", {H200: 9}), pods)
    lose(history)
    history.cycle()
    history.cycle()
    (problem,) = on_nodes(history)
    assert problem.startswith(f"Node a metadata.labels[{GPU}.product]: missing")


def test_a_pod_with_a_binding_record_keeps_its_card_and_needs_no_warning() -> None:
    history = History(offering(GPU, "a"), quota_queue("q", {H200: 1, H800: 1}), gang("old", "q", 1, None))
    assert history.cycle() == {"old-0": "a"}
    resource_and_labels_are_gone(history)
    history.restart()
    history.cycle()
    assert history.malformed == [
        f"Queue q metadata.annotations[{CARD_QUOTA}][{card}]: no node has the card {card!r}" for card in (H200, H800)
    ]
    history.create(gpu_node("c", H800), gang("new", "q", 1, H800))
    assert history.cycle() == {"new-0": "c"}


# --- refusals ---
@pytest.mark.parametrize("others", [[], [gpu_node("b", H800, 0)], [gpu_node("b", H200, 0)]], ids=["", "H800", "H200"])
@pytest.mark.parametrize("card", [None, H200])
@pytest.mark.parametrize(
    ("resource", "label"),
    [(GPU, f"{GPU}.product"), (MIG, f"{GPU}.product"), (MPS, f"{GPU}.product"), (NPU, "huawei.com/npu.product")],
)
def test_a_pod_is_refused_where_a_label_is_missing_and_the_label_is_named(
    resource: str, label: str, card: str | None, others: list[Raw]
) -> None:
    quota: dict[str, Any] = {H200: 1, "Ascend-910B": 1} | dict.fromkeys(FORMS.values(), 1)
    if card is not None:
        card = FORMS.get(resource, "Ascend-910B")
    job = gang("job", "q", 1, card, f"1c+1Gi+{resource}=1")
    history = History(offering(resource, "a", {}), others, quota_queue("q", quota), job)
    assert history.cycle() == {}
    assert f"no valid label {label}" in history.message_of("job-0")
    assert on_nodes(history) == [
        f"Node a metadata.labels[{label}]: missing, so the model of the node's cards is not known"
    ]


def test_a_product_without_count_and_memory_is_refused_with_the_missing_label() -> None:
    history = History(
        offering(GPU, "a", {f"{GPU}.product": H200}), quota_queue("q", {H200: 1}), gang("job", "q", 1, None)
    )
    assert history.cycle() == {}
    assert f"no valid label {GPU}.count" in history.message_of("job-0")


@pytest.mark.parametrize("others", [[], [gpu_node("b", H800)]], ids=["alone", "beside a labeled node"])
@pytest.mark.parametrize("quota", [None, {}, {H200: 0}])
def test_a_queue_without_quota_gets_no_card_whatever_nodes_there_are(quota: Any, others: list[Raw]) -> None:
    history = History(offering(GPU, "a", {}), others, quota_queue("q", quota), gang("job", "q", 1, None))
    assert history.cycle() == {}
    message = history.message_of("job-0")
    assert message.startswith(insufficient("q", GPU, 1000, 1000, 0))
    assert f"1 node(s) with {GPU} have no valid label {GPU}.product" in message


@pytest.mark.parametrize("resource", ["nvidia.com/gpumem", "rdma/hca", "volcano.sh/vgpu-memory", f"{NPU}-memory"])
def test_resources_that_count_no_cards_are_not_limited(resource: str) -> None:
    job = gang("job", "q", 1, None, f"1c+1Gi+{resource}=1")
    history = History(offering(resource, "a", {}), quota_queue("q", {}), job)
    assert history.cycle() == {"job-0": "a"}
    assert history.malformed == []


def test_npus_are_limited_only_where_a_quota_lists_one() -> None:
    job = gang("job", "q", 1, None, f"1c+1Gi+{NPU}=1")
    history = History(offering(NPU, "a", {}), quota_queue("q", {}), job)
    history.create(quota_queue("other", {"Ascend-910B": 8}))
    assert history.cycle() == {}
    history.delete_queue("other")
    assert history.cycle() == {"job-0": "a"}


@pytest.mark.parametrize(
    ("setting", "resource", "bound"),
    [
        (CONFIGURATION, GPU, False),
        (ALLOWED, GPU, True),
        (CONFIGURATION, "example.com/accelerator", True),
        (FURTHER, "example.com/accelerator", False),
    ],
    ids=["by default", "allowed", "an unknown name", "a further name"],
)
def test_arguments_say_which_resources_count_cards_without_labels(
    setting: Configuration, resource: str, bound: bool
) -> None:
    history = History(
        offering(resource, "a", {}), quota_queue("q", {}), gang("job", "q", 1, None, f"1c+1Gi+{resource}=1")
    )
    assert bool(history.cycle(setting)) is bound


def test_the_product_label_comes_back() -> None:
    history = History(offering(GPU, "a"), quota_queue("q", {H200: 3, H800: 1}), running("old", 2, "a"))
    labels_are_gone(history)
    history.create(gang("new", "q", 1, None))
    assert history.cycle() == {}
    for key, value in DESCRIBED.items():
        history.label("a", key, value)
    assert history.cycle() == {"new-0": "a"}
    assert on_nodes(history) == []
