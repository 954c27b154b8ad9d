"""The times of schedules, compared with local time."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.cron import CronError, load_zone, parse_cron
from tests.examples import examples

ZONES = ["UTC", "America/New_York", "Europe/London", "Australia/Lord_Howe", "America/St_Johns", "Asia/Tokyo"]


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def fires(schedule: str, after: str, count: int = 1, zone: str = "UTC") -> list[str]:
    """The next times of a schedule, in local time."""
    cron, moment, shown = parse_cron(schedule, load_zone(zone)), at(after), []
    for _ in range(count):
        found = cron.next_after(moment)
        assert found is not None
        moment = found
        shown.append(datetime.fromtimestamp(found, ZoneInfo(zone)).isoformat())
    return shown


# --- notation ---
@pytest.mark.parametrize(
    ("schedule", "after", "then"),
    [
        ("* * * * *", "2026-01-31T09:00:00Z", "2026-01-31T09:01:00+00:00"),
        ("* * * * *", "2026-01-31T09:00:59.9Z", "2026-01-31T09:01:00+00:00"),
        ("*/15 * * * *", "2026-01-31T09:00:00Z", "2026-01-31T09:15:00+00:00"),
        ("5/20 * * * *", "2026-01-31T09:06:00Z", "2026-01-31T09:25:00+00:00"),
        ("0 9-17/4 * * *", "2026-01-31T10:00:00Z", "2026-01-31T13:00:00+00:00"),
        ("0 0 1 FEB-apr,12 ?", "2026-04-01T00:00:00Z", "2026-12-01T00:00:00+00:00"),
        ("30 6 * * Mon-Fri", "2026-01-30T06:30:00Z", "2026-02-02T06:30:00+00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00+00:00"),
        ("@hourly", "2026-01-31T09:00:00Z", "2026-01-31T10:00:00+00:00"),
        ("@daily", "2026-01-31T09:00:00Z", "2026-02-01T00:00:00+00:00"),
        ("@midnight", "2026-01-31T09:00:00Z", "2026-02-01T00:00:00+00:00"),
        ("@weekly", "2026-01-31T09:00:00Z", "2026-02-01T00:00:00+00:00"),
        ("@monthly", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00+00:00"),
        ("@yearly", "2026-01-31T09:00:00Z", "2027-01-01T00:00:00+00:00"),
        ("@annually", "2026-01-31T09:00:00Z", "2027-01-01T00:00:00+00:00"),
        ("@every 1h30m", "2026-01-31T09:00:10Z", "2026-01-31T10:30:10+00:00"),
        ("@every 10ms", "2026-01-31T09:00:10.7Z", "2026-01-31T09:00:11+00:00"),
    ],
)  # fmt: skip
def test_a_schedule_fires_next(schedule: str, after: str, then: str) -> None:
    assert fires(schedule, after) == [then]


def test_a_day_of_the_month_or_a_weekday_is_enough_when_both_are_given() -> None:
    assert fires("0 0 13 * 5", "2026-02-01T00:00:00Z", 3) == [
        "2026-02-06T00:00:00+00:00",
        "2026-02-13T00:00:00+00:00",
        "2026-02-20T00:00:00+00:00",
    ]


def test_a_day_of_the_month_and_any_weekday_is_that_day_alone() -> None:
    assert fires("0 0 13 * *", "2026-02-01T00:00:00Z", 2) == ["2026-02-13T00:00:00+00:00", "2026-03-13T00:00:00+00:00"]


def test_every_second_weekday_is_not_any_weekday() -> None:
    """A star with a step narrows: robfig/cron then takes either field."""
    assert fires("0 0 1 * */6", "2026-02-01T00:00:00Z", 2) == ["2026-02-07T00:00:00+00:00", "2026-02-08T00:00:00+00:00"]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "'' has 0 fields, not 5 (minute, hour, day, month, weekday)"),
        ("* * * *", "'* * * *' has 4 fields, not 5 (minute, hour, day, month, weekday)"),
        ("0 * * * * *", "'0 * * * * *' has 6 fields, not 5 (minute, hour, day, month, weekday)"),
        ("60 * * * *", "'60' is not within 0 and 59"),
        ("* * 0 * *", "'0' is not within 1 and 31"),
        ("* * * * 7", "'7' is not within 0 and 6"),
        ("5-3 * * * *", "'5-3' ends before it begins"),
        ("*/0 * * * *", "'*/0' has a step of 0"),
        ("1/2/3 * * * *", "'1/2/3' has too many slashes"),
        ("1-2-3 * * * *", "'1-2-3' has too many hyphens"),
        (", * * * *", "',' holds nothing"),
        ("-1 * * * *", "'' is not a number"),
        ("* * * foo *", "'foo' is not a number"),
        ("@never", "'@never' is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, "
                   "@every <duration>"),
        ("@every soon", "'@every soon': not a duration: 'soon'"),
        ("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
        ("TZ=UTC", "'' has 0 fields, not 5 (minute, hour, day, month, weekday)"),
    ],
)  # fmt: skip
def test_a_malformed_schedule_is_refused_with_the_reason(schedule: str, message: str) -> None:
    with pytest.raises(CronError) as refusal:
        parse_cron(schedule)
    assert str(refusal.value) == message


@pytest.mark.parametrize("schedule", ["* * * dec-jan *", "٣ * * * *", "9" * 5000 + " * * * *", "@every 9999999h", "\0"])
def test_a_long_malformed_schedule_has_a_short_error(schedule: str) -> None:
    with pytest.raises(CronError) as refusal:
        parse_cron(schedule)
    assert len(str(refusal.value)) < 200


def test_a_schedule_has_five_fields() -> None:
    schedule = parse_cron("*/20 1-3,22 1 jan,JUN mon-wed")
    assert sorted(schedule.minutes) == [0, 20, 40]
    assert sorted(schedule.hours) == [1, 2, 3, 22]
    assert (sorted(schedule.days), sorted(schedule.months)) == ([1], [1, 6])
    assert sorted(schedule.weekdays) == [1, 2, 3]


@given(st.text(max_size=40))
def test_arbitrary_text_is_a_schedule_or_a_cron_error(text: str) -> None:
    try:
        found = parse_cron(text).next_after(0)
    except CronError:
        return
    assert found is None or found > 0


def test_a_date_that_does_not_exist_never_fires() -> None:
    assert parse_cron("59 23 31 2 *").next_after(at("2026-01-01T00:00:00Z")) is None


def test_a_schedule_without_a_time_in_five_years_never_fires() -> None:
    assert parse_cron("0 0 29 2 *").next_after(at("2097-01-01T00:00:00Z")) is None


@pytest.mark.parametrize("moment", [1e18, -1e18, at("8999-12-31T23:59:30Z") + 86400])
def test_a_time_beyond_the_calendar_has_no_next_time(moment: float) -> None:
    assert parse_cron("* * * * *").next_after(moment) is None


# --- zones ---
@pytest.mark.parametrize("name", ["Mars/Base", "../etc/passwd", "/etc/passwd", "America", "a\0b", "x" * 5000])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(CronError, match="unknown time zone"):
        load_zone(name)


@pytest.mark.parametrize("name", ["", "Local", "UTC"])
def test_no_zone_is_utc(name: str) -> None:
    assert datetime.fromtimestamp(0, load_zone(name)).utcoffset() == datetime.fromtimestamp(0, UTC).utcoffset()


@pytest.mark.parametrize("prefix", ["TZ", "CRON_TZ"])
def test_a_zone_in_the_schedule_overrides_the_given_zone(prefix: str) -> None:
    cron = parse_cron(f"{prefix}=Asia/Tokyo 0 9 * * *", ZoneInfo("America/New_York"))
    assert cron.next_after(at("2026-01-31T00:00:00Z")) == at("2026-02-01T09:00:00+09:00")
    assert cron.next_after(at("2026-01-30T23:00:00Z")) == at("2026-01-31T09:00:00+09:00")


def test_a_local_time_skipped_in_spring_does_not_fire_that_day() -> None:
    assert fires("30 2 * * *", "2026-03-07T12:00:00Z", 2, "America/New_York") == [
        "2026-03-09T02:30:00-04:00",
        "2026-03-10T02:30:00-04:00",
    ]


def test_a_local_time_repeated_in_autumn_fires_twice() -> None:
    assert fires("30 1 * * *", "2026-11-01T00:00:00-04:00", 3, "America/New_York") == [
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-02T01:30:00-05:00",
    ]


def test_an_hourly_schedule_fires_every_hour_through_both_clock_changes() -> None:
    assert fires("0 * * * *", "2026-03-08T00:30:00-05:00", 3, "America/New_York") == [
        "2026-03-08T01:00:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-08T04:00:00-04:00",
    ]
    assert fires("0 * * * *", "2026-11-01T00:30:00-04:00", 3, "America/New_York") == [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T02:00:00-05:00",
    ]


def test_a_midnight_that_does_not_exist_is_skipped() -> None:
    """In Sao Paulo, clocks were changed from 00:00 to 01:00."""
    assert fires("0 0 * * *", "2018-11-03T12:00:00Z", 1, "America/Sao_Paulo") == ["2018-11-05T00:00:00-02:00"]


def test_daylight_saving_of_half_an_hour_does_not_move_local_times() -> None:
    assert fires("15 3 * * *", "2026-10-03T12:00:00Z", 1, "Australia/Lord_Howe") == ["2026-10-04T03:15:00+11:00"]


# --- against a scan of all minutes ---
def subset(low: int, high: int) -> st.SearchStrategy[list[int]]:
    some = st.lists(st.integers(low, high), min_size=1, max_size=6, unique=True)
    return st.one_of(some, st.just(list(range(low, high + 1))))


CHANGES = [
    at("2026-03-08T07:00:00Z"),
    at("2026-11-01T06:00:00Z"),
    at("2026-10-03T15:30:00Z"),
    at("2026-03-29T01:00:00Z"),
    at("2008-11-02T02:31:00Z"),
]
"""The clock changes of one of the zones."""


@settings(max_examples=examples(60), deadline=None)
@given(
    minutes=subset(0, 59),
    hours=subset(0, 23),
    days=subset(1, 31),
    weekdays=subset(0, 6),
    zone=st.sampled_from(ZONES),
    change=st.sampled_from(CHANGES),
    offset=st.integers(-86400, 86400),
)
def test_the_next_time_is_the_first_minute_that_matches(
    minutes: list[int], hours: list[int], days: list[int], weekdays: list[int], zone: str, change: float, offset: int
) -> None:
    fields = [",".join(map(str, numbers)) for numbers in (minutes, hours, days)]
    schedule = parse_cron(f"{' '.join(fields)} * {','.join(map(str, weekdays))}", load_zone(zone))
    start = int(change) + offset

    def matches(moment: int) -> bool:
        local = datetime.fromtimestamp(moment, ZoneInfo(zone))
        day = local.day in days or local.isoweekday() % 7 in weekdays
        return local.minute in minutes and local.hour in hours and day

    scanned = [m for m in range(start // 60 * 60 + 60, start + 2 * 86400, 60) if matches(m)]
    found, moment = [], float(start)
    while (then := schedule.next_after(moment)) is not None and then < start + 2 * 86400:
        assert then > moment
        found.append(then)
        moment = then
    assert found == scanned
    end = start + 2 * 86400 - 1
    assert schedule.last_until(start, end) == (scanned[-1] if scanned else None)


# --- the last time ---
@pytest.mark.parametrize(
    ("schedule", "after", "until", "last"),
    [
        ("*/5 9-16 * * 1-5", "2026-01-30T10:00:00Z", "2026-01-30T20:00:00Z", "2026-01-30T16:55:00Z"),
        ("0 0 * * *", "2016-01-01T00:00:00Z", "2026-01-30T20:00:00Z", "2026-01-30T00:00:00Z"),
        ("0 0 1 1 *", "2026-01-01T00:00:00Z", "2026-12-31T23:59:59Z", None),
        ("@every 7m", "2026-01-30T00:01:00Z", "2026-01-30T00:30:00Z", "2026-01-30T00:29:00Z"),
        ("@every 7m", "2026-01-30T00:01:00Z", "2026-01-30T00:07:59Z", None),
        ("0 0 31 2 *", "2026-01-01T00:00:00Z", "2026-12-31T23:59:59Z", None),
    ],
)
def test_the_last_time_in_an_interval(schedule: str, after: str, until: str, last: str | None) -> None:
    assert parse_cron(schedule).last_until(at(after), at(until)) == (None if last is None else at(last))
