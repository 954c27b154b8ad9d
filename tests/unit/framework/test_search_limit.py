"""Many different Pods of one namespace that fit nowhere: sessions try them in turns, and Pods of other namespaces do
not wait."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, run_cycle
from scheduler.framework.search_limit import FIRST_COST, TURN_COST, PastSearches, SearchLimit
from scheduler.record.replay import replay
from tests.builders import NAME, Raw, World, configuration, feed, group, manifests, node, pod, pods, queue
from tests.unit.record.test_recording import Recorded

LIMIT = FIRST_COST + TURN_COST
MANY = 2 * LIMIT
CONF = configuration(["priority", "gang"], ["predicates", "nodeorder"], actions="allocate, backfill")
EVICTING = configuration(
    ["priority", "gang", "conformance"], ["predicates", "proportion", "nodeorder"], actions="allocate, preempt, reclaim"
)
GANGS = configuration(
    ["priority", "gang", "conformance"], ["predicates", "proportion"], actions="allocate, gangpreempt, gangreclaim"
)
NOT_TRIED = (
    f"not tried yet: a session tries at most {LIMIT} different Pods of namespace tenant that fit nowhere; the next "
    "sessions try the others"
)


def roomy(allocatable: str) -> Raw:
    """A node for many Pods."""
    found = node("n", allocatable)
    found["status"]["allocatable"]["pods"] = "5000"
    return found


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


class Sessions:
    """Sessions whose decisions are assumed and not carried out."""

    def __init__(self, *objects: Raw | list[Raw], plan: Configuration = CONF) -> None:
        self.cache = World(*objects).cluster.cache
        self.plan = plan
        self.now = 1000.0
        self.bound: list[str] = []
        self.evicted: list[str] = []
        self.reasons: dict[str, str] = {}
        self.outcome: Outcome

    def run(self, number: int = 1) -> "Sessions":
        for _ in range(number):
            self.now += 1
            self.outcome = run_cycle(self.cache.snapshot(self.now), self.plan)
            decisions = self.outcome.decisions
            self.cache.assume(decisions)
            self.bound += [bind.task.name for bind in decisions.binds]
            self.evicted += [eviction.task.name for eviction in decisions.evictions]
            self.reasons |= {task.name: update.message for update in decisions.pods for task in update.tasks}
        return self

    def until(self, done: Callable[[], bool], most: int = 10) -> int:
        for number in range(1, most + 1):
            self.run()
            if done():
                return number
        raise AssertionError((self.bound, self.evicted))

    def not_tried(self) -> set[str]:
        return {name for name, reason in self.reasons.items() if reason == NOT_TRIED}

    @property
    def left_out(self) -> bool:
        return self.outcome.session.once(SearchLimit).left_out

    @property
    def has_more_turns(self) -> bool:
        return self.outcome.session.once(SearchLimit).has_more_turns


def lone(name: str, asks: str, *, namespace: str = "tenant", queue: str = "default", **spec: Any) -> list[Raw]:
    """A PodGroup of one Pod. PodGroups come in the order of names; with a priority, before those without."""
    made = group(name, queue, phase="Inqueue", priority_class="high" if "priority" in spec else "")
    return within(made, pod(name, asks, name, **spec), namespace=namespace)


def within(*objects: Raw, namespace: str = "tenant") -> list[Raw]:
    return [{**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in objects]


def misfits(number: int, **rest: Any) -> list[Raw]:
    """This number of different Pods, none of which fits on a node."""
    return [each for i in range(number) for each in lone(f"m{i:04d}", f"{1 + i}m", selector={"no": "node"}, **rest)]


def test_a_session_tries_a_limited_number_of_different_pods_that_fit_nowhere() -> None:
    sessions = Sessions(node("n", "8c+8Gi"), misfits(MANY)).run()

    assert len(sessions.reasons) == MANY
    assert len(sessions.not_tried()) == MANY - LIMIT
    assert sessions.left_out and sessions.has_more_turns


def test_the_others_are_tried_in_the_next_sessions_until_each_had_its_turn() -> None:
    sessions = Sessions(node("n", "8c+8Gi"), misfits(MANY)).run()
    counts = [len(sessions.run().not_tried()) for _ in range((MANY - LIMIT) // TURN_COST)]

    assert counts == [MANY - LIMIT - TURN_COST * i for i in range(1, len(counts) + 1)]
    assert counts[-1] == 0
    assert sessions.left_out and not sessions.has_more_turns, "the next session need not come before something changes"
    assert all("didn't match Pod's node affinity/selector" in reason for reason in sessions.reasons.values())


def test_pods_that_are_not_tried_again_keep_their_reason_and_nothing_is_written() -> None:
    sessions = Sessions(node("n", "8c+8Gi"), misfits(MANY)).run(8)
    for _ in range(4):
        sessions.run()
        assert not sessions.outcome.decisions.pods
        assert not sessions.outcome.decisions.events


def test_the_pods_of_other_namespaces_are_bound_in_the_first_session() -> None:
    sessions = Sessions(node("n", "8c+8Gi"), misfits(MANY), lone("other", "1c", namespace="other")).run()

    assert sessions.bound == ["other"]


def test_a_pod_that_fits_has_its_turn_behind_many_that_do_not() -> None:
    sessions = Sessions(node("n", "8c+8Gi"), misfits(MANY), lone("z", "1c"))

    assert 1 < sessions.until(lambda: "z" in sessions.bound) <= 1 + (MANY - LIMIT) // TURN_COST + 1


def test_the_first_in_order_are_tried_in_each_session() -> None:
    sessions = Sessions(HIGH, node("n", "8c+8Gi"), misfits(MANY), lone("urgent", "100c", priority=9)).run(2)
    feed(sessions.cache, node("large", "100c+100Gi"))
    sessions.run()

    assert sessions.bound == ["urgent"]


def test_a_new_node_is_found_by_each_of_many_pods() -> None:
    sessions = Sessions(roomy("8c+8Gi"), misfits(MANY)).run(3)
    feed(sessions.cache, {**roomy("999c+8Gi"), "metadata": {"name": "new", "labels": {"no": "node"}}})

    sessions.until(lambda: len(sessions.bound) == MANY)


def test_pods_that_fit_cost_nothing() -> None:
    fitting = [each for i in range(MANY) for each in lone(f"f{i:04d}", f"{1 + i}m")]
    sessions = Sessions(roomy("999c+8Gi"), fitting).run()

    assert len(sessions.bound) == MANY


def test_equal_pods_count_once() -> None:
    equal = [each for i in range(MANY) for each in lone(f"e{i:04d}", "100c")]
    sessions = Sessions(node("n", "8c+8Gi"), equal, misfits(LIMIT - 1)).run()

    assert not sessions.not_tried()


def test_a_large_spec_costs_more_even_if_the_pod_fits() -> None:
    def large(i: int) -> list[Raw]:
        tolerations = [{"key": f"k{i}-{j}", "operator": "Exists", "effect": "NoSchedule"} for j in range(300)]
        name = f"l{i:02d}"
        return within(group(name, phase="Inqueue"), pod(name, "1m", name, tolerations=tolerations))

    sessions = Sessions(node("n", "8c+8Gi"), [each for i in range(60) for each in large(i)]).run()

    assert 10 < len(sessions.bound) < 50
    sessions.until(lambda: len(sessions.bound) == 60)


def test_the_pods_of_one_group_have_turns_too() -> None:
    members = [pod(f"m-{i}", f"{100 + i}c", "g") for i in range(MANY)]
    last = pod("m-9999", "1c", "g")
    sessions = Sessions(node("n", "8c+8Gi"), within(group("g", phase="Inqueue"), *members, last))
    sessions.until(lambda: sessions.bound == ["m-9999"])


def test_a_gang_of_many_different_pods_is_placed_at_once() -> None:
    members = [pod(f"z-{i}", f"{10 + i}m", "z") for i in range(LIMIT + 50)]
    gang = within(group("z", minimum=len(members), phase="Inqueue"), *members)
    sessions = Sessions(roomy("99c+8Gi"), misfits(MANY), gang)
    sessions.until(lambda: len(sessions.bound) == len(members))


def test_a_gang_of_large_different_pods_is_placed_although_equal_pods_had_their_turn() -> None:
    def large(i: int) -> list[Raw]:
        return [{"key": f"k{i}-{j}", "operator": "Exists", "effect": "NoSchedule"} for j in range(300)]

    members = [pod(f"z-{i}", "1m", "z", tolerations=large(i)) for i in range(30)]
    gang = within(group("z", minimum=29, phase="Inqueue"), *members)
    single = lone("n", "100c", tolerations=large(0))
    sessions = Sessions(roomy("99c+8Gi"), misfits(MANY), single, gang)
    sessions.until(lambda: len(sessions.bound) >= 29)


def test_a_huge_spec_does_not_hold_up_its_namespace() -> None:
    tolerations = [{"key": f"k{j}", "operator": "Exists", "effect": "NoSchedule"} for j in range(10_000)]
    huge = lone("a", "1m", selector={"no": "node"}, tolerations=tolerations)
    sessions = Sessions(node("n", "8c+8Gi"), huge, misfits(10), lone("z", "1m")).run(2)

    assert sessions.bound == ["z"]


def test_what_failed_gangs_give_back_counts() -> None:
    def pair(i: int) -> list[Raw]:
        name = f"g{i:04d}"
        members = [pod(f"{name}-{j}", asks, name) for j, asks in enumerate((f"{1 + i}m", "100c"))]
        return within(group(name, minimum=2, phase="Inqueue"), *members)

    sessions = Sessions(node("n", "8c+8Gi"), [each for i in range(MANY) for each in pair(i)]).run()

    assert any("not tried yet" in reason for reason in sessions.reasons.values())


@pytest.mark.parametrize("plan", [EVICTING, GANGS])
def test_pods_that_must_preempt_others_have_turns(plan: Configuration) -> None:
    running = [group("low", phase="Running"), *pods("low", 8, "1c", "low", on="n")]
    waiting = misfits(MANY, priority=9), lone("z", "2c", priority=9)
    sessions = Sessions(HIGH, node("n", "8c+8Gi"), running, *waiting, plan=plan)

    assert sessions.until(lambda: bool(sessions.evicted)) > 1


@pytest.mark.parametrize("plan", [EVICTING, GANGS])
def test_pods_that_must_reclaim_have_turns(plan: Configuration) -> None:
    running = [group("low", "a", phase="Running"), *pods("low", 8, "1c", "low", on="n")]
    waiting = misfits(MANY, queue="b"), lone("z", "2c", queue="b")
    sessions = Sessions(queue("a"), queue("b"), node("n", "8c+8Gi"), running, *waiting, plan=plan)

    assert sessions.until(lambda: bool(sessions.evicted)) > 1


@pytest.mark.parametrize("plan", [EVICTING, GANGS], ids=["reclaim", "gangreclaim"])
def test_different_pods_for_which_evictions_make_room_cost_nothing(plan: Configuration) -> None:
    number = LIMIT + 20
    running = [
        each
        for i in range(2 * number)
        for each in (group(f"low-{i}", "a", phase="Running"), pod(f"low-{i}", "1c", f"low-{i}", on="n"))
    ]
    waiting = [each for i in range(number) for each in lone(f"r{i:04d}", f"1c+{i + 1}Mi", queue="b")]
    sessions = Sessions(queue("a"), queue("b"), roomy(f"{2 * number}c+100Gi"), running, *waiting, plan=plan)

    assert len(sessions.run().evicted) == number


def test_best_effort_pods_have_turns() -> None:
    def best_effort(name: str, selector: dict[str, str]) -> list[Raw]:
        return within(group(name, phase="Inqueue"), pod(name, "", name, nodeSelector=selector))

    misfitting = [each for i in range(MANY) for each in best_effort(f"m{i:04d}", {f"k{i}": "v"})]
    sessions = Sessions(node("n", "8c+8Gi"), misfitting, best_effort("z", {})).run()

    assert len(sessions.not_tried()) == MANY + 1 - LIMIT
    sessions.until(lambda: sessions.bound == ["z"])


def test_reasons_that_are_no_lack_of_nodes_are_kept_too() -> None:
    """Pods that fit nowhere come first in each session; then Pods that the quota of their queue refuses, and gangs with
    one Pod too few."""
    quota = [each for i in range(MANY) for each in lone(f"q{i:04d}", f"{2 + i}c", queue="q")]
    members = [pod(f"z-{i}", "1m", "z", selector={"no": "node"} if i else {}) for i in range(2)]
    gang = within(group("z", minimum=2, phase="Inqueue"), *members)
    plan = configuration(["priority", "gang"], ["predicates", "capacity"], actions="allocate")
    limited = queue("q", capability="1c+1Gi")
    sessions = Sessions(node("n", "8c+8Gi"), limited, queue("default"), misfits(MANY), quota, gang, plan=plan).run(12)
    reasons = dict(sessions.reasons)

    for _ in range(8):
        sessions.run()
        assert not sessions.outcome.decisions.pods
        assert not sessions.outcome.decisions.events

    assert "limit 1" in reasons["q0500"] and "possibly be assigned" in reasons["z-0"]
    assert not sessions.not_tried()


def test_nothing_is_kept_for_namespaces_within_the_limit() -> None:
    sessions = Sessions(node("n", "8c+8Gi"), misfits(LIMIT)).run()
    kept = sessions.cache.memory.memo(PastSearches, (), lambda _: PastSearches())

    assert (kept.turns, kept.reasons) == ({}, {})
    assert not sessions.left_out


def test_explain_tries_the_pod_that_it_is_about() -> None:
    simulation = Simulation(manifests(node("n", "8c+8Gi"), misfits(MANY)), CONF, [NAME])

    text = str(explain(simulation, "pod", "tenant", f"m{MANY - 1:04d}", search=False))

    assert "didn't match Pod's node affinity/selector" in text
    assert "not tried yet" not in text


@pytest.mark.parametrize("limit", [1 << 30, 1])
def test_a_replay_of_sessions_beyond_the_limit_decides_the_same(tmp_path: Path, limit: int) -> None:
    """With ``limit`` 1, each session begins a new file, which is replayed without the results of earlier sessions."""
    recorded = Recorded(tmp_path, node("n", "8c+8Gi"), misfits(MANY), limit=limit, plan=CONF)
    for _ in range(4):
        recorded.run()

    sessions = [session for file in recorded.files for session in replay(file)]

    assert sessions and all(session.same for session in sessions), [session.differences for session in sessions]
