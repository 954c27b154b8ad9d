"""The action enqueue: which PodGroups are admitted to their queues."""

from typing import ClassVar

import pytest

from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from tests.builders import Raw, World, configuration, group, node, only, pod, pods, queue

BOTH = "enqueue, allocate"
ALL = configuration(["proportion"], actions=BOTH)


def test_groups_that_request_nothing_in_particular_are_admitted() -> None:
    world = World(
        node("n"),
        queue("q1"),
        queue("q2"),
        group("a", "q1"),
        group("b", "q2"),
        pod("p", "1c", "a"),
        pod("q", "1c", "b"),
    )
    world.run(configuration([], actions="enqueue"))
    assert (world.phase("a"), world.phase("b")) == ("Inqueue", "Inqueue")


def test_a_group_that_asks_for_more_than_its_queue_may_have_stays_out() -> None:
    world = World(
        node("n", "10c+10G"), queue("q", capability="1c+1G"), group("a", "q", asks="8c+8G"), pod("p", "1c", "a")
    )
    world.run(configuration(["proportion"], actions="enqueue"))
    assert world.phase("a") == "Pending"
    (message,) = [m for m in world.events("Unschedulable") if "quota" in m]
    assert "insufficient cpu, insufficient memory" in message and "asked 8" in message


def running() -> list[Raw]:
    return [
        node("n1", "2c+2G"), node("n2", "2c+2G"), queue("q1", capability="2c+2G"), queue("q2", capability="3c+3G"),
        group("pg1", "q1", asks="1c+2G", phase="Running"), pod("pod1", "1c+2G", "pg1", on="n1"),
        group("pg2", "q2", asks="2c+1G", phase="Running"), pod("pod2", "2c+1G", "pg2", on="n2"),
    ]  # fmt: skip


def test_a_resource_that_is_not_asked_for_may_be_used_up() -> None:
    world = World(running(), group("pg3", "q1", asks="1c"), pod("pod3", "1c", "pg3"))
    assert world.run(ALL).bound == {"pod3": "n1"}
    world = World(running(), group("pg4", "q2", asks="1G"), pod("pod4", "1G", "pg4"))
    assert world.run(ALL).bound == {"pod4": "n2"}


@pytest.mark.parametrize("flag", ["enableJobEnqueued", "enabledAllocatable"])
def test_either_gate_alone_holds_back_what_is_beyond_the_capability(flag: str) -> None:
    world = World(running(), node("n3", "4c+4G"), group("pg5", "q1", asks="1c+1G"), pod("pod5", "1c+1G", "pg5"))
    assert world.run(configuration({"proportion": only(flag)}, actions=BOTH)).bound == {}


def test_a_closed_queue_admits_no_job() -> None:
    world = World(running(), queue("q3", state="Closed"), group("pg6", "q3", asks="1c"), pod("pod6", "1c", "pg6"))
    assert world.run(ALL).bound == {}


@pytest.fixture
def _against_a() -> None:
    class AgainstA:
        name: ClassVar[str] = "against-a"

        def __init__(self, arguments: Arguments) -> None:
            pass

        def open(self, session: PluginSession) -> None:
            def vote(job: Job) -> Vote:
                return Vote.REJECT if job.name == "a" else Vote.ABSTAIN

            session.add_job_enqueueable(vote)

    registry.register_plugin(AgainstA)


@pytest.mark.usefixtures("_against_a")
def test_a_group_that_another_plugin_rejects_reserves_nothing() -> None:
    world = World(
        node("n", "4c+4G"), queue("q", capability="1c+4G"), group("a", "q", asks="1c"), group("b", "q", asks="1c")
    )
    world.run(configuration(["proportion", "against-a"], actions="enqueue"))
    assert world.phase("a") in ("", "Pending")
    assert world.outcome is not None and world.outcome.session.jobs["default/b"].phase == "Inqueue"


@pytest.fixture
def keyed() -> list[str]:
    """The names of the queues whose keys the plugin ``keys-of-queues`` computed."""
    names: list[str] = []

    class KeysOfQueues:
        name: ClassVar[str] = "keys-of-queues"

        def __init__(self, arguments: Arguments) -> None:
            pass

        def open(self, session: PluginSession) -> None:
            def key(queue: Queue) -> int:
                names.append(queue.name)
                return 0

            session.add_queue_order(key)

    registry.register_plugin(KeysOfQueues)
    return names


@pytest.mark.parametrize(("queues", "expected"), [(["q1"], set()), (["q1", "q2"], {"q1", "q2"})])
def test_the_key_of_a_queue_is_computed_only_beside_other_queues(
    keyed: list[str], queues: list[str], expected: set[str]
) -> None:
    jobs = [(group(f"{name}-{i}", name), pod(f"{name}-{i}", "1c", f"{name}-{i}")) for name in queues for i in range(3)]
    world = World(node("n", "9c+9G"), [queue(name) for name in queues], *jobs)
    assert len(world.run(configuration(["keys-of-queues"], actions=BOTH)).bound) == 3 * len(queues)
    assert set(keyed) == expected


def test_what_is_allocated_is_not_reserved_a_second_time() -> None:
    world = World(
        node("n1", "4c+8Gi"), queue("q1", capability="4c+8Gi"),
        group("a", "q1", 3, asks="3c", phase="Inqueue"), pods("a", 3, "1c+1Gi", "a"),
        group("b", "q1", 1, asks="1c", phase="Pending"), pod("b-0", "1c+1Gi", "b"),
    )  # fmt: skip
    first = world.run(configuration(["gang", "proportion"], actions="allocate")).bound
    assert first.keys() >= {"a-0", "a-1", "a-2"}
    second = world.run(configuration(["gang", "proportion"], actions=BOTH)).bound
    assert {**first, **second}.keys() == {"a-0", "a-1", "a-2", "b-0"}
