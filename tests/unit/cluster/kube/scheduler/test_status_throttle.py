"""The statuses that are written again, and the statuses that are held back for a while."""

from itertools import chain

from scheduler.api.decisions import Decisions, QueueAllocated
from scheduler.api.kinds import POD
from scheduler.cluster.kube.scheduler.status_throttle import StatusThrottle
from scheduler.framework.cycle import run_cycle
from tests.builders import World, configuration, group, node, pod

CONF = configuration(["gang"], ["predicates"])


def decided(cpu: str) -> Decisions:
    """The decisions of a session about a gang that does not fit, with this amount free."""
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


class Steps:
    """A gang of three in its queue, of which so many Pods exist, and the throttle of its scheduler."""

    def __init__(self, cpu: str = "8c") -> None:
        self.world = World(node("n", cpu), group("g", minimum=3, phase="Inqueue"))
        self._cache = self.world.cluster.cache
        self.throttle = StatusThrottle()
        self.waits = False
        """Whether statuses wait for further steps."""

    def session(self, pods: int, now: float) -> Decisions:
        """Runs a session and returns its writes; only bindings and these writes are assumed."""
        for i in range(pods):
            if self._cache.task(f"default/p{i}") is None:
                self.world.cluster.server.create(POD, pod(f"p{i}", "4c" if i > 1 else "1c", "g"))
        outcome = run_cycle(self._cache.snapshot(now), CONF)
        outcome.decisions.queues = []
        self.waits = self.throttle.throttle(outcome.decisions, now, outcome.session.active_jobs)
        self._cache.assume(outcome.decisions)
        return outcome.decisions


def test_nothing_is_written_about_a_gang_while_its_pods_are_being_created() -> None:
    gang = Steps()
    for pods, now in ((1, 0.0), (2, 0.9)):
        decisions = gang.session(pods, now)
        assert messages(decisions) == [] and decisions.events == [] and gang.waits
    decisions = gang.session(3, 1.2)
    assert len(decisions.binds) == 3 and messages(decisions) == []


def test_a_gang_of_which_no_further_pod_comes_is_reported() -> None:
    gang = Steps()
    gang.session(2, 0.0)
    gang.session(2, 0.9)
    decisions = gang.session(2, 1.0)
    assert pods_of(decisions) == ["p0", "p1"] and not gang.waits
    assert any("gang unschedulable" in text for text in messages(decisions))
    assert {event.reason for event in decisions.events} == {"Unschedulable", "NotEnoughTasks"}


def test_a_gang_that_has_all_its_pods_and_does_not_fit_is_reported_at_once() -> None:
    gang = Steps("4c")
    decisions = gang.session(3, 0.0)
    assert sorted(pods_of(decisions)) == ["p0", "p1", "p2"] and len(decisions.pod_groups) == 1
    assert not gang.waits


def test_a_gang_gets_one_status_once_its_pods_are_bound() -> None:
    gang = Steps()
    written = gang.session(3, 0.0).pod_groups
    assert written == [] and gang.waits
    for i in range(3):
        gang.world.cluster.server.patch(POD, "default", f"p{i}", {"spec": {"nodeName": "n"}})
        written += gang.session(3, 0.1 * i).pod_groups
    assert [(update.phase, [c.type for c in update.conditions]) for update in written] == [("Running", ["Scheduled"])]
    assert not gang.waits


def test_a_gang_whose_bindings_take_long_gets_a_status_before() -> None:
    gang = Steps()
    assert gang.session(3, 0.0).pod_groups == []
    (update,) = gang.session(3, 1.0).pod_groups
    assert update.phase == "Inqueue" and [c.type for c in update.conditions] == ["Scheduled"]


def test_the_status_of_a_preemptor_does_not_wait_for_the_rest_of_its_gang() -> None:
    gang = Steps()
    gang.session(2, 0.0)
    outcome = run_cycle(gang.world.cluster.cache.snapshot(0.1), CONF)
    decisions = outcome.decisions
    decisions.pods = [update._replace(nominated="n") for update in decisions.pods]
    gang.throttle.throttle(decisions, 0.1, outcome.session.active_jobs)
    assert pods_of(decisions) == ["p0", "p1"]
