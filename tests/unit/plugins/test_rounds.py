"""What is done every so often."""

import pytest

from scheduler.plugins.rounds import Rounds
from tests.builders import configuration


@pytest.mark.parametrize("at_once", [True, False])
def test_rounds_are_a_period_apart_and_the_same_when_a_cluster_is_simulated_once_more(at_once: bool) -> None:
    rounds, conf = Rounds(at_once=at_once), configuration([])
    for _ in range(2):
        made = [moment for moment in (10, 11, 69, 70, 71, 130) if rounds.due(conf, moment, 60)]
        assert made == ([10, 70, 130] if at_once else [70, 130])


@pytest.mark.parametrize("at_once", [True, False])
def test_whoever_looks_twice_at_one_moment_gets_the_same_answer(at_once: bool) -> None:
    rounds, conf = Rounds(at_once=at_once), configuration([])
    assert [rounds.due(conf, 10, 60) for _ in range(3)] == [at_once] * 3


def test_another_configuration_begins_anew() -> None:
    rounds = Rounds(at_once=True)
    assert rounds.due(configuration(["gang"]), 10, 60)
    assert rounds.due(configuration(["tdm"]), 11, 60)
