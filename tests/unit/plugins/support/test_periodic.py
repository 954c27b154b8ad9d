"""Periodic work of plugins."""

import pytest

from scheduler.framework.configuration import Configuration
from scheduler.plugins.support.periodic import is_due
from tests.builders import World, configuration

CONFIGURATION = configuration(["gang"])


class Work:
    """Work with a period of a minute, in the sessions of one scheduler."""

    def __init__(self, immediately: bool) -> None:
        self._world, self._immediately = World(), immediately

    def is_due(self, now: float, configuration: Configuration = CONFIGURATION) -> bool:
        session = self._world.session(configuration).plugin_session
        session.snapshot.now = now
        return is_due(session, "work", 60, immediately=self._immediately)


@pytest.mark.parametrize("immediately", [True, False])
def test_work_is_due_once_per_period_and_at_the_same_times_when_a_cluster_is_simulated_again(immediately: bool) -> None:
    work = Work(immediately)
    for _ in range(2):
        due = [now for now in (10, 11, 69, 70, 71, 130) if work.is_due(now)]
        assert due == ([10, 70, 130] if immediately else [70, 130])


@pytest.mark.parametrize("immediately", [True, False])
def test_a_second_call_with_the_same_time_returns_the_same_answer(immediately: bool) -> None:
    work = Work(immediately)
    assert [work.is_due(10) for _ in range(3)] == [immediately] * 3


def test_a_new_configuration_starts_a_new_period() -> None:
    work = Work(immediately=True)
    assert work.is_due(10)
    assert work.is_due(11, configuration(["tdm"]))
