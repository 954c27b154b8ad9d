"""A limit of Pods per node and queue holds for terminating Pods, preemption and rollback."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, ClassVar

import pytest

from scheduler.api.names import PREEMPTABLE
from scheduler.api.task import TaskStatus
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.class_view import view
from scheduler.framework.node_limit import limit_per_node
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, gang, group, node, pod, queue
from tests.examples import examples

CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("high", 9), ("low", 1))
]
PLUGINS = {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}, "predicates": {}, "limited": {}}


@pytest.fixture(autouse=True)
def _plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))

    @register_plugin
    class Limited:
        name: ClassVar[str] = "limited"

        def __init__(self, arguments: Arguments) -> None:
            self._limits = {name: arguments.nested("limits").integer(name, 0) for name in arguments.nested("limits")}
            self._per_job = arguments.integer("perJob", 0)
            self._double = arguments.boolean("double", False)
            self._label = arguments.text("label", "")

        def open(self, session: PluginSession) -> None:
            if self._per_job:
                limit_per_node(session, per_job=lambda job: self._per_job, label=self._label)
            else:
                amount = (lambda cls: 2) if self._double else (lambda cls: 1)
                limit_per_node(
                    session, per_queue=lambda queue: self._limits.get(queue.name), amount=amount, label=self._label
                )

    yield


def plan(actions: str = "enqueue, allocate, backfill", **arguments: Any) -> Any:
    return configuration(PLUGINS, actions=actions, arguments={"limited": arguments or {"limits": {"lab": 1}}})


def test_a_gang_of_a_queue_spreads_over_nodes() -> None:
    world = World(node("a"), node("b"), queue("lab"), gang("train", 2, "1c", "lab"), gang("free", 3, "1c")).run(plan())
    assert {world.bound["train-0"], world.bound["train-1"]} == {"a", "b"}
    assert len(world.bound) == 5


def test_a_refusal_says_what_is_held_and_the_limit() -> None:
    world = World(node("n"), queue("lab"), gang("old", 1, "1c", "lab", on="n"), gang("new", 1, "1c", "lab")).run(plan())
    assert "1 node(s) hold 1 of at most 1 Pods of queue lab" in world.waiting["new-0"]
    assert "Pods: asked 1, most free on one node 0" in world.waiting["new-0"]


def test_a_pod_is_not_bound_while_a_pod_of_its_queue_terminates_on_the_node() -> None:
    old = [group("old", "lab"), pod("old-0", "1c", "old", on="n", deleting=True)]
    world = World(node("n"), queue("lab"), old, gang("new", 1, "1c", "lab")).run(plan())
    assert world.bound == {}
    assert "can possibly be assigned to n, once resource is released" in world.waiting["new-0"]


def test_finished_pods_do_not_count() -> None:
    old = [group("old", "lab"), pod("old-0", "1c", "old", on="n", phase="Succeeded")]
    assert World(node("n"), queue("lab"), old, gang("new", 1, "1c", "lab")).run(plan()).bound == {"new-0": "n"}


def test_a_preemptor_waits_until_its_victim_has_exited() -> None:
    conf = plan("enqueue, allocate, backfill, preempt")
    victim = pod("old-0", "1c", "old", on="n", annotations={PREEMPTABLE: "true"})
    old = [group("old", "lab", priority_class="low"), victim]
    new = [group("new", "lab", priority_class="high"), pod("new-0", "1c", "new")]
    world = World(CLASSES, node("n"), queue("lab"), old, new).run(conf)
    assert (world.evicted, world.bound) == ({"old-0"}, {})
    assert world.run(conf).bound == {}, "the victim terminates"
    world.run(conf, cycles=3, kubelet=True)
    assert world.get("Pod", "new-0")["spec"]["nodeName"] == "n"


def room_of(session: Session, name: str) -> tuple[int, int]:
    """The room on the first node now, and once terminating tasks have exited."""
    job = session.jobs[f"default/{name}"]
    (task,) = job.of(TaskStatus.PENDING).values()
    filters: list[Any] = session.filters(task.cls, job)
    (limit,) = [each for each in filters if type(each).__name__ == "_NodeLimit"]
    return int(limit.room([0])[0]), int(limit.future_room([0])[0])


def test_the_books_follow_evictions_placements_and_their_rollback() -> None:
    session = World(
        node("n"), queue("lab"), gang("old", 1, "1c", "lab", on="n"), gang("new", 1, "1c", "lab"),
        gang("more", 1, "1c", "lab"),
    ).session(plan(limits={"lab": 2}))  # fmt: skip
    old, new = session.jobs["default/old"], session.jobs["default/new"]
    (running,), (waiting,) = old.of(TaskStatus.RUNNING).values(), new.of(TaskStatus.PENDING).values()
    assert room_of(session, "more") == (1, 1)
    eviction = session.statement()
    eviction.evict(old, running, "test")
    assert room_of(session, "more") == (1, 2)
    placement = session.statement()
    placement.pipeline(new, waiting, 0)
    assert room_of(session, "more") == (1, 1)
    placement.discard()
    assert room_of(session, "more") == (1, 2)
    placement.allocate(new, [waiting], [0])
    assert room_of(session, "more") == (0, 1)
    placement.discard()
    eviction.discard()
    assert room_of(session, "more") == (1, 1)


def test_a_limit_can_count_other_amounts_and_jobs() -> None:
    objects = node("a"), node("b"), queue("lab"), gang("train", 2, "1c", "lab")
    assert len(set(World(*objects).run(plan(limits={"lab": 3}, double=True)).bound.values())) == 2
    assert len(set(World(*objects).run(plan(perJob=1)).bound.values())) == 2


RACK = "example.com/rack"


def racks(*names: str) -> list[Raw]:
    return [node(f"n{i}", "4c", labels={RACK: name} if name else {}) for i, name in enumerate(names)]


def test_a_limit_of_a_rack_counts_all_its_nodes_and_nodes_without_a_rack_count_alone() -> None:
    world = World(racks("a", "a", "b", "", ""), gang("g", 5, "1c")).run(plan(perJob=1, label=RACK))
    assert world.bound == {}, "a gang of five finds four places"
    world = World(racks("a", "a", "b", "", ""), gang("g", 4, "1c")).run(plan(perJob=1, label=RACK))
    used = sorted(world.bound.values())
    assert len(used) == 4 and used[-2:] == ["n3", "n4"] and "n2" in used


def test_a_refusal_by_a_rack_names_the_rack() -> None:
    objects = racks("a", "a"), queue("lab"), gang("old", 1, "1c", "lab", on="n0"), gang("new", 1, "1c", "lab")
    world = World(*objects).run(plan(limits={"lab": 1}, label=RACK))
    assert "2 node(s) of rack a, which holds 1 of at most 1 Pods of queue lab" in world.waiting["new-0"]
    assert "Pods: asked 1, most free on one rack 0" in world.waiting["new-0"]


def test_a_refusal_by_racks_that_hold_equal_numbers_counts_their_nodes_together() -> None:
    held = [gang(f"old{i}", 1, "1c", "lab", on=f"n{n}") for i, n in enumerate((0, 1, 2, 3, 3))]
    objects = racks("a", "b", "", "c"), queue("lab"), held, gang("new", 1, "1c", "lab")
    message = World(*objects).run(plan(limits={"lab": 1}, label=RACK)).waiting["new-0"]
    assert "3 node(s) of a rack that holds 1 of at most 1 Pods of queue lab" in message
    assert "1 node(s) of rack c, which holds 2 of at most 1 Pods of queue lab" in message


def test_a_terminating_pod_keeps_its_place_in_the_rack() -> None:
    old = [group("old", "lab"), pod("old-0", "1c", "old", on="n0", deleting=True)]
    world = World(racks("a", "a"), queue("lab"), old, gang("new", 1, "1c", "lab")).run(
        plan(limits={"lab": 1}, label=RACK)
    )
    assert world.bound == {} and "once resource is released" in world.waiting["new-0"]


@pytest.mark.parametrize("seed", range(examples(20)))
def test_runs_of_equal_pods_are_placed_in_racks_as_pods_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def decided() -> dict[str, str]:
        random = Random(seed)
        nodes = racks(*(random.choice("abc") for _ in range(8)))
        jobs = [gang(f"g{i}", random.randint(1, 5), f"{random.randint(1, 2)}c", "lab") for i in range(6)]
        conf = plan(perJob=random.randint(1, 3), label=RACK)
        world = World(nodes, queue("lab"), *jobs).run(conf)
        rack = {raw["metadata"]["name"]: raw["metadata"]["labels"][RACK] for raw in nodes}
        limit = conf.tiers[0][-1].arguments["perJob"]
        held = Counter((name.rpartition("-")[0], rack[on]) for name, on in world.bound.items())
        assert not held or max(held.values()) <= limit
        return world.bound

    in_runs = decided()
    monkeypatch.setattr(
        view, "is_grouped_filter", lambda _: False
    )  # no filter is Grouped: the Pods are placed one by one
    assert decided() == in_runs and in_runs


def test_a_limit_is_per_queue_or_per_job() -> None:
    session = World(node("n")).session(configuration(["gang"]))
    with pytest.raises(TypeError, match="either per_queue or per_job"):
        limit_per_node(session.plugin_session)
