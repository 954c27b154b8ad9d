"""Reports about borrowing: figures per queue and card, and why a job waits."""

import json
from typing import Any

from scheduler.api.messages import card_summary
from scheduler.api.names import CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT
from scheduler.cli.explain_text import lines
from scheduler.cli.queue.tree import tree_blocks
from scheduler.cli.simulate_table import report_lines
from scheduler.cluster.memory import Simulation
from scheduler.explain.document import explanation_document
from scheduler.explain.overview import overview
from scheduler.explain.queues import every_queue
from scheduler.explain.tenant import HiddenNames
from scheduler.framework.configuration import Configuration
from scheduler.framework.remedies.gates import GateKind
from scheduler.observability.cluster_figures import CardDevices
from scheduler.observability.metrics import Metrics
from tests.builders import NAME, Raw, World, configuration, manifests
from tests.unit.explain.small_clusters import explained
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    H200,
    card_group,
    card_pod,
    gang,
    gpu_node,
    quota_queue,
)

BORROWING = {"capacity-card": {"cardBorrowing": True}}


def borrow(*actions: str) -> Configuration:
    return configuration(
        ["priority"],
        ["gang", "capacity-card"],
        actions=", ".join(("enqueue", "allocate", *actions)),
        arguments=BORROWING,
    )


BORROW = borrow()


def limited(raw: Raw, **limits: int) -> Raw:
    """A queue with limits of borrowing and lending."""
    keys = {"borrowing": CARD_BORROWING_LIMIT, "lending": CARD_LENDING_LIMIT}
    raw["metadata"]["annotations"] |= {keys[what]: json.dumps({H200: number}) for what, number in limits.items()}
    return raw


def holding(name: str, queue: str, number: int) -> list[Raw]:
    """A running gang."""
    pods = [card_pod(f"{name}-{i}", name, on="n", phase="Running") for i in range(number)]
    return [card_group(name, queue, number, phase="Running"), *pods]


def lent(*more: Any) -> list[Any]:
    """Eight cards: queue ``a`` (quota 4) uses six, queue ``b`` (quota 4) none, and queue ``c`` (quota 0) one."""
    quotas = [quota_queue("a", {H200: 4}), quota_queue("b", {H200: 4}), quota_queue("c", {H200: 0})]
    return [gpu_node("n", H200, 8), *quotas, *holding("big", "a", 6), *holding("small", "c", 1), *more]


def gates(name: str, *objects: Any, conf: Configuration) -> list[str]:
    it = explained("podgroup", name, *objects, conf=conf)
    return [gate.message for gate in it.gates if gate.kind is GateKind.QUOTA and gate.plugin == "capacity-card"]


# --- figures ---
def test_the_status_says_what_a_queue_has_borrowed_and_lent_only_if_queues_borrow() -> None:
    found = World(*lent()).run(BORROW)
    cards = {update.name: update.cards[H200] for update in found.decisions.queues if update.cards}
    assert [(cards[name]["borrowed"], cards[name]["lent"]) for name in "abc"] == [("2", "0"), ("0", "3"), ("1", "0")]
    without = World(*lent()).run(CONFIGURATION).decisions.queues
    assert all("borrowed" not in update.cards[H200] for update in without if update.cards)


def test_what_is_borrowed_is_divided_among_the_lenders_in_whole_cards_within_their_lending_limits() -> None:
    lenders = [
        quota_queue("x", {H200: 4}),
        quota_queue("y", {H200: 2}),
        limited(quota_queue("z", {H200: 4}), lending=1),
    ]
    queues = [quota_queue("a", {H200: 0}), *lenders]
    found = World(gpu_node("n", H200, 16), queues, holding("big", "a", 5)).run(BORROW)
    cards = {update.name: update.cards[H200] for update in found.decisions.queues if update.cards}
    assert {name: cards[name]["lent"] for name in "xyz"} == {"x": "3", "y": "1", "z": "1"}


def test_metrics_have_series_of_borrowed_and_lent_cards() -> None:
    found = World(*lent()).run(BORROW)
    assert found.outcome is not None
    session, metrics = found.outcome.session, Metrics()
    metrics.session.update(session.jobs, session.queues, session.dimensions, {}, (), session.usage_by_queue())
    value = metrics.registry.get_sample_value
    assert value("volcano_py_queue_borrowed_cards", {"queue_name": "a", "resource": H200}) == 2
    assert value("volcano_py_queue_lent_cards", {"queue_name": "b", "resource": H200}) == 3


def test_every_view_shows_the_same_figures() -> None:
    found = World(*lent()).run(BORROW)
    assert found.outcome is not None
    (status,) = [update.cards for update in found.decisions.queues if update.name == "a"]
    assert card_summary(status) == f"{H200}=6/4 (2 borrowed)"
    rows = {row.name: row.amounts for row in overview(found.outcome.session, CardDevices()).queues}
    (a,), (b,) = ([its for its in rows[name] if its.resource == H200] for name in "ab")
    assert (a.borrowed, a.lent, a.over) == ("2", "", "")
    assert (b.borrowed, b.lent, b.over) == ("", "3", "")

    simulation = Simulation(manifests(*lent()), BORROW, [NAME])
    items = every_queue(simulation)
    amounts = {one["queue"]: one for item in items for one in item["amounts"] if one["resource"] == H200}
    assert (amounts["a"]["borrowed"], amounts["b"]["lent"]) == ("2", "3")
    tree = "\n".join(line for block in tree_blocks(items) for line in block)
    assert "6 (2 borrowed)" in tree and "0 (3 lent)" in tree

    report = Simulation(manifests(*lent()), BORROW, [NAME]).run(3)
    (row,) = [line.split() for line in report_lines(report) if line.split()[:2] == ["a", H200]]
    assert row == ["a", H200, "6", "4", "0", "6", "2", "0"]

    it = explained("podgroup", "more", *lent(gang("more", "a", 3)), conf=BORROW)
    (numbers,) = [each for each in explanation_document(it)["queues"] if each["resource"] == H200]
    assert (numbers["borrowed"], numbers["lent"]) == ("2", "0")
    assert any(line.split()[-2:] == ["BORROWED", "LENT"] for line in lines(it))


# --- why a job waits ---
def test_a_job_that_waits_for_lent_quota_names_the_borrowers_and_how_the_cards_come_back() -> None:
    cluster = lent(gang("mine", "b", 3))
    for actions, back in (
        ((), "no configured action takes them back (reclaim, gangreclaim), so it waits until they end"),
        (
            ("reclaim",),
            "the action reclaim can take them back from jobs that can spare Pods; whole gangs give them back only with "
            "the action gangreclaim",
        ),
    ):
        assert gates("mine", *cluster, conf=borrow(*actions)) == [
            f"3 {H200} are within the quota of queue b (0 of 4 used), but lent: "
            f"queue a borrows 2, queue c borrows 1; {back}"
        ]


def test_a_tenant_does_not_read_the_names_of_the_borrowers() -> None:
    (text,) = gates("mine", *lent(gang("mine", "b", 3)), conf=BORROW)
    hidden = HiddenNames(frozenset(), frozenset({"a", "c"}), frozenset(), frozenset())
    assert "queue b (0 of 4 used), but lent: queue (hidden) borrows 2, queue (hidden) borrows 1;" in hidden.mask(text)


def test_a_job_within_its_quota_that_waits_for_something_else_does_not_blame_borrowers() -> None:
    job = gang("mine", "b", 1, asks="500c+1Gi+nvidia.com/gpu=1")
    assert gates("mine", *lent(job), conf=BORROW) == []


def test_a_job_beyond_its_quota_says_what_is_lendable_and_where_the_rest_is() -> None:
    queues = [
        limited(quota_queue("a", {H200: 1}), borrowing=2),
        limited(quota_queue("b", {H200: 4}), lending=1),
        quota_queue("c", {H200: 3}),
        quota_queue("d", {H200: 0}),
    ]
    waiting = gang("own", "c", 1, asks="500c+1Gi+nvidia.com/gpu=1")
    cluster = [gpu_node("n", H200, 7), queues, holding("h", "c", 1), holding("i", "d", 1), waiting, gang("job", "a", 5)]
    (message,) = [text for text in gates("job", *cluster, conf=BORROW) if "needed" in text]
    assert message == (
        f"5 {H200} needed, 1 {H200} left of the quota of queue a; 0 more can be borrowed: of the quota of 7 of other "
        "queues, 1 used, 1 reserved or waited for, 3 kept by lending limits, 1 borrowed by other queues; nodes have 1 "
        "less than all quotas; the queue may borrow 2 and has borrowed 0"
    )


def test_a_job_whose_queue_may_not_borrow_says_why() -> None:
    queues = [quota_queue("a", {H200: 1}, reclaimable=False), quota_queue("b", {H200: 4})]
    (message,) = gates("job", gpu_node("n", H200, 8), queues, gang("job", "a", 2), conf=BORROW)[:1]
    assert message.endswith("left of the quota of queue a; it may not borrow, because it is not reclaimable")
    queues = [quota_queue("a", {"NVIDIA-H800": 1}), quota_queue("b", {H200: 4})]
    (message,) = gates("job", gpu_node("n", H200, 8), queues, gang("job", "a", 2), conf=BORROW)[:1]
    assert message.endswith(f"left of the quota of queue a; it may not borrow, because its quota does not list {H200}")


# --- limits ---
def test_a_queue_borrows_and_lends_no_more_than_its_limits() -> None:
    nodes = gpu_node("n", H200, 8)

    def bound(a: Raw, b: Raw) -> int:
        pods = [card_pod(f"job-{i}", "job") for i in range(8)]
        return len(World(nodes, a, b, card_group("job", "a", 1, phase="Inqueue"), *pods).run(BORROW).bound)

    a, b = (quota_queue(name, {H200: 4}) for name in "ab")
    assert bound(a, b) == 8
    assert bound(limited(quota_queue("a", {H200: 4}), borrowing=1), b) == 5
    assert bound(a, limited(quota_queue("b", {H200: 4}), lending=2)) == 6
    assert (
        bound(limited(quota_queue("a", {H200: 4}), borrowing=3), limited(quota_queue("b", {H200: 4}), lending=2)) == 6
    )
    assert bound(limited(quota_queue("a", {H200: 4}), borrowing=0), b) == 4
    assert bound(a, limited(quota_queue("b", {H200: 4}), lending=0)) == 4


def test_limits_count_also_for_admission() -> None:
    nodes, b = gpu_node("n", H200, 8), quota_queue("b", {H200: 4})
    a = limited(quota_queue("a", {H200: 4}), borrowing=1)
    jobs = [card_group(f"job{number}", "a", number, {H200: number}) for number in (5, 6)]
    for job, phase in zip(jobs, ("Inqueue", "Pending"), strict=True):
        found = World(nodes, a, b, job).run(BORROW)
        assert found.phase(job["metadata"]["name"]) == phase


def test_a_refusal_says_what_the_borrowing_limit_is() -> None:
    queues = [limited(quota_queue("a", {H200: 1}), borrowing=1), quota_queue("b", {H200: 4})]
    found = World(gpu_node("n", H200, 8), queues, gang("job", "a", 4)).run(BORROW)
    assert "idle quota of queues: <3000>, borrowing limit: <1000>" in found.message_of("job-3")


def test_a_refusal_of_a_queue_that_may_not_borrow_says_so() -> None:
    queues = [quota_queue("a", {H200: 1}, reclaimable=False), quota_queue("b", {H200: 4})]
    found = World(gpu_node("n", H200, 8), queues, gang("job", "a", 2)).run(BORROW)
    assert found.message_of("job-1").endswith("; it may not borrow, because it is not reclaimable")


def test_malformed_limits_are_set_aside_with_a_warning() -> None:
    a = quota_queue("a", {H200: 1})
    a["metadata"]["annotations"] |= {CARD_BORROWING_LIMIT: '{"NVIDIA-H200": -1}', CARD_LENDING_LIMIT: "many"}
    found = World(gpu_node("n", H200, 8), a, quota_queue("b", {H200: 4}), gang("job", "a", 4)).run(BORROW)
    assert len(found.bound) == 4
    assert found.outcome is not None
    problems = {(each.name, each.field) for each in found.outcome.session.malformed}
    assert problems == {("a", f"metadata.annotations[{key}]") for key in (CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT)}
