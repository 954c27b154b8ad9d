"""The answer of a role to its liveness probe: it is healthy as long as its phase makes progress."""

import asyncio
from itertools import count

import pytest

from scheduler.cluster.kube.process.liveness import LONGEST, STOPPING, STUCK, Liveness, Phase
from scheduler.cluster.kube.transport.fence import Fence, clock
from tests.unit import virtual_time


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.STOPPING])
def test_a_phase_without_progress_is_a_problem(phase: Phase) -> None:
    now = Clock()
    liveness = Liveness(now=now)
    liveness.enter(phase)
    now.seconds = STUCK
    assert liveness.problem() == ""
    now.seconds += 5
    assert liveness.problem() == f"{phase.value}: no progress for 125 s (limit 120 s)"
    liveness.progress()
    assert liveness.problem() == ""


def test_long_work_makes_progress_as_long_as_what_it_has_done_grows_and_does_not_last_for_hours() -> None:
    async def scenario() -> list[str]:
        liveness = Liveness(now=asyncio.get_running_loop().time)
        liveness.enter(Phase.LEADING)
        done, problems = count(), []
        async with liveness.watching(lambda: next(done)):
            await asyncio.sleep(2 * STUCK)
            problems.append(liveness.problem())
            await asyncio.sleep(LONGEST)
            problems.append(liveness.problem())
        liveness.progress()
        async with liveness.watching(lambda: 7):
            await asyncio.sleep(STUCK + 5)
            problems.append(liveness.problem())
        return problems

    growing, endless, hanging = virtual_time.run(scenario())

    assert growing == ""
    assert endless.startswith("leading: no progress for ")
    assert hanging == "leading: no progress for 125 s (limit 120 s)"


def test_stopping_has_to_end_despite_progress_meanwhile() -> None:
    now = Clock()
    liveness = Liveness(now=now, stopping=STOPPING)
    liveness.enter(Phase.STOPPING)
    now.seconds = STOPPING + 1
    liveness.progress()
    liveness.enter(Phase.LEADING)
    assert liveness.problem() == "stopping for 31 s (limit 30 s)"


def test_a_leader_whose_lease_ran_out_unnoticed_is_a_problem_however_busy_it_is() -> None:
    fence = Fence()
    liveness = Liveness(fence)
    fence.extend(clock() + 1, clock() + 2)
    liveness.enter(Phase.LEADING)
    assert liveness.problem() == ""
    fence.extend(clock() - 12, clock() - 7)
    liveness.progress()
    assert liveness.problem() == "leading without a lease: it was not renewed in time, 12 s ago (limit 10 s)"
    liveness.enter(Phase.STANDING_BY)
    assert liveness.problem() == ""
