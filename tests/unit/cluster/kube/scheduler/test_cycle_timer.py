"""When the next session is held."""

import asyncio
from collections.abc import Callable

from scheduler.cluster.kube.scheduler.cycle_timer import CycleTimer, awaited
from scheduler.framework.cycle import Outcome
from tests.builders import Raw, World, configuration, group, node, pod, pods
from tests.unit import virtual_time

PLAN = configuration(["priority", "gang"], ["predicates"], actions="allocate")
LONG = 60.0


class Nodes:
    """Those on which something terminates."""

    def __init__(self, *busy: str) -> None:
        self.busy = set(busy)

    def terminates_on(self, node: str) -> bool:
        return node in self.busy


def leaving(name: str, on: str) -> Raw:
    return pod(name, "1c", "old", on=on, deleting=True)


def outcome(*objects: Raw | list[Raw]) -> Outcome:
    """Of a session with two nodes for one Pod each."""
    there = [node(name, "1c+1Gi") for name in ("n1", "n2")]
    result = World(there, group("old", phase="Running"), *objects).run(PLAN).outcome
    assert result is not None
    return result


def waiting_for_both() -> Outcome:
    gang = [group("g", minimum=2, phase="Inqueue"), *pods("p", 2, "1c", "g")]
    return outcome(leaving("a", "n1"), leaving("b", "n2"), gang)


def rests(timer: CycleTimer, meanwhile: Callable[[], object] = lambda: None) -> bool:
    """Whether the rest goes on for a while; what happens then must end it, if it is over by then."""

    async def scenario() -> bool:
        end: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        resting = asyncio.create_task(timer.wait([end]))
        await asyncio.wait([resting], timeout=0.3)
        meanwhile()
        done, _ = await asyncio.wait([resting], timeout=0.3)
        end.set_result(None)
        await resting
        return not done

    return virtual_time.run(scenario())


def test_a_pipelined_gang_waits_for_the_nodes_that_are_not_free() -> None:
    assert awaited(waiting_for_both().session) == (frozenset({"n1", "n2"}),)
    gang = [group("g", minimum=2, phase="Inqueue"), *pods("p", 2, "1c", "g")]
    assert awaited(outcome(leaving("a", "n1"), gang).session) == (frozenset({"n1"}),)


def test_a_job_for_which_there_is_no_place_waits_for_nothing() -> None:
    assert awaited(outcome(leaving("a", "n1"), group("g", phase="Inqueue"), pod("p", "8c", "g")).session) == ()


def test_the_next_session_is_held_when_all_nodes_of_a_gang_are_free() -> None:
    nodes = Nodes("n1", "n2")
    timer = CycleTimer(LONG, nodes)
    timer.cycle_ended(waiting_for_both())
    assert not rests(timer, meanwhile=nodes.busy.clear)


def test_a_node_of_a_gang_that_becomes_free_before_the_others_changes_nothing() -> None:
    nodes = Nodes("n1", "n2")
    timer = CycleTimer(LONG, nodes)
    timer.cycle_ended(waiting_for_both())
    assert rests(timer, meanwhile=lambda: nodes.busy.discard("n1"))


def test_where_nothing_is_waited_for_the_whole_period_passes() -> None:
    timer = CycleTimer(LONG, Nodes())
    assert rests(timer)
    timer.cycle_ended(outcome())
    assert rests(timer)


def test_what_was_waited_for_hurries_one_session_only() -> None:
    timer = CycleTimer(LONG, Nodes())
    timer.cycle_ended(waiting_for_both())
    assert not rests(timer)
    assert rests(timer)


def test_the_rest_is_as_long_as_the_session_was() -> None:
    slow = waiting_for_both()
    slow.seconds = LONG
    timer = CycleTimer(LONG, Nodes())
    timer.cycle_ended(slow)
    assert rests(timer)
