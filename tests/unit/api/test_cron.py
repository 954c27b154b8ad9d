"""Schedules of CronJobs: what they mean, and what is none."""

import pytest

from scheduler.api.cron import CronError, parse_cron


def test_five_fields_say_when() -> None:
    schedule = parse_cron("*/20 1-3,22 1 jan,JUN mon-wed")
    assert sorted(schedule.minutes) == [0, 20, 40]
    assert sorted(schedule.hours) == [1, 2, 3, 22]
    assert (sorted(schedule.days), sorted(schedule.months)) == ([1], [1, 6])
    assert sorted(schedule.weekdays) == [1, 2, 3]
    assert not schedule.any_day


def test_a_start_with_a_step_goes_to_the_end() -> None:
    assert sorted(parse_cron("50/4 * * * *").minutes) == [50, 54, 58]


@pytest.mark.parametrize(
    ("text", "any_day"), [("0 0 * * *", True), ("0 0 1 * *", True), ("0 0 ? * 1", True), ("0 0 */2 * 1", False)]
)
def test_day_and_weekday_both_have_to_hold_if_one_of_them_is_any(text: str, any_day: bool) -> None:
    assert parse_cron(text).any_day is any_day


def test_words_stand_for_fields() -> None:
    assert parse_cron("@daily") == parse_cron("@midnight") == parse_cron("0 0 * * *")
    assert parse_cron("@every 1h30m").every == 5400
    assert parse_cron("@every 10ms").every == 1


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "5-1 * * * *",
        "*/0 * * * *", "1/2/3 * * * *", "1-2-3 * * * *", "-1 * * * *", ", * * * *", "x * * * *", "@often",
        "@every soon", "* * * dec-jan *", "٣ * * * *", "9" * 5000 + " * * * *",
    ],
)  # fmt: skip
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(CronError):
        parse_cron(text)
