"""The limit of writes in flight at the beginning of a burst."""

import asyncio
from functools import partial

from scheduler.cluster.kube.operator.write_workers import WriteKind as WriteUrgency
from scheduler.cluster.kube.operator.write_workers import WriteWorkers
from scheduler.cluster.kube.write.lanes import Urgency, make_lanes
from scheduler.cluster.kube.write.slow_start import DURATION, FIRST, SlowStart
from tests.unit import virtual_time

MANY = 4 * FIRST


class Writes:
    """Writes that continue until the test ends them."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self._ends: list[asyncio.Event] = []

    async def __call__(self, name: str = "") -> None:
        self.started.append(name)
        end = asyncio.Event()
        self._ends.append(end)
        await end.wait()

    async def end(self, number: int) -> None:
        """Ends the first writes."""
        for event in self._ends[:number]:
            event.set()
        del self._ends[:number]
        await asyncio.sleep(0.001)


def test_a_burst_begins_with_few_writes_in_flight_and_all_may_be_in_flight_later() -> None:
    async def scenario() -> None:
        workers, writes = WriteWorkers(MANY), Writes()
        for _ in range(2 * MANY):
            workers.submit("ns", partial(writes), WriteUrgency.OTHER)
        await asyncio.sleep(0.001)
        assert len(writes.started) == FIRST
        await writes.end(5)
        assert len(writes.started) == FIRST + 5
        await asyncio.sleep(DURATION + 0.1)
        assert len(writes.started) == MANY + 5
        await workers.close()

    virtual_time.run(scenario())


def test_a_new_pod_is_written_before_other_writes_of_the_burst_that_are_not_in_flight_yet() -> None:
    async def scenario() -> None:
        workers, writes = WriteWorkers(MANY), Writes()
        for _ in range(MANY):
            workers.submit("ns", partial(writes), WriteUrgency.OTHER)
        await asyncio.sleep(0.001)
        workers.submit("ns", lambda: writes("pod"), WriteUrgency.NEW_POD)
        await writes.end(2)
        assert "pod" in writes.started
        await workers.close()

    virtual_time.run(scenario())


def test_bindings_of_a_burst_begin_with_few_in_flight_in_order_of_importance() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(MANY), Writes()
        for number in range(MANY):
            lanes.submit(Urgency.EVICTION, f"victim {number}", writes)
        await asyncio.sleep(0.001)
        lanes.submit(Urgency.BINDING, "pod", lambda: writes("pod"))
        await asyncio.sleep(0.001)
        assert len(writes.started) == FIRST
        await writes.end(1)
        assert writes.started[FIRST] == "pod"
        await asyncio.sleep(DURATION + 0.1)
        assert len(writes.started) == MANY + 1
        await lanes.close()

    virtual_time.run(scenario())


def test_one_more_binding_may_be_in_flight_for_each_that_was_answered() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(MANY), Writes()
        for number in range(4 * MANY):
            lanes.submit(Urgency.BINDING, f"pod {number}", writes)
        await asyncio.sleep(0.001)
        assert len(writes.started) == FIRST
        await writes.end(FIRST)
        assert len(writes.started) == FIRST + 2 * FIRST
        await writes.end(2 * FIRST)
        assert len(writes.started) == 3 * FIRST + MANY
        await writes.end(MANY)
        assert len(writes.started) == 3 * FIRST + 2 * MANY
        await lanes.close()

    virtual_time.run(scenario())


def test_the_next_burst_of_bindings_begins_with_few_in_flight_again() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(MANY), Writes()
        for number in range(2 * MANY):
            lanes.submit(Urgency.BINDING, f"pod {number}", writes)
        await asyncio.sleep(0.001)
        while len(writes.started) < 2 * MANY:
            await writes.end(1)
        await writes.end(MANY)
        await asyncio.sleep(DURATION + 0.1)
        for number in range(MANY):
            lanes.submit(Urgency.BINDING, f"another {number}", writes)
        await asyncio.sleep(0.001)
        assert len(writes.started) == 2 * MANY + FIRST
        await lanes.close()

    virtual_time.run(scenario())


def test_another_burst_is_limited_again() -> None:
    async def scenario() -> None:
        slow_start = SlowStart(lambda: None)
        assert slow_start.allows(FIRST - 1) and not slow_start.allows(FIRST)
        await asyncio.sleep(DURATION / 2)
        assert not slow_start.allows(FIRST)
        await asyncio.sleep(DURATION / 2)
        assert slow_start.allows(FIRST)
        await asyncio.sleep(DURATION / 2)
        assert slow_start.allows(FIRST)
        await asyncio.sleep(DURATION + 0.1)
        assert slow_start.allows(0) and not slow_start.allows(FIRST)
        slow_start.close()

    virtual_time.run(scenario())
