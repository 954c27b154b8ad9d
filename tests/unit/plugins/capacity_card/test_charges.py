"""A Pod is charged to the queue that admitted it, until it ends."""

from collections.abc import Callable

import pytest

from scheduler.api.names import BINDING_RECORD, CARD_NAME, EVENT_CHARGED_QUEUE, GROUP_NAME
from scheduler.api.signed_records import SigningKey
from scheduler.framework.extension import QUEUE_USAGE
from scheduler.framework.figures import QueueUsage
from tests.builders import Raw, configuration
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    D4090,
    D4090D,
    GPU,
    H200,
    H800,
    PLUGINS,
    card_group,
    card_pod,
    gang,
    gpu_node,
    insufficient,
    quota_queue,
)
from tests.unit.plugins.capacity_card.histories import History

PREEMPTING = configuration(*PLUGINS, actions="enqueue, allocate, preempt, backfill")
IMPORTANT: Raw = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 9,
}
NODES = [gpu_node("a", H200, 1), gpu_node("b", H200, 1)]
Rewrite = Callable[[History], None]


def one_card_in_use(*more: Raw | list[Raw]) -> History:
    """Queue ``q`` may have one H200, and Pod ``old-0`` runs on it."""
    history = History(NODES, quota_queue("q", {H200: 1}), gang("old", "q", 1), *more)
    assert history.cycle() == {"old-0": "a"}
    return history


def bind_another(history: History) -> dict[str, str]:
    """Creates a second Pod for the queue; returns the bindings of two sessions."""
    history.create(gang("new", "q", 1))
    return history.cycle() | history.cycle()


# --- until it holds nothing ---
def test_a_terminating_pod_is_charged_until_it_is_deleted() -> None:
    history = one_card_in_use()
    history.terminate("old-0")
    assert bind_another(history) == {}
    history.gone("old-0")
    assert set(history.cycle()) == {"new-0"}


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminating_pod_whose_containers_have_ended_is_not_charged(phase: str) -> None:
    history = one_card_in_use()
    history.terminate("old-0")
    history.finish("old-0", phase)
    assert set(bind_another(history)) == {"new-0"}


def test_a_pod_of_unknown_phase_is_charged() -> None:
    history = one_card_in_use()
    history.finish("old-0", "Unknown")
    assert bind_another(history) == {}


def test_cards_of_a_terminating_pod_are_pipelined_on_its_node_only() -> None:
    history = one_card_in_use(quota_queue("other", {H200: 1}))
    history.terminate("old-0")
    history.create(gang("new", "q", 1))
    assert history.cycle() == {}
    assert "can possibly be assigned to a, once resource is released" in history.message_of("new-0")
    history.create(gang("theirs", "other", 1))
    assert history.cycle() == {"theirs-0": "b"}


@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "enqueue, allocate, preempt, reclaim, backfill"])
def test_a_pod_that_cannot_use_a_terminating_pods_node_gets_the_numbers(actions: str) -> None:
    history = one_card_in_use()
    history.terminate("old-0")
    history.label("b", "pool", "x")
    other_queues = card_pod("new-0", "new", selector={"pool": "x"})
    history.create(card_group("new", "q", phase="Inqueue"), other_queues)
    assert history.cycle(configuration(*PLUGINS, ["predicates"], actions=actions)) == {}
    assert history.message_of("new-0") == insufficient("q", H200, 1000, 2000, 1000)
    assert not history.evicted


def test_a_gang_binds_nothing_while_one_of_its_cards_is_held_by_a_terminating_pod() -> None:
    history = History([gpu_node("a", H200, 4)], quota_queue("q", {H200: 3}), gang("one", "q", 1), gang("two", "q", 1))
    assert set(history.cycle()) == {"one-0", "two-0"}
    history.terminate("one-0")
    history.create(gang("new", "q", 2))
    assert history.cycle() == {}
    assert history.held()["q", H200] == 2
    history.gone("one-0")
    assert set(history.cycle()) == {"new-0", "new-1"}


def test_of_alternative_cards_the_one_without_terminating_pods_is_used() -> None:
    nodes = [gpu_node("a", D4090, 2), gpu_node("b", D4090D, 2)]
    history = History(nodes, quota_queue("q", {D4090: 1, D4090D: 1}), gang("old", "q", 1, D4090))
    assert history.cycle() == {"old-0": "a"}
    history.terminate("old-0")
    history.create(gang("new", "q", 1, f"{D4090}|{D4090D}"))
    assert history.cycle() == {"new-0": "b"}


def test_a_gang_with_alternative_cards_waits_for_terminating_pods_and_is_bound_completely() -> None:
    nodes = [gpu_node("a", D4090, 2), gpu_node("b", D4090D, 2)]
    history = History(nodes, quota_queue("q", {D4090: 1, D4090D: 1}), gang("old", "q", 1, D4090))
    assert history.cycle() == {"old-0": "a"}
    history.terminate("old-0")
    history.create(gang("new", "q", 2, f"{D4090}|{D4090D}"))
    assert history.cycle() | history.cycle() == {}
    history.gone("old-0")
    assert history.cycle() == {"new-0": "a", "new-1": "b"}


def test_cpu_and_memory_of_terminating_pods_are_charged_too() -> None:
    cpu_only = card_pod("old-0", "old", None, "2c+2Gi")
    history = History(NODES, quota_queue("q", {}, "3c+9Gi"), card_group("old", "q", phase="Inqueue"), cpu_only)
    assert history.cycle() == {"old-0": "a"}
    history.terminate("old-0")
    history.create(card_group("new", "q", phase="Inqueue"), card_pod("new-0", "new", None, "2c+2Gi"))
    assert history.cycle() == {}
    history.gone("old-0")
    assert set(history.cycle()) == {"new-0"}


def test_preemption_within_a_queue_pipelines_and_binds_after_the_victim_is_deleted() -> None:
    history = History(
        [gpu_node("a", H200, 2), gpu_node("b", H200, 2)],
        quota_queue("q", {H200: 2}),
        IMPORTANT,
        card_group("old", "q", 1, phase="Inqueue"),
        [card_pod(f"old-{i}", "old") for i in range(2)],
    )
    assert set(history.cycle(PREEMPTING) | history.cycle(PREEMPTING)) == {"old-0", "old-1"}
    urgent = card_group("urgent", "q", 1, phase="Inqueue", priority_class="high")
    history.create(urgent, card_pod("urgent-0", "urgent"))
    assert history.cycle(PREEMPTING) == {}
    (victim,) = history.evicted
    history.create(gang("late", "q", 1))
    for _ in range(3):  # no other Pod is evicted or placed before it
        assert history.cycle(PREEMPTING) == {}
        assert not history.evicted
    history.gone(victim)
    assert set(history.cycle(PREEMPTING)) == {"urgent-0"}
    assert history.held()["q", H200] == 2


def test_the_cards_of_terminating_pods_are_shown_as_used() -> None:
    history = one_card_in_use()
    history.terminate("old-0")
    session = history.session(CONFIGURATION)
    (usage,) = session.ask(QUEUE_USAGE, session.queues["q"])
    assert list(usage) == [H200]
    assert usage[H200][:4] == QueueUsage(1000.0, 1000.0, requested=1000.0)[:4]
    assert usage[H200].online == 0.0


# --- to the queue that admitted it ---
def move_pod_group(history: History) -> None:
    history.move("old", "other")


def move_pod(history: History) -> None:
    history.create(card_group("elsewhere", "other", phase="Inqueue"))
    history.annotate("old-0", GROUP_NAME, "elsewhere")


def remove_pod_from_group(history: History) -> None:
    history.annotate("old-0", GROUP_NAME, None)


def delete_pod_group(history: History) -> None:
    history.delete_group("old")


def recreate_pod_group_in_another_queue(history: History) -> None:
    history.delete_group("old")
    history.cycle()
    history.create(card_group("old", "other", phase="Inqueue"))


def name_another_card(history: History) -> None:
    history.annotate("old-0", CARD_NAME, H800)
    for key in ("product", "count", "memory"):
        history.label("a", f"{GPU}.{key}", None)


def move_and_terminate_slowly(history: History) -> None:
    history.move("old", "other")
    history.terminate("old-0")


REWRITES = [
    move_pod_group,
    move_pod,
    remove_pod_from_group,
    delete_pod_group,
    recreate_pod_group_in_another_queue,
    name_another_card,
    move_and_terminate_slowly,
]


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and a restart"])
@pytest.mark.parametrize("rewrite", REWRITES)
def test_rewriting_objects_of_a_running_pod_frees_no_quota(rewrite: Rewrite, restarted: bool) -> None:
    history = one_card_in_use(quota_queue("other", {H200: 1, H800: 1}))
    rewrite(history)
    if restarted:
        history.restart()
    assert bind_another(history) == {}
    history.gone("old-0")
    assert set(history.cycle()) == {"new-0"}


@pytest.mark.parametrize("rewrite", [r for r in REWRITES if r is not name_another_card])
def test_a_pod_does_not_count_in_the_queue_it_was_moved_to(rewrite: Rewrite) -> None:
    history = one_card_in_use(quota_queue("other", {H200: 1, H800: 1}))
    rewrite(history)
    history.create(gang("theirs", "other", 1))
    assert set(history.cycle()) == {"theirs-0"}


def test_cpu_of_a_moved_pod_stays_charged() -> None:
    cpu_only = card_pod("old-0", "old", None, "2c+2Gi")
    queues = [quota_queue("q", {}, "3c+9Gi"), quota_queue("other", {}, "9c+9Gi")]
    history = History(NODES, queues, card_group("old", "q", phase="Inqueue"), cpu_only)
    assert history.cycle() == {"old-0": "a"}
    history.move("old", "other")
    history.restart()
    history.create(card_group("new", "q", phase="Inqueue"), card_pod("new-0", "new", None, "2c+2Gi"))
    assert history.cycle() == {}


def test_the_charge_survives_the_deletion_of_the_queue() -> None:
    history = one_card_in_use(quota_queue("other", {H200: 1}))
    history.delete_queue("q")
    history.move("old", "other")
    history.cycle()
    history.create(quota_queue("q", {H200: 1}))
    assert bind_another(history) == {}


def test_what_a_moved_job_holds_in_another_queue_is_not_elastic_in_its_new_queue() -> None:
    history = one_card_in_use(quota_queue("other", {H200: 1}))
    history.create(gang("theirs", "other", 1))
    history.cycle()
    history.move("old", "other")
    history.create(card_group("more", "other", 1, {H200: 1}, asks="1c+1Gi"))
    history.cycle()
    assert history.phase("more") == "Pending"


def test_an_event_names_the_charged_queue_and_amounts_once() -> None:
    history = one_card_in_use(quota_queue("other", {H200: 1}))
    move_pod_group(history)
    history.cycle()
    assert history.malformed == [
        "PodGroup old spec.queue: queue <other> did not admit all running Pods of the PodGroup"
    ]
    (event,) = [text for text in history.events(EVENT_CHARGED_QUEUE) if "admit" in text]
    assert "queue <q>, which admitted some, is charged for these until they end" in event
    assert f"<{H200}> 1000, <cpu> 1000" in event


def test_fewer_charged_pods_cause_no_new_event() -> None:
    history = History([gpu_node("a")], quota_queue("q", {H200: 2}), quota_queue("other", {}), gang("old", "q", 2))
    history.cycle()
    move_pod_group(history)
    history.cycle()
    assert history.outcome is not None
    (before,) = history.outcome.malformed
    history.finish("old-0")
    history.cycle()
    (after,) = history.outcome.malformed
    assert before == after
    assert before.message != after.message


def test_an_event_on_a_pod_without_a_pod_group_names_the_charged_queue() -> None:
    history = one_card_in_use()
    delete_pod_group(history)
    history.cycle()
    assert history.malformed == [f"Pod old-0 metadata.annotations[{GROUP_NAME}]: PodGroup default/old does not exist"]


def test_pods_that_terminate_with_their_pod_group_cause_no_event() -> None:
    history = one_card_in_use()
    delete_pod_group(history)
    history.terminate("old-0")
    history.cycle()
    assert history.malformed == []


# --- without a record ---
def test_a_pod_of_an_earlier_version_is_charged_to_the_queue_of_its_group() -> None:
    running = card_pod("old-0", "old", on="a")
    history = History(NODES, quota_queue("q", {H200: 1}), card_group("old", "q", phase="Running"), running)
    history.cluster.cache.set_signing_key(SigningKey(b"k" * 32, history.cluster.now + 60))
    assert bind_another(history) == {}
    assert history.malformed == []


@pytest.mark.parametrize("record", [None, "{}"], ids=["removed", "forged"])
@pytest.mark.parametrize("rewrite", [move_pod_group, move_pod, delete_pod_group])
def test_a_pod_whose_record_was_removed_is_charged_to_all_queues_of_its_namespace(
    rewrite: Rewrite, record: str | None
) -> None:
    history = one_card_in_use(quota_queue("other", {H200: 1}))
    rewrite(history)
    history.annotate("old-0", BINDING_RECORD, record)
    assert bind_another(history) == {}  # it is remembered
    history.restart()
    assert history.cycle() == {}
    assert any(BINDING_RECORD in text and "is not known" in text for text in history.malformed)
    history.create(gang("theirs", "other", 1))
    assert history.cycle() == {}
    history.gone("old-0")
    assert history.cycle()
