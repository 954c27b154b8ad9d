"""Work that plugins do periodically."""

import pytest

from scheduler.plugins.support.periodic import Periodic
from tests.builders import configuration


@pytest.mark.parametrize("immediately", [True, False])
def test_work_is_due_once_per_period_and_at_the_same_times_when_a_cluster_is_simulated_again(immediately: bool) -> None:
    periodic, conf = Periodic(immediately=immediately), configuration([])
    for _ in range(2):
        due = [now for now in (10, 11, 69, 70, 71, 130) if periodic.due(conf, now, 60)]
        assert due == ([10, 70, 130] if immediately else [70, 130])


@pytest.mark.parametrize("immediately", [True, False])
def test_a_second_call_with_the_same_time_returns_the_same_answer(immediately: bool) -> None:
    periodic, conf = Periodic(immediately=immediately), configuration([])
    assert [periodic.due(conf, 10, 60) for _ in range(3)] == [immediately] * 3


def test_a_new_configuration_starts_a_new_period() -> None:
    periodic = Periodic(immediately=True)
    assert periodic.due(configuration(["gang"]), 10, 60)
    assert periodic.due(configuration(["tdm"]), 11, 60)
