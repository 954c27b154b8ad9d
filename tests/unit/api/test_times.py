"""Timestamps of Kubernetes, and durations of Go."""

import time

import pytest

from scheduler.api.times import (
    DurationError,
    format_duration,
    format_timestamp,
    parse_duration,
    parse_timestamp,
    seconds_left,
)


def test_a_timestamp_is_written_without_fractions_and_read_again() -> None:
    assert format_timestamp(1_800_000_000.9) == "2027-01-15T08:00:00Z"
    assert parse_timestamp("2027-01-15T08:00:00Z") == 1_800_000_000
    assert parse_timestamp("2027-01-15T10:00:00.5+02:00") == 1_800_000_000.5


def test_a_timestamp_without_a_zone_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert parse_timestamp("2027-01-15T08:00:00") == 1_800_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", [None, "", "yesterday", "2027-13-01T00:00:00Z"])
def test_a_malformed_timestamp_is_none(text: str | None) -> None:
    assert parse_timestamp(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0), ("30s", 30), ("1h30m", 5400), ("1.5h", 5400), (".5s", 0.5), ("1.s", 1), ("100ms", 0.1), ("5us", 5e-6),
        ("5µs", 5e-6), ("5μs", 5e-6), ("7ns", 7e-9), ("-1m", -60), ("+1m", 60), ("1m1m", 120),
    ],
)  # fmt: skip
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", " 5s", "5s ", "5d", "--5s", "1h-5m", "5S", "٣s", "9999999999h"])
def test_a_text_that_go_does_not_parse_is_an_error(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (0.1, "100ms"), (1, "1s"), (1.5, "1.5s"), (60, "1m0s"), (90.25, "1m30.25s"), (600, "10m0s"),
        (3600, "1h0m0s"), (90061, "25h1m1s"), (-90, "-1m30s"), (0.0001, "0s"),
    ],
)  # fmt: skip
def test_seconds_are_formatted_as_go_does(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == pytest.approx(seconds, abs=0.001)


def test_a_pause_is_over_at_its_end_and_when_the_clock_was_set_back() -> None:
    assert seconds_left(110.0, 108.0, 10.0) == 2.0
    assert seconds_left(110.0, 110.0, 10.0) == 0.0
    assert seconds_left(110.0, 110.0 - 3600, 10.0) == 0.0
