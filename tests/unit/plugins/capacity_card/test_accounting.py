"""The books: coverage of the minimum, reservations, and remaining room."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import CPU, MEMORY
from scheduler.api.queue import Queue
from scheduler.api.resource import Dimensions
from scheduler.api.signed_records import AdmissionRecord
from scheduler.framework.session import Session
from scheduler.plugins.capacity_card.accounting import Needs, compare_with_minimum, minimum_tasks
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.plugin import CapacityCard
from tests.builders import Raw, World
from tests.examples import examples
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    D4090,
    D4090D,
    GPU,
    H200,
    UNLIMITED,
    card_group,
    card_pod,
    gpu_node,
    quota_queue,
)


def book(**limits: float) -> CardBook:
    zeros = Dimensions().zeros()
    queue = Queue("q", 1, 0, 0.0, "Open", True, "", zeros, False, zeros, zeros)
    return CardBook(queue, dict(limits))


def plugin(session: Session) -> CapacityCard:
    return next(p for p in session.plugins if isinstance(p, CapacityCard))


def books(*objects: Raw | list[Raw], unlimited: bool = False) -> CardBook:
    session = World(*objects).session(UNLIMITED if unlimited else CONFIGURATION)
    return plugin(session)._books["q"]


@pytest.mark.parametrize(
    ("minimum", "allocated", "reserved", "elastic"),
    [
        ({("A",): 2.0}, {}, {("A",): 2.0}, {}),
        ({("A",): 2.0}, {"A": 5.0}, {}, {"A": 3.0}),
        ({("A", "B"): 4.0}, {"B": 1.0}, {("A", "B"): 3.0}, {}),
        ({("A", "B"): 2.0, ("A",): 1.0}, {"A": 2.0, "B": 2.0}, {}, {"B": 1.0}),
        ({}, {"A": 1.0}, {}, {"A": 1.0}),
    ],
)
def test_a_minimum_is_covered_by_what_is_held(
    minimum: Needs, allocated: dict[str, float], reserved: Needs, elastic: dict[str, float]
) -> None:
    assert compare_with_minimum(minimum, allocated) == (reserved, elastic)


def test_needs_with_alternatives_are_reserved_on_the_cards_in_order() -> None:
    queue = book(A=3.0, B=2.0)
    queue.reserve({("A", "B"): 4.0, ("A",): 1.0})
    assert queue.inqueue == {"A": 3.0, "B": 2.0}
    queue.reserve({("A", "B"): 1.0})
    assert queue.inqueue == {"A": 4.0, "B": 2.0}, "beyond all quota they count against the first"


def test_the_share_is_that_of_the_scarcest_quota() -> None:
    queue = book(cpu=float("inf"), A=4.0, B=2.0, C=0.0)
    queue.allocated.update(cpu=1000.0, A=1.0, B=1.0)
    assert queue.share == 0.5
    queue.allocated["C"] = 1.0
    assert queue.share == 1.0


def test_pods_on_nodes_are_allocated_and_the_rest_above_the_minimum_is_elastic() -> None:
    running = [card_pod(f"p-{i}", "job", on="n") for i in range(3)]
    found = books(gpu_node("n"), quota_queue("q", {H200: 4}), card_group("job", "q", 1, asks="1c+1Gi"), running)
    gib = 2.0**30
    assert found.allocated == {CPU: 3000.0, MEMORY: 3 * gib, H200: 3000.0}
    assert found.elastic == {CPU: 2000.0, MEMORY: 2 * gib, H200: 2000.0}
    assert found.inqueue == {}


def test_a_gang_with_fewer_pods_than_its_minimum_has_no_card_to_spare() -> None:
    gang = card_group("job", "q", 2, phase="Running"), card_pod("p-0", "job", on="n")
    waiting = card_group("next", "q", 3, {H200: 3})
    world = World(gpu_node("n"), quota_queue("q", {H200: 3}), *gang, waiting)
    assert H200 not in plugin(world.session(CONFIGURATION))._books["q"].elastic
    world.run(CONFIGURATION)
    assert (world.get("PodGroup", "next").get("status") or {}).get("phase") != "Inqueue"


def test_an_admitted_job_without_pods_reserves_its_minimum() -> None:
    waiting = card_group("job", "q", 2, {H200: 2}, asks="2c+2Gi", phase="Inqueue")
    found = books(gpu_node("n"), quota_queue("q", {H200: 4}), waiting)
    assert found.inqueue == {CPU: 2000.0, MEMORY: 2.0**31, H200: 2000.0}
    assert found.held(CPU) == 0


def test_pods_count_instead_of_the_annotation_when_all_exist() -> None:
    waiting = card_group("job", "q", 2, {H200: 7}, phase="Inqueue")
    pods = [card_pod("p-0", "job", on="n"), card_pod("p-1", "job")]
    assert books(gpu_node("n"), quota_queue("q", {H200: 4}), waiting, pods).inqueue[H200] == 1000.0


def test_the_annotation_counts_until_all_pods_exist() -> None:
    waiting = card_group("job", "q", 2, {H200: 2}, phase="Inqueue")
    found = books(gpu_node("n"), quota_queue("q", {H200: 4}), waiting, card_pod("p-0", "job", on="n"))
    assert (found.allocated[H200], found.inqueue[H200]) == (1000.0, 1000.0)


def test_pods_with_alternative_cards_are_charged_for_the_card_of_their_node() -> None:
    both = f"{D4090}|{D4090D}"
    found = books(
        gpu_node("a", D4090),
        gpu_node("b", D4090D),
        quota_queue("q", {D4090: 4, D4090D: 4}),
        card_group("job", "q"),
        [
            card_pod("p-0", "job", both, on="b"),
            card_pod("p-1", "job", both, on="b"),
            card_pod("p-2", "job", both, on="a"),
        ],
    )
    assert (found.allocated[D4090], found.allocated[D4090D]) == (1000.0, 2000.0)


def test_other_resources_are_not_charged() -> None:
    rdma = card_pod("p", "job", asks=f"1c+1Gi+{GPU}=1+rdma/hca=4", on="n")
    found = books(gpu_node("n", offers="rdma/hca=8"), quota_queue("q", {H200: 4}), card_group("job", "q"), rdma)
    assert set(found.allocated) == {CPU, MEMORY, H200}


def test_unlimited_cpu_and_memory_of_pods_with_cards_do_not_count() -> None:
    found = books(
        gpu_node("n"),
        quota_queue("q", {H200: 4}, "4c+4Gi"),
        card_group("job", "q", asks="3c+3Gi"),
        [card_pod("p-0", "job", on="n"), card_pod("p-1", "job", None, "2c+1Gi", on="n")],
        unlimited=True,
    )
    assert found.allocated == {CPU: 2000.0, MEMORY: 2.0**30, H200: 1000.0}


def test_a_queue_without_capability_is_limited_by_the_guarantees_of_others() -> None:
    free, other = quota_queue("q", {}), quota_queue("other", {}, guarantee="4c")
    assert books(gpu_node("n"), free).limits == {CPU: float("inf"), MEMORY: float("inf")}
    assert books(gpu_node("n"), free, other).limits == {CPU: 60_000.0, MEMORY: float("inf")}
    assert books(gpu_node("n"), quota_queue("q", {}, "100c"), other).limits[CPU] == 100_000.0


def test_accounts_are_cached_until_the_job_or_the_cards_change() -> None:
    world = World(gpu_node("n"), quota_queue("q", {H200: 4}), card_group("job", "q"), card_pod("p", "job", on="n"))
    first = plugin(world.session(CONFIGURATION))._accounts
    again = plugin(world.session(CONFIGURATION))._accounts
    assert again["default/job"] is first["default/job"]
    other = plugin(world.session(UNLIMITED))._accounts
    assert other["default/job"] is not first["default/job"]


def test_the_minimum_takes_as_many_of_each_role_as_the_job_needs() -> None:
    roles = {"master": 1, "worker": 2}
    waiting = card_group("job", "q", 3, roles=roles, phase="Inqueue")
    pods = [
        card_pod("m", "job", None, "1c+1Gi", role="master"),
        *(card_pod(f"a-w-{i}", "job", role="worker") for i in range(4)),
        card_pod("gated", "job", role="worker", gated=True),
    ]
    assert books(gpu_node("n"), quota_queue("q", {H200: 9}), waiting, pods).inqueue[H200] == 2000.0


def test_gated_pods_reserve_nothing() -> None:
    waiting = card_group("job", "q", 2, asks="2c+2Gi", phase="Inqueue")
    pods = [card_pod("p", "job"), card_pod("gated", "job", gated=True)]
    found = books(gpu_node("n"), quota_queue("q", {H200: 9}), waiting, pods)
    assert (found.inqueue[CPU], found.inqueue[H200]) == (1000.0, 1000.0)


@given(
    st.lists(st.tuples(st.sampled_from([D4090, D4090D, f"{D4090}|{D4090D}", None]), st.integers(1, 4)), max_size=5),
    st.integers(0, 6),
    st.integers(0, 6),
    st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_no_session_exceeds_the_quota_and_the_next_session_computes_the_same_books(
    jobs: list[tuple[str | None, int]], first: int, second: int, unlimited: bool
) -> None:
    configuration = UNLIMITED if unlimited else CONFIGURATION
    queue = quota_queue("q", {D4090: first, D4090D: second})
    objects: list[Raw] = []
    for i, (card, number) in enumerate(jobs):
        objects.append(card_group(f"job-{i}", "q", number, phase="Inqueue"))
        objects += [card_pod(f"job-{i}-{k}", f"job-{i}", card) for k in range(number)]
    world = World(gpu_node("a", D4090, 4), gpu_node("b", D4090D, 4), queue, objects).run(configuration)
    assert world.outcome is not None
    after = plugin(world.outcome.session)._books["q"].allocated
    opened = plugin(world.session(configuration))._books["q"].allocated
    assert {k: v for k, v in after.items() if v} == {k: v for k, v in opened.items() if v}
    assert after.get(D4090, 0) <= first * 1000
    assert after.get(D4090D, 0) <= second * 1000


def test_pods_beyond_the_admitted_minimum_reserve_nothing() -> None:
    waiting = [card_pod(f"p{i}", "g") for i in range(3)]
    world = World(gpu_node("n1"), quota_queue("q", {H200: 8}), card_group("g", "q", 3), waiting)
    job = world.session(CONFIGURATION).jobs["default/g"]
    assert len(minimum_tasks(job)) == 3
    job.admission = AdmissionRecord("q", 2, None)
    assert len(minimum_tasks(job)) == 2
