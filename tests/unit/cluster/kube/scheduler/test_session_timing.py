"""The time at which the next session is due: the policy alone, with times as numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cache.versioning import Version
from scheduler.cluster.kube.scheduler.session_timing import (
    CREDIT,
    FIRST_PAUSE,
    LIMITED_CREDIT,
    REST,
    REST_OF_OTHERS,
    SessionResult,
    SessionTiming,
)

PERIOD = 1.0
NOTHING, WAITING, GANG = SessionResult(), SessionResult(waits=True), SessionResult(waits=True, gang_waits=True)


def after_session(result: SessionResult, seconds: float = 0.01) -> tuple[SessionTiming, Version]:
    """The timing at the end, 10.0, of a session that took ``seconds``."""
    counts = Version()
    timing = SessionTiming(PERIOD, counts)
    timing.begin()
    timing.end(10.0, seconds, result)
    return timing, counts


@pytest.mark.parametrize("result", [NOTHING, WAITING, GANG])
def test_without_a_change_the_period_passes(result: SessionResult) -> None:
    timing, _ = after_session(result)
    assert timing.due() == 10.0 + PERIOD


def test_a_rest_is_longer_than_the_period_until_something_changes() -> None:
    timing, counts = after_session(NOTHING)
    timing.begin()
    timing.skip(11.0, 10.0)
    assert (timing.rests, timing.due()) == (True, 21.0)
    counts.number += 1
    assert (timing.rests, timing.due()) == (False, 11.0 + PERIOD)
    counts.arrivals += 1
    assert timing.due() == 11.0


def test_a_rest_ends_with_the_next_session() -> None:
    timing, _ = after_session(NOTHING)
    timing.begin()
    timing.skip(11.0, 10.0)
    timing.begin()
    timing.end(21.0, 0.01, NOTHING)
    assert not timing.rests and timing.due() == 21.0 + PERIOD


def test_a_rest_is_not_shorter_than_the_period() -> None:
    timing, _ = after_session(NOTHING)
    timing.begin()
    timing.skip(11.0, PERIOD / 2)
    assert timing.due() == 11.0 + PERIOD


@pytest.mark.parametrize("result", [NOTHING, WAITING])
def test_an_arrival_starts_a_session_after_a_pause_that_follows_the_last_session(result: SessionResult) -> None:
    timing, counts = after_session(result, seconds=0.1)
    counts.arrivals += 1
    assert timing.due() == pytest.approx(10.0 + REST * 0.1 - CREDIT)


def test_after_a_session_that_left_out_pods_of_a_namespace_the_pods_of_others_wait_for_a_shorter_pause() -> None:
    timing, counts = after_session(SessionResult(waits=True, left_out=True), seconds=0.4)
    counts.arrivals += 1
    assert timing.due() == pytest.approx(10.0 + REST_OF_OTHERS * 0.4 - CREDIT)


def test_on_a_quiet_cluster_a_few_short_sessions_follow_each_other_without_a_pause() -> None:
    timing, counts = after_session(NOTHING, seconds=0.004)
    now, pauses = 10.0, []
    for _ in range(int(CREDIT / (REST * 0.004)) + 3):
        counts.arrivals += 1
        due = timing.due()
        pauses.append(due - now)
        timing.begin()
        now = due + 0.004
        timing.end(now, 0.004, NOTHING)
    assert pauses[:3] == [0, 0, 0]
    assert pauses[-2:] == pytest.approx([REST * 0.004] * 2)
    now += 1.0
    timing.begin()
    timing.end(now, 0.004, NOTHING)
    counts.arrivals += 1
    assert timing.due() == now


def test_a_short_session_after_long_ones_is_followed_by_a_short_pause() -> None:
    timing, counts = after_session(NOTHING, seconds=0.2)
    for now in (10.2, 10.4, 10.6):
        timing.begin()
        timing.end(now, 0.2, NOTHING)
    timing.begin()
    timing.end(11.0, 0.001, NOTHING)
    counts.arrivals += 1
    assert timing.due() == pytest.approx(11.0 + REST * 0.001)


def test_the_pause_after_a_long_session_is_at_most_the_period() -> None:
    timing, counts = after_session(NOTHING, seconds=5.0)
    counts.arrivals += 1
    assert timing.due() == 10.0 + PERIOD


def test_a_change_during_a_session_starts_the_next_one() -> None:
    timing, counts = after_session(NOTHING)
    timing.begin()
    counts.arrivals += 1
    timing.end(11.0, 0.0, NOTHING)
    assert timing.due() == 11.0
    timing.begin()
    timing.end(12.0, 0.0, NOTHING)
    assert timing.due() == 12.0 + PERIOD


def test_an_opening_starts_a_session_only_if_a_job_waits() -> None:
    timing, counts = after_session(NOTHING)
    counts.openings += 1
    assert timing.due() == 10.0 + PERIOD
    timing, counts = after_session(WAITING)
    counts.openings += 1
    assert timing.due() == 10.0


def test_while_a_gang_waits_an_arrival_starts_a_session_only_if_nothing_has_opened() -> None:
    timing, counts = after_session(GANG)
    counts.arrivals += 1
    assert timing.due() == 10.0
    counts.openings += 1
    assert timing.due() == 10.0 + PERIOD
    timing.begin()
    timing.end(11.0, 0.0, GANG)
    counts.arrivals += 1
    assert timing.due() == 11.0


def test_openings_that_let_nothing_be_placed_start_fewer_and_fewer_sessions() -> None:
    timing, counts = after_session(WAITING, seconds=0.0)
    now, pauses = 10.0, []
    for _ in range(8):
        counts.openings += 1
        pauses.append(timing.due() - now)
        now = timing.due()
        timing.begin()
        timing.end(now, 0.0, WAITING)
    assert pauses == pytest.approx([0, *(FIRST_PAUSE * 2**i for i in range(6)), PERIOD])
    counts.arrivals += 1
    assert timing.due() == now


@pytest.mark.parametrize(("opening", "placed"), [(True, True), (False, False)])
def test_a_session_that_places_something_or_follows_no_opening_resets_the_pause(opening: bool, placed: bool) -> None:
    timing, counts = after_session(WAITING, seconds=0.0)
    counts.openings += 1
    timing.begin()
    timing.end(20.0, 0.0, WAITING)
    counts.openings += opening
    timing.begin()
    timing.end(30.0, 0.0, SessionResult(waits=True, placed=placed))
    counts.openings += 1
    assert timing.due() == 30.0


def test_a_failed_session_is_repeated_after_the_period_whatever_changes() -> None:
    timing, counts = after_session(NOTHING)
    timing.begin()
    timing.fail(20.0)
    counts.arrivals += 1
    assert timing.due() == 20.0 + PERIOD


def test_after_a_session_that_was_not_needed_an_arrival_starts_one_at_once() -> None:
    timing, counts = after_session(NOTHING, seconds=0.2)
    timing.begin()
    timing.skip(20.0)
    assert timing.due() == 20.0 + PERIOD
    counts.arrivals += 1
    assert timing.due() == 20.0


EVENTS = st.lists(st.tuples(st.floats(0, 0.3), st.sampled_from(["arrivals", "openings"])), max_size=60)


@given(EVENTS, st.floats(0, 0.5), st.sampled_from([NOTHING, WAITING, GANG]))
def test_small_arrivals_neither_starve_a_gang_nor_hold_sessions_without_end(
    events: list[tuple[float, str]], seconds: float, result: SessionResult
) -> None:
    """While a gang waits, all resources that become free within a period are free for it at once. No pause is longer
    than the period, and early sessions take only their share of the time."""
    timing, counts = after_session(result, seconds)
    opened = 0
    now, ended, pauses, sessions = 10.0, 10.0, 0.0, 1
    for pause, kind in events:
        now += pause
        while (due := timing.due()) <= now:
            rested = due - ended
            assert rested <= PERIOD + 1e-9
            pauses += rested
            assert pauses + CREDIT >= sessions * min(PERIOD - CREDIT, REST * seconds) - 1e-9
            if result.gang_waits and counts.openings != opened:
                assert rested == pytest.approx(PERIOD)
            opened = counts.openings
            timing.begin()
            sessions += 1
            ended = due + seconds
            timing.end(ended, seconds, result)
            now = max(now, ended)
        setattr(counts, kind, getattr(counts, kind) + 1)


LIMITED = SessionResult(waits=True, gang_waits=True, placed=True, limited=True)


def test_a_session_that_stopped_at_a_limit_is_followed_by_another_at_once() -> None:
    timing, counts = after_session(LIMITED, seconds=0.2)
    assert timing.due() == 10.0
    counts.openings += 1
    assert timing.due() == 10.0


def test_sessions_that_stop_at_a_limit_one_after_the_other_owe_a_limited_pause() -> None:
    timing, _ = after_session(LIMITED, seconds=0.5)
    assert timing.due() == pytest.approx(10.0 + REST * 0.5 - LIMITED_CREDIT)


def test_a_failure_after_a_session_that_stopped_at_a_limit_is_followed_by_a_period() -> None:
    timing, _ = after_session(LIMITED)
    timing.begin()
    timing.fail(11.0)
    assert timing.due() == 11.0 + PERIOD
