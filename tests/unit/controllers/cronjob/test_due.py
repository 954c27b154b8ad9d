"""The time of a schedule that is due."""

from datetime import datetime

import pytest

from scheduler.api.cron import CronError, parse_cron
from scheduler.controllers.cronjob.start import find_due

NEVER = float("-inf")


def at(text: str) -> float:
    return datetime.fromisoformat(f"2026-01-30T{text}Z").timestamp()


def test_nothing_is_due_before_the_first_time() -> None:
    found = find_due(parse_cron("*/5 * * * *"), at("09:01:00"), NEVER, at("09:04:59.9"))
    assert (found.at, found.next, found.many) == (None, at("09:05:00"), False)


def test_the_time_that_has_just_come_is_due() -> None:
    found = find_due(parse_cron("*/5 * * * *"), at("09:00:00"), NEVER, at("09:05:00"))
    assert (found.at, found.next, found.many) == (at("09:05:00"), at("09:10:00"), False)


def test_of_times_that_were_missed_only_the_last_is_due() -> None:
    found = find_due(parse_cron("*/5 * * * *"), at("09:00:00"), NEVER, at("09:33:20"))
    assert (found.at, found.next, found.many) == (at("09:30:00"), at("09:35:00"), False)


def test_the_last_missed_time_is_due_however_uneven_the_schedule_is() -> None:
    """An estimate from the first two times would yield 7:45, and nothing would be due."""
    found = find_due(parse_cron("*/5 9-16 * * *"), at("10:00:00"), NEVER, at("20:00:00"))
    assert (found.at, found.many) == (at("16:55:00"), True)


@pytest.mark.parametrize(("now", "many"), [("10:39:59", False), ("10:40:00", False), ("10:41:00", True)])
def test_more_than_a_hundred_missed_times_are_many(now: str, many: bool) -> None:
    assert find_due(parse_cron("* * * * *"), at("09:00:00"), NEVER, at(now)).many is many


def test_what_came_up_before_the_floor_is_not_made_up_for() -> None:
    found = find_due(parse_cron("*/5 * * * *"), at("09:00:00"), at("09:30:00"), at("09:33:20"))
    assert (found.at, found.next) == (None, at("09:35:00"))


def test_what_came_up_after_the_floor_is_due_and_only_that_counts() -> None:
    found = find_due(parse_cron("* * * * *"), at("00:00:00"), at("09:29:59"), at("09:33:20"))
    assert (found.at, found.next, found.many) == (at("09:33:00"), at("09:34:00"), False)


def test_a_period_longer_than_the_floor_is_wide_still_comes_up() -> None:
    """If times were computed from the floor, the schedule would never be due."""
    found = find_due(parse_cron("@every 1h"), at("09:00:10"), at("10:00:05"), at("10:00:15"))
    assert (found.at, found.next, found.many) == (at("10:00:10"), at("11:00:10"), False)


def test_a_period_keeps_its_phase_over_missed_times() -> None:
    found = find_due(parse_cron("@every 7m"), at("09:01:00"), NEVER, at("09:30:00"))
    assert (found.at, found.next) == (at("09:29:00"), at("09:36:00"))


def test_a_schedule_that_never_comes_up_is_an_error() -> None:
    with pytest.raises(CronError, match="time difference between two schedules is less than 1 second"):
        find_due(parse_cron("59 23 31 2 *"), at("09:00:00"), NEVER, at("09:30:00"))
