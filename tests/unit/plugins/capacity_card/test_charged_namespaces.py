"""Pods that belong to no queue are shown as a row of their own, or count in the queue that the annotation of their
Namespace names."""

from typing import Any

import pytest

from scheduler.api.kinds import NAMESPACE, POD, POD_GROUP, QUEUE
from scheduler.api.names import CARD_NAME, CHARGED_QUEUE, NO_QUEUE, OFFLINE, ONLINE
from scheduler.cli.simulate_table import report_lines
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.server import key_of
from scheduler.framework.charged_namespaces import amounts_without_queue, cards_without_queue, charged_pods
from scheduler.framework.configuration import Configuration
from scheduler.observability.card_users import OWNERS, CardUserFigures
from scheduler.observability.cluster_figures import ClusterFigures
from scheduler.observability.session_figures import SessionFigures
from tests.builders import NAME, Raw, World, configuration, group, manifests, node, pod, pods, queue
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    GPU,
    H200,
    H800,
    UNLIMITED,
    card_group,
    card_pod,
    gang,
    gpu_node,
    insufficient,
    quota_queue,
)

KUBE_SCHEDULER = "default-scheduler"
NODES = [gpu_node("a", H200, 8), gpu_node("b", H800, 8)]
QUEUES = [quota_queue("q", {H200: 3}), quota_queue("r", {H200: 4, H800: 2})]
DIVIDED = configuration(["priority", "gang"], ["predicates", "proportion", "nodeorder"])
CAPACITY = configuration(["priority", "gang"], ["predicates", "capacity", "nodeorder"])
QUOTA_FIELD = f"metadata.annotations[{CHARGED_QUEUE}]"


def namespace(name: str, charged: str | None = None) -> Raw:
    annotations = {} if charged is None else {CHARGED_QUEUE: charged}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}


def old_pod(
    name: str, of: str = "old", on: str = "a", kind: str = "ReplicaSet", owner: str = "web", **rest: Any
) -> Raw:
    """A Pod with a card that kube-scheduler has bound."""
    made = pod(
        name, rest.pop("asks", f"2c+1Gi+{GPU}=1"), scheduler=rest.pop("scheduler", KUBE_SCHEDULER), on=on, **rest
    )
    made["metadata"]["namespace"] = of
    if kind:
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": True}
        made["metadata"]["ownerReferences"] = [reference]
    return made


def charge(found: World, of: str, name: str | None) -> None:
    found.cluster.server.patch(NAMESPACE, "", of, {"metadata": {"annotations": {CHARGED_QUEUE: name}}})


def used(found: World, name: str = "q") -> dict[str, tuple[str, str, str]]:
    """Card -> used, online and offline numbers in the status of a queue, without unused cards."""
    cards: dict[str, dict[str, str]] = found.get("Queue", name)["status"].get("cards", {})
    return {card: (its["used"], its["online"], its["offline"]) for card, its in cards.items() if its["used"] != "0"}


def no_queue(found: World) -> tuple[dict[str, str], dict[str, str]]:
    """What counts in no queue, in the status of the root: the amounts, and the used cards."""
    held = found.get("Queue", "root")["status"].get("withoutQueue") or {"allocated": {}, "cards": {}}
    return held["allocated"], {card: its["used"] for card, its in held["cards"].items()}


def owned(found: World) -> dict[tuple[str, ...], float]:
    """Card, queue, namespace, workload and owner -> cards, as in the metric."""
    assert found.outcome is not None
    session, figures = found.outcome.session, CardUserFigures()
    figures.update(session.cards_in_use(), session.figures())
    samples = (sample for family in figures.collect() for sample in family.samples)
    return {tuple(s.labels.values()): s.value for s in samples if s.name == "volcano_py_cards_without_queue"}


def set_aside(found: World) -> list[str]:
    """The annotations of Namespaces that the last session set aside."""
    return [text for text in found.malformed if text.startswith("Namespace ")]


# --- a row of their own ---
def test_pods_of_other_schedulers_are_a_row_of_their_own() -> None:
    found = World(NODES, QUEUES, namespace("old"), [old_pod(f"w-{i}") for i in range(3)], gang("g", "q", 1))
    found.run(CONFIGURATION)
    amounts, cards = no_queue(found)
    assert cards == {H200: "3"} and (amounts["cpu"], amounts[GPU]) == ("6", "3")
    assert used(found) == {H200: ("1", "0", "1")}
    assert owned(found) == {(H200, NO_QUEUE, "old", ONLINE, "ReplicaSet/web"): 3}


@pytest.mark.parametrize(
    ("phase", "deleting", "allocated", "card"),
    [
        ("Running", False, "2", "1"),
        ("Pending", False, "2", "1"),  # bound, and not started yet
        ("Running", True, None, "1"),  # terminating: a card is charged until the Pod is deleted
        ("Unknown", False, None, "1"),
        ("Succeeded", False, None, None),
        ("Failed", False, None, None),
    ],
)
def test_the_same_states_count_as_for_pods_of_queues(
    phase: str, deleting: bool, allocated: str | None, card: str | None
) -> None:
    """The Pod without a queue, and an equal Pod in a queue, count in the same way."""
    inside = pod("in-0", f"2c+1Gi+{GPU}=1", "in", on="a", phase=phase, deleting=deleting)
    found = World(NODES, QUEUES, namespace("old"), old_pod("w", phase=phase, deleting=deleting))
    both = World(NODES, QUEUES, group("in", "q", phase="Running"), inside)
    for world in (found, both):
        world.run(CONFIGURATION, exits=False)
    amounts, cards = no_queue(found)
    status = both.get("Queue", "q")["status"]
    assert amounts.get("cpu", "0") == status["allocated"].get("cpu", "0") == (allocated or "0")
    assert cards.get(H200) == card and used(both).get(H200, (None,))[0] == card


def test_a_pod_whose_pod_group_does_not_exist_belongs_to_no_queue() -> None:
    found = World(NODES, QUEUES, pod("lost", f"1c+{GPU}=1", "gone", on="a"), old_pod("other", annotations={}))
    found.run(CONFIGURATION)
    assert no_queue(found)[1] == {H200: "2"}


def test_a_pod_that_was_bound_for_a_queue_counts_in_it_after_its_pod_group_is_deleted() -> None:
    found = World(NODES, QUEUES, namespace("default", "r"), gang("g", "q", 1)).run(CONFIGURATION, 2, kubelet=True)
    assert used(found) == {H200: ("1", "0", "1")}
    found.cluster.server.delete(POD_GROUP, "default", "g")
    found.run(CONFIGURATION)
    assert used(found) == {H200: ("1", "0", "1")} and used(found, "r") == {} and no_queue(found)[1] == {}


def test_a_card_whose_node_does_not_name_it_is_shown_by_its_resource() -> None:
    unnamed = node("c", f"64c+256Gi+{GPU}=8")
    found = World(unnamed, QUEUES, old_pod("w", on="c")).run(CONFIGURATION)
    assert no_queue(found)[1] == {GPU: "1"}


def test_the_row_disappears_with_the_last_pod() -> None:
    found = World(NODES, QUEUES, old_pod("w")).run(CONFIGURATION)
    assert no_queue(found)[1] == {H200: "1"}
    found.cluster.server.remove(key_of(POD, "old", "w"))
    found.run(CONFIGURATION)
    assert no_queue(found) == ({}, {})


# --- charged to a queue ---
@pytest.mark.parametrize("conf", [CONFIGURATION, UNLIMITED])
def test_the_quota_of_the_charged_queue_counts_them(conf: Configuration) -> None:
    found = World(NODES, QUEUES, namespace("old", "q"), [old_pod(f"w-{i}") for i in range(2)], gang("g", "q", 1))
    found.run(conf)
    assert set(found.bound) == {"g-0"} and used(found) == {H200: ("3", "2", "1")} and no_queue(found) == ({}, {})
    found = World(NODES, QUEUES, namespace("old", "q"), [old_pod(f"w-{i}") for i in range(3)], gang("g", "q", 1))
    found.run(conf)
    assert not found.bound and not found.evicted
    assert insufficient("q", H200, 1000, 4000, 3000) in found.waiting["g-0"]
    assert owned(found) == {(H200, "q", "old", ONLINE, "ReplicaSet/web"): 3}


def test_a_move_to_a_queue_needs_no_restart() -> None:
    """The annotation is set, changed and removed while the Pods run; and the Pods become those of a queue."""
    found = World(NODES, QUEUES, namespace("old"), [old_pod(f"w-{i}", kind="Job") for i in range(3)])
    for name, in_q, in_r in ((None, 0, 0), ("q", 3, 0), ("r", 0, 3), (None, 0, 0)):
        charge(found, "old", name)
        found.run(CONFIGURATION)
        numbers = [used(found, each).get(H200, ("0",))[0] for each in ("q", "r")]
        assert numbers == [str(in_q), str(in_r)], name
        assert no_queue(found)[1].get(H200, "0") == str(3 - in_q - in_r)
    charge(found, "old", "q")
    for i in range(3):
        found.cluster.server.remove(key_of(POD, "old", f"w-{i}"))
    found.run(CONFIGURATION)
    assert used(found) == {} and no_queue(found) == ({}, {})


def test_only_pods_without_a_queue_are_charged() -> None:
    """The annotation does not move Pods of a PodGroup, of another namespace, or of other schedulers on no node."""
    found = World(
        NODES,
        QUEUES,
        namespace("default", "r"),
        namespace("old"),
        gang("g", "q", 1),
        old_pod("elsewhere"),
        old_pod("waits", of="default", on=""),
        old_pod("here", of="default"),
    )
    found.run(CONFIGURATION)
    assert used(found) == {H200: ("1", "0", "1")} and used(found, "r") == {H200: ("1", "1", "0")}
    assert no_queue(found)[1] == {H200: "1"}


def test_cpu_and_memory_are_charged_as_those_of_the_queues_own_pods() -> None:
    limited = quota_queue("q", {H200: 3}, "4c+64Gi")
    old = [old_pod(f"w-{i}", asks="2c+1Gi", kind="Job") for i in range(2)]
    found = World(NODES, limited, namespace("old", "q"), old, gang("g", "q", 1)).run(CONFIGURATION)
    assert not found.bound and insufficient("q", "cpu", 1000, 5000, 4000) in found.waiting["g-0"]
    assert found.get("Queue", "q")["status"]["allocated"]["cpu"] == "4"
    assert found.run(UNLIMITED).bound, "the cpu of Pods with cards is not limited"


def test_with_proportion_the_charged_queue_deserves_no_more_for_them_and_holds_them() -> None:
    objects = (node("n", "8c+64Gi"), queue("q"), queue("r"), namespace("old", "q"))
    waiting = [*pods("g", 4, "1c", "g"), group("g", "q"), *pods("h", 4, "1c", "h"), group("h", "r")]
    old = [old_pod(f"w-{i}", on="n", asks="1c", kind="Job") for i in range(4)]
    found = World(*objects, old, waiting).run(DIVIDED)
    assert found.get("Queue", "q")["status"]["allocated"]["cpu"] == "4"
    assert set(found.bound) == {f"h-{i}" for i in range(4)}, "queue q has its half in use"
    charge(found, "old", None)
    found.run(DIVIDED)
    assert found.get("Queue", "q")["status"]["allocated"]["cpu"] == "0"


def test_with_capacity_the_capability_of_the_charged_queue_counts_them() -> None:
    old = [old_pod(f"w-{i}", on="n", asks="1c", kind="Job") for i in range(3)]
    asking = [group("g", "q"), *pods("g", 3, "1c", "g")]
    limited = queue("q", capability="4c")
    found = World(node("n", "16c+64Gi"), limited, namespace("old", "q"), old, asking).run(CAPACITY)
    assert len(found.bound) == 1 and found.get("Queue", "q")["status"]["allocated"]["cpu"] == "4"


RECLAIM = configuration(
    ["priority", "gang"], ["predicates", "proportion", "nodeorder"], actions="enqueue, allocate, preempt, reclaim"
)


def test_the_pods_are_never_evicted_for_a_queue() -> None:
    """Queue q holds more than its half with them. What q loses are its own Pods."""
    old = [old_pod(f"w-{i}", on="n", asks="1c", kind="Job") for i in range(6)]
    own = [group("g", "q", phase="Running"), *pods("g", 2, "1c", "g", on="n")]
    asking = [group("h", "r", phase="Inqueue"), *pods("h", 2, "1c", "h")]
    found = World(node("n", "8c+64Gi"), queue("q"), queue("r"), namespace("old", "q"), old, own, asking)
    found.run(RECLAIM)
    assert found.evicted and found.evicted <= {"g-0", "g-1"}
    assert "nodeName" in found.cluster.get("v1", "Pod", "old", "w-0")["spec"]  # type: ignore[index]


# --- invalid annotations ---
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the name of a queue is empty"),
        ("p", "queue 'p' does not exist"),
        ("reserch", "queue 'reserch' does not exist; did you mean 'research'?"),
        ("root", "queue root has no Pods of its own"),
        ("a b\n\x1b[31m", "queue 'a b\\n\\x1b[31m' does not exist"),
        ("x" * 70_000, f"queue {'x' * 64!r} does not exist"),
    ],
)
def test_an_annotation_without_a_queue_is_set_aside_with_a_warning(name: str, problem: str) -> None:
    found = World(NODES, QUEUES, queue("research"), namespace("old", name), namespace("new", "q"))
    found.run(CONFIGURATION)
    (malformed,) = set_aside(found)
    assert malformed == f"Namespace old {QUOTA_FIELD}: {problem}"
    assert found.events("Malformed") == [
        f"{QUOTA_FIELD}: {problem}; no queue is charged for Pods of the namespace that belong to none"
    ]


def test_a_queue_that_is_created_later_is_charged() -> None:
    found = World(NODES, namespace("old", "q"), old_pod("w")).run(CONFIGURATION)
    assert no_queue(found)[1] == {H200: "1"} and set_aside(found)
    found.cluster.server.create(QUEUE, quota_queue("q", {H200: 3}))
    found.run(CONFIGURATION)
    assert used(found) == {H200: ("1", "1", "0")} and not set_aside(found) and no_queue(found) == ({}, {})
    found.cluster.server.delete(QUEUE, "", "q")
    found.run(CONFIGURATION)
    assert no_queue(found)[1] == {H200: "1"} and set_aside(found)


# --- metrics ---
def test_the_metrics_of_queues_have_the_row_and_the_charged_amounts() -> None:
    found = World(
        NODES, QUEUES, namespace("old", "q"), namespace("rest"), old_pod("w"), old_pod("x", of="rest", kind="Job")
    ).run(CONFIGURATION)
    assert found.outcome is not None
    session, figures = found.outcome.session, SessionFigures()
    online, offline = figures.update(
        session.jobs,
        session.queues,
        session.dimensions,
        {},
        session.figures(),
        session.usage_by_queue(),
        active=session.active_jobs,
        settled=session.settled_jobs,
        touched=session.touched,
        charged=session.once(charged_pods),
        without_queue=(amounts_without_queue(session), cards_without_queue(session.cards_in_use())),
    )
    assert (online[0], offline[0]) == (2000, 0)
    samples = [s for family in figures.collect() for s in family.samples]
    of = {(s.name, s.labels.get("queue_name"), s.labels.get("resource")): s.value for s in samples}
    assert of["volcano_queue_allocated_milli_cpu", NO_QUEUE, None] == 2000
    assert of["volcano_queue_allocated_milli_cpu", "q", None] == 2000
    assert of["volcano_queue_allocated_scalar_resources", NO_QUEUE, H200] == 1000
    assert of["volcano_queue_allocated_scalar_resources", "q", H200] == 1000
    assert {name for name, queue, _ in of if queue == NO_QUEUE} == {
        f"volcano_queue_allocated_{word}" for word in ("milli_cpu", "memory_bytes", "scalar_resources")
    }
    cluster = ClusterFigures()
    cluster.update(online, offline, session.nodes, session.dimensions)
    shares = {tuple(s.labels.values()): s.value for f in cluster.collect() for s in f.samples if "workload" in s.labels}
    assert [shares[workload, "cpu"] for workload in (ONLINE, OFFLINE, "other")] == [2, 0, 2]


def test_the_owners_with_the_most_cards_have_series(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.observability.card_users.OWNERS", 2)
    numbers = {"a": 1, "b": 3, "c": 2}
    old = [old_pod(f"{name}-{i}", owner=name, kind="Job") for name, number in numbers.items() for i in range(number)]
    found = World(NODES, QUEUES, old).run(CONFIGURATION)
    assert {labels[-1]: number for labels, number in owned(found).items()} == {"Job/b": 3, "Job/c": 2}
    assert OWNERS == 1000


def test_a_pod_that_names_its_card_is_charged_for_the_card_of_its_node() -> None:
    found = World(NODES, QUEUES, namespace("old", "r"), old_pod("w", on="b", annotations={CARD_NAME: H200}))
    found.run(CONFIGURATION)
    assert used(found, "r") == {H800: ("1", "1", "0")}


BORROWING = configuration(
    ["priority", "gang"],
    ["capacity-card"],
    actions="enqueue, allocate, preempt, reclaim, backfill",
    arguments={"capacity-card": {"cardBorrowing": True}},
)


def test_a_queue_gets_its_quota_back_from_pods_of_queues_and_not_from_charged_ones() -> None:
    """Queue q is charged for four old Pods beyond its quota of three, and queue r waits for its own quota."""
    objects = [gpu_node("a", H200, 6), quota_queue("q", {H200: 3}), quota_queue("r", {H200: 3})]
    old = [old_pod(f"w-{i}", asks=f"1c+{GPU}=1") for i in range(4)]
    own = [card_group("own", "q", 1, phase="Running"), *(card_pod(f"own-{i}", "own", on="a") for i in range(2))]
    found = World(*objects, namespace("old", "q"), old, own, gang("g", "r", 2)).run(BORROWING)
    cards = found.get("Queue", "q")["status"]["cards"][H200]
    assert (cards["used"], cards["borrowed"]) == ("6", "3")
    assert found.evicted <= {"own-0", "own-1"} and found.evicted, "as many as gang allows"


def test_simulate_shows_the_row() -> None:
    simulation = Simulation(manifests(NODES, QUEUES, old_pod("w"), gang("g", "q", 1)), CONFIGURATION, [NAME])
    report = simulation.run()
    lines = [line.split() for line in report_lines(report)]
    assert ["(no", "queue)", "cpu", "2"] in lines and ["(no", "queue)", H200, "1", "0", "0", "0"] in lines
