"""What is written again, and what is held back for a while."""

from itertools import chain

from scheduler.api.decisions import Decisions, QueueAllocated
from scheduler.cluster.kube.scheduler.status_throttle import StatusThrottle
from tests.builders import World, configuration, group, node, pod

CONF = configuration(["gang"], ["predicates"])


def decided(cpu: str) -> Decisions:
    """What a session decides of a gang that does not fit, with so much free."""
    world = World(node("n", cpu), group("g", minimum=2), pod("p0", "4c", "g"), pod("p1", "4c", "g"))
    return world.run(CONF).decisions


def messages(decisions: Decisions) -> list[str]:
    return [update.message for update in decisions.pods] + [
        c.message for g in decisions.pod_groups for c in g.conditions
    ]


def pods_of(decisions: Decisions) -> list[str]:
    return [task.name for update in decisions.pods for task in update.tasks]


def test_the_first_word_is_written() -> None:
    decisions = decided("1c")
    before = messages(decisions)

    StatusThrottle().throttle(decisions, 0.0)

    assert messages(decisions) == before
    assert pods_of(decisions) == ["p0", "p1"] and len(decisions.events) == 1
    assert [event.about.name for update in decisions.pods for event in update.events()] == ["p0", "p1"]


def test_other_numbers_are_held_back_with_their_events_and_written_later() -> None:
    damper = StatusThrottle(hold=30.0)
    damper.throttle(decided("1c"), 0.0)
    soon, later = decided("2c"), decided("3c")

    damper.throttle(soon, 29.0)
    damper.throttle(later, 31.0)

    assert messages(soon) == [] and soon.events == []
    assert "most free on one node 3" in messages(later)[0]


def test_another_reason_is_written_at_once() -> None:
    damper = StatusThrottle()
    damper.throttle(decided("1c"), 0.0)
    other = World(
        node("n", "9c", unschedulable=True), group("g", minimum=2), pod("p0", "4c", "g"), pod("p1", "4c", "g")
    )
    decisions = other.run(CONF).decisions

    damper.throttle(decisions, 1.0)

    assert "node(s) were unschedulable" in messages(decisions)[0]


def test_an_admission_with_something_else_is_written_at_once() -> None:
    damper = StatusThrottle(hold=30.0)
    for moment, asks in ((0.0, "1c"), (1.0, "2c")):
        decisions = World(node("n", "4c"), group("g", asks=asks)).run(CONF).decisions
        damper.throttle(decisions, moment)
        assert [update.phase for update in decisions.pod_groups] == ["Inqueue"]


def test_a_session_writes_a_limited_number_of_new_statuses_and_the_next_ones_the_others() -> None:
    """As with ten thousand Pods of an autoscaler that the quota of their queue refuses."""
    damper = StatusThrottle(limit=3)
    lone = [[group(f"g{i}", phase="Inqueue"), pod(f"p{i}", "4c", f"g{i}")] for i in range(8)]
    written: list[set[str]] = []
    for now in range(4):
        decisions = World(node("n", "1c"), *lone).run(CONF).decisions  # nothing of the sessions before was carried out
        damper.throttle(decisions, float(now))
        pods = set(pods_of(decisions))
        assert len(decisions.pod_groups) == len(pods)
        written.append(pods)
    assert [len(pods) for pods in written] == [3, 3, 2, 0] and len(set.union(*written)) == 8


def test_the_event_of_a_group_that_is_ready_waits_for_its_status() -> None:
    throttle = StatusThrottle(limit=1)
    ready = [[group(f"g{i}"), pod(f"p{i}", "1c", f"g{i}", on="n", phase="Pending")] for i in range(3)]
    for now in range(2):
        decisions = World(node("n", "4c"), *ready).run(CONF).decisions
        assert len(decisions.events) == 3
        throttle.throttle(decisions, float(now))
        (written,) = decisions.pod_groups
        assert [(event.reason, event.about.name) for event in decisions.events] == [("Scheduled", written.name)]


def test_the_limit_does_not_concern_nominated_nodes() -> None:
    decisions = decided("1c")
    decisions.pods = [update._replace(nominated="n") for update in decisions.pods]
    StatusThrottle(limit=1).throttle(decisions, 0.0)
    assert pods_of(decisions) == ["p0", "p1"]


def test_the_limit_does_not_concern_admissions_and_running_jobs() -> None:
    waiting = [[group(f"g{i}", minimum=1), pod(f"p{i}", "1c", f"g{i}")] for i in range(3)]
    decisions = World(node("n", "4c"), *waiting).run(configuration(["gang"], ["predicates"])).decisions
    StatusThrottle(limit=1).throttle(decisions, 0.0)
    assert len(decisions.binds) == 3 and len(decisions.pod_groups) == 3


def test_bindings_are_never_held_back() -> None:
    damper = StatusThrottle()
    for now in (0.0, 1.0):
        decisions = decided("8c")
        damper.throttle(decisions, now)
        assert len(decisions.binds) == 2


def test_statuses_of_queues_are_written_once_per_period() -> None:
    throttle = StatusThrottle(period=1.0)
    first, early, later = decided("1c"), decided("1c"), decided("1c")
    for decisions, now in ((first, 0.0), (early, 0.5), (later, 1.0)):
        decisions.queues = [QueueAllocated("default", {"cpu": "1"})]
        assert throttle.throttle(decisions, now) is (decisions is early)
    assert (len(first.queues), len(early.queues), len(later.queues)) == (1, 0, 1)


def test_a_status_that_differs_only_in_what_the_queue_deserves_waits_for_some_seconds() -> None:
    throttle = StatusThrottle()
    written, waits = [], []
    for now, only_deserved in ((0.0, True), (1.0, True), (2.0, False), (11.0, True), (12.0, True)):
        decisions = Decisions(
            queues=[QueueAllocated("default", {}, deserved={"cpu": "1"}, only_deserved=only_deserved)]
        )
        waits.append(throttle.throttle(decisions, now))
        written.append(len(decisions.queues))
    assert written == [1, 0, 1, 0, 1]
    assert waits == [False, True, False, True, False]


def test_the_limit_applies_to_all_sessions_of_a_period() -> None:
    throttle = StatusThrottle(limit=2, period=1.0)
    written = []
    for now in (0.0, 0.5, 1.0):
        decisions = decided("1c")
        for task in chain.from_iterable(update.tasks for update in decisions.pods):
            task.uid += f"-{now}"
        throttle.throttle(decisions, now)
        written.append(len(pods_of(decisions)))
    assert written == [2, 0, 2]
