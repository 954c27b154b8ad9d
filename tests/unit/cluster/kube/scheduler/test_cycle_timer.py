"""The time of the next session."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from scheduler.cache.versioning import Version
from scheduler.cluster.kube.scheduler import cycle_timer
from scheduler.cluster.kube.scheduler.cycle_timer import (
    BRIEF_JOBS,
    BRIEF_SECONDS,
    BRIEF_TASKS,
    IDLE_CYCLE,
    REST,
    CycleTimer,
    awaited,
    result_of,
)
from scheduler.cluster.kube.scheduler.session_timing import SessionResult
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from scheduler.framework.cycle import Outcome, SessionDemand
from scheduler.framework.search_limit import FIRST_COST, TURN_COST, SearchLimit
from tests.builders import Raw, World, configuration, group, node, pod, pods
from tests.unit import virtual_time

PLAN = configuration(["priority", "gang"], ["predicates", "overcommit"], actions="enqueue, allocate")
LONG = 60.0


class Nodes:
    """A cache with these nodes, on which something terminates."""

    def __init__(self, *busy: str) -> None:
        self.busy = set(busy)
        self.version = 7
        self.changes = Version()

    def terminates_on(self, node: str) -> bool:
        return node in self.busy


@pytest.fixture(autouse=True)
def _busy_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions use the processor for their whole time in virtual time, however busy the machine is."""

    def process_time() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, virtual_time.VirtualTimeLoop)
        return loop.skipped

    monkeypatch.setattr(cycle_timer, "process_time", process_time)


def leaving(name: str, on: str) -> Raw:
    return pod(name, "1c", "old", on=on, deleting=True)


def outcome(*objects: Raw | list[Raw]) -> Outcome:
    """The decisions of a session with two nodes for one Pod each."""
    there = [node(name, "1c+1Gi") for name in ("n1", "n2")]
    result = World(there, group("old", phase="Running"), *objects).run(PLAN).outcome
    assert result is not None
    return result


def waiting_for_both() -> Outcome:
    gang = [group("g", minimum=2, phase="Inqueue"), *pods("p", 2, "1c", "g")]
    return outcome(leaving("a", "n1"), leaving("b", "n2"), gang)


def pauses(
    timer: CycleTimer, last: Outcome | None = None, meanwhile: Callable[[], object] = lambda: None, seconds: float = 0.0
) -> bool:
    """Whether the rest after a session goes on for a while; what happens then must end it, if it is over by then.
    ``last``: the outcome of the session, which takes ``seconds``; None: it failed."""

    async def scenario() -> bool:
        end: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        timer.cycle_began()
        await asyncio.sleep(seconds)
        if last is not None:
            await timer.ended(last)
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
    assert not pauses(CycleTimer(LONG, nodes), waiting_for_both(), meanwhile=nodes.busy.clear)


def test_a_node_of_a_gang_that_becomes_free_before_the_others_changes_nothing() -> None:
    nodes = Nodes("n1", "n2")
    assert pauses(CycleTimer(LONG, nodes), waiting_for_both(), meanwhile=lambda: nodes.busy.discard("n1"))


def test_where_nothing_is_waited_for_the_whole_period_passes() -> None:
    timer = CycleTimer(LONG, Nodes())
    assert pauses(timer)
    assert pauses(timer, outcome())


def test_what_was_waited_for_hurries_one_session_only() -> None:
    timer = CycleTimer(LONG, Nodes())
    assert not pauses(timer, waiting_for_both())
    assert pauses(timer, outcome())


def test_the_rest_is_as_long_as_the_session_was() -> None:
    slow = waiting_for_both()
    slow.seconds = LONG
    assert pauses(CycleTimer(LONG, Nodes()), slow)


def idle(*, reads_time: bool = False) -> Outcome:
    """The decisions of a session that decided nothing, because everything runs."""
    world = World([node("n", "9c+9Gi")], group("g"), pod("p", "1c", "g")).run(PLAN, cycles=4, kubelet=True)
    last = world.outcome
    assert last is not None and not last.decisions
    if reads_time:
        assert last.session.now > 0
    return last


async def ended(
    last: Outcome, nodes: Nodes, *, period: float = 1.0, unwritten: bool = False, unreported: bool = False
) -> CycleTimer:
    """A timer after a session."""
    timer = CycleTimer(period, nodes, unwritten=lambda: unwritten, unreported=lambda: unreported)
    timer.cycle_began()
    assert await is_needed(timer), "the first one"
    await timer.ended(last)
    return timer


async def is_needed(timer: CycleTimer) -> bool:
    return await timer.demand() is SessionDemand.NOW


async def rest_of(timer: CycleTimer) -> float:
    """The seconds until the next session is due after a skipped session."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    timer.cycle_began()
    timer.cycle_skipped(rests=True)
    await timer.wait([loop.create_future()])
    return loop.time() - began


def test_any_change_ends_a_rest_that_is_longer_than_the_period() -> None:
    nodes = Nodes()

    async def scenario() -> tuple[float, float]:
        timer = await ended(idle(), nodes)
        asyncio.get_running_loop().call_later(5.0, nodes.changes.increment)
        return await rest_of(timer), await rest_of(timer)

    assert virtual_time.run(scenario()) == pytest.approx((5.0, REST), abs=1.0)
    assert nodes.changes.listener is None and nodes.changes.waker is None


def test_the_rest_after_a_session_that_has_read_the_time_ends_when_the_next_one_is_needed() -> None:
    async def scenario() -> float:
        timer = await ended(idle(reads_time=True), Nodes())
        await asyncio.sleep(2.0)
        seconds = await rest_of(timer)
        assert await is_needed(timer)
        return seconds

    assert virtual_time.run(scenario()) == pytest.approx(IDLE_CYCLE - 2.0, abs=0.5)


def test_without_a_rest_the_period_passes_after_a_session_that_was_skipped() -> None:
    async def scenario() -> float:
        loop = asyncio.get_running_loop()
        timer = await ended(idle(), Nodes(), period=2.0)
        began = loop.time()
        timer.cycle_began()
        timer.cycle_skipped()
        await timer.wait([loop.create_future()])
        return loop.time() - began

    assert virtual_time.run(scenario()) == pytest.approx(2.0, abs=0.5)


@pytest.mark.parametrize(
    ("last", "waiting", "version", "at_once", "later"),
    [
        (idle, {}, 7, False, False),
        (idle, {}, 8, True, True),
        (lambda: idle(reads_time=True), {}, 7, False, True),
        (idle, {"unreported": True}, 7, False, True),
        (idle, {"unwritten": True}, 7, True, True),
        (lambda: outcome(*small()), {}, 7, True, True),
    ],
    ids=["idle", "changed", "has read the time", "figures wait", "statuses wait", "has decided"],
)
def test_a_session_is_needed_after_a_change_or_if_it_may_decide_something_else_later(
    last: Callable[[], Outcome], waiting: dict[str, bool], version: int, at_once: bool, later: bool
) -> None:
    async def scenario() -> tuple[bool, bool]:
        nodes = Nodes()
        timer = await ended(last(), nodes, **waiting)
        nodes.version = version
        now = await is_needed(timer)
        await asyncio.sleep(IDLE_CYCLE + 1)
        return now, await is_needed(timer)

    assert virtual_time.run(scenario()) == (at_once, later)


def test_a_session_is_needed_while_pods_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> bool:
        return await is_needed(await ended(idle(), Nodes()))

    monkeypatch.setattr(SearchLimit, "has_more_turns", True)

    assert virtual_time.run(scenario())


def test_the_first_session_is_needed_and_one_that_is_required() -> None:
    async def scenario() -> None:
        timer = await ended(idle(), Nodes())
        assert not await is_needed(timer)
        timer.require_cycle()
        assert await is_needed(timer)

    virtual_time.run(scenario())


def test_an_arrival_ends_the_rest() -> None:
    nodes = Nodes()
    assert not pauses(CycleTimer(LONG, nodes), outcome(), meanwhile=nodes.changes.arrived)
    assert nodes.changes.listener is None


def test_an_arrival_during_a_session_starts_the_next_one_after_the_pause() -> None:
    nodes = Nodes()
    timer = CycleTimer(LONG, nodes)
    nodes.changes.arrived()
    assert pauses(timer, outcome())
    nodes.changes.arrived()
    assert pauses(timer, outcome(), meanwhile=nodes.changes.arrived, seconds=LONG / 10)


def test_an_opening_ends_the_rest_if_a_job_waits() -> None:
    nodes = Nodes()
    assert pauses(CycleTimer(LONG, nodes), outcome(), meanwhile=nodes.changes.opened)
    waiting = outcome(group("g", phase="Inqueue"), pod("p", "8c", "g"))
    assert not pauses(CycleTimer(LONG, nodes), waiting, meanwhile=nodes.changes.opened)


@pytest.mark.parametrize(
    ("objects", "result"),
    [
        ([group("g", phase="Inqueue"), pod("p", "1c", "g")], SessionResult(placed=True)),
        ([group("g", phase="Inqueue"), pod("p", "8c", "g")], SessionResult(waits=True)),
        (
            [group("g", minimum=3, phase="Inqueue"), *pods("p", 3, "1c", "g")],
            SessionResult(waits=True, gang_waits=True),
        ),
        ([group("g", minimum=3, phase="Inqueue"), *pods("p", 2, "1c", "g")], SessionResult()),
        ([group("g", minimum=3, asks="100c")], SessionResult(waits=True, gang_waits=True)),
        ([group("g", minimum=3, phase="Inqueue")], SessionResult()),
        ([group("g", "absent", 2), *pods("p", 2, "1c", "g")], SessionResult(waits=True)),
        ([group("g", phase="Inqueue"), pod("p", "1c", "g", gated=True)], SessionResult()),
    ],
    ids=[
        "placed",
        "no room",
        "no room for a gang",
        "Pods are missing",
        "not admitted",
        "admitted, no Pods yet",
        "no queue",
        "scheduling gate",
    ],
)
def test_the_result_of_a_session(objects: list[Raw], result: SessionResult) -> None:
    assert result_of(outcome(*objects)) == result


def test_the_result_of_a_session_says_that_it_left_out_different_pods_of_a_namespace() -> None:
    names = [(f"g{i}", f"{100 + i}c") for i in range(FIRST_COST + TURN_COST + 1)]
    objects = [each for name, asks in names for each in (group(name, phase="Inqueue"), pod(name, asks, name))]

    assert result_of(outcome(*objects[:-2])) == SessionResult(waits=True)
    assert result_of(outcome(*objects)) == SessionResult(waits=True, left_out=True)


def test_with_the_built_in_configuration_a_session_without_waiting_jobs_does_not_read_the_time() -> None:
    plan = parse_configuration(DEFAULT_CONFIGURATION, "the built-in configuration")
    world = World([node("n", "9c+9Gi")], group("g"), pod("p", "1c", "g")).run(plan, cycles=4, kubelet=True)
    assert world.outcome is not None
    session = world.outcome.session
    assert session.jobs and not session.active_jobs and not session.read_time


def small() -> list[Raw]:
    return [group("g", phase="Inqueue"), pod("p", "1c", "g")]


def is_brief(last: Outcome, this: Outcome, *, pause: float = 1.0, fails: bool = False, sessions: int = 1) -> bool:
    """Whether a session with the snapshot of ``this`` is brief ``pause`` seconds after some with the outcome
    ``last``."""

    async def scenario() -> bool:
        timer = CycleTimer(LONG, Nodes())
        for _ in range(sessions):
            timer.cycle_began()
            await asyncio.sleep(last.seconds)
            await timer.ended(last)
        if fails:
            timer.cycle_began()
            end: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            end.set_result(None)
            await timer.wait([end])
        await asyncio.sleep(pause)
        timer.cycle_began()
        return timer.is_brief(this.session.snapshot, this.session.configuration)

    gc.disable()  # processor time counts: a collection of what other tests have left takes longer than a session
    try:
        return virtual_time.run(scenario())
    finally:
        gc.enable()


def of_seconds(seconds: float) -> Outcome:
    result = outcome(*small())
    result.seconds = seconds
    return result


def test_a_small_session_after_a_short_one_is_brief() -> None:
    assert is_brief(of_seconds(BRIEF_SECONDS / 2), outcome(*small()))


def test_a_session_after_a_long_or_failed_one_or_with_another_configuration_is_not_brief() -> None:
    short, this = of_seconds(BRIEF_SECONDS / 2), outcome(*small())
    assert not is_brief(of_seconds(BRIEF_SECONDS * 2), this)
    assert not is_brief(short, this, fails=True, pause=3 * LONG)
    short.session.configuration = configuration(["gang"], actions="allocate")
    assert not is_brief(short, this)


def test_a_session_is_not_brief_while_a_plugin_asks_other_programs() -> None:
    asking = of_seconds(BRIEF_SECONDS / 2)
    assert asking.session.external_calls is not None
    assert not is_brief(asking, outcome(*small()))


def test_sessions_are_brief_only_while_they_are_rare() -> None:
    short, this = of_seconds(BRIEF_SECONDS / 2), outcome(*small())
    assert is_brief(short, this, pause=0.0)
    assert not is_brief(short, this, pause=0.0, sessions=10)
    assert is_brief(short, this, sessions=10)


@pytest.mark.parametrize(
    "objects",
    [
        [group("g", phase="Inqueue", minimum=1), *pods("p", BRIEF_TASKS + 1, "1c", "g")],
        [
            each
            for i in range(BRIEF_JOBS + 1)
            for each in (group(f"g{i}", phase="Inqueue"), pod(f"p{i}", "1c", f"g{i}"))
        ],
        [*small()[:1], pod("p", "1c", "g", tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(1000)])],
        [*small()[:1], pod("p", "1c", "g", resourceClaims=[{"name": "c", "resourceClaimName": "c"}])],
    ],
    ids=["many Pods", "many jobs", "many tolerations", "claims of devices"],
)
def test_a_session_with_much_to_decide_is_not_brief(objects: list[Raw]) -> None:
    there = World([node("n", "1000c+1000Gi")], *objects)
    session = there.session(PLAN)
    many = of_seconds(0.0)
    many.session = session
    assert not is_brief(of_seconds(BRIEF_SECONDS / 2), many)
