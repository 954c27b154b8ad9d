"""The order in which work of several classes starts."""

import asyncio

from scheduler.cluster.kube.write.lanes import HOLD, Urgency, make_lanes
from scheduler.cluster.kube.write.slow_start import DURATION
from tests.unit import virtual_time
from tests.unit.cluster.kube.write.test_slow_start import Writes


def test_a_status_begins_when_the_only_binding_has_ended() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(64), Writes()
        lanes.submit(Urgency.BINDING, "pod", lambda: writes("pod"))
        lanes.submit(Urgency.STATUS, "group", lambda: writes("group"))
        await asyncio.sleep(HOLD / 2)
        assert writes.started == ["pod"]
        await writes.end(1)
        assert writes.started == ["pod", "group"]
        await lanes.close()

    virtual_time.run(scenario())


def test_statuses_do_not_wait_for_the_end_of_many_or_slow_bindings() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(64), Writes()
        lanes.submit(Urgency.BINDING, "pod", writes)
        lanes.submit(Urgency.STATUS, "group", lambda: writes("group"))
        await asyncio.sleep(2 * HOLD)
        assert writes.started[-1] == "group"
        for number in range(5):
            lanes.submit(Urgency.BINDING, f"pod {number}", writes)
        lanes.submit(Urgency.STATUS, "queue", lambda: writes("queue"))
        await asyncio.sleep(0.001)
        assert writes.started[-1] == "queue"
        await lanes.close()

    virtual_time.run(scenario())


def test_one_binding_after_the_other_does_not_hold_up_statuses_for_long() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(64), Writes()
        lanes.submit(Urgency.STATUS, "group", lambda: writes("group"))
        for number in range(20):
            lanes.submit(Urgency.BINDING, f"pod {number}", writes)
            await asyncio.sleep(HOLD / 4)
            await writes.end(1)
        assert "group" in writes.started[:3]
        await lanes.close()

    virtual_time.run(scenario())


def test_work_that_may_start_has_begun_when_its_caller_goes_on() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(64), Writes()
        lanes.submit(Urgency.BINDING, "pod", lambda: writes("pod"))
        await lanes.started()
        assert writes.started == ["pod"]
        await lanes.close()

    virtual_time.run(scenario())


def test_a_binding_shares_the_api_server_with_a_few_of_many_admissions() -> None:
    async def scenario() -> None:
        lanes, writes = make_lanes(64), Writes()
        for number in range(200):
            lanes.submit(Urgency.ADMISSION, f"group {number}", writes)
        await asyncio.sleep(DURATION + 0.1)
        assert len(writes.started) == 16
        lanes.submit(Urgency.BINDING, "pod", lambda: writes("pod"))
        await asyncio.sleep(0.001)
        assert writes.started[16:] == ["pod"]
        await lanes.close()

    virtual_time.run(scenario())
