"""Durations as Go writes them."""

import pytest

from scheduler.api.duration import DurationError, format_duration, parse_duration


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
def test_what_go_would_not_read_is_an_error(text: str) -> None:
    with pytest.raises(DurationError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (0.1, "100ms"), (1, "1s"), (1.5, "1.5s"), (60, "1m0s"), (90.25, "1m30.25s"), (600, "10m0s"),
        (3600, "1h0m0s"), (90061, "25h1m1s"), (-90, "-1m30s"), (0.0001, "0s"),
    ],
)  # fmt: skip
def test_seconds_are_written_as_go_prints_them(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
    assert parse_duration(text) == pytest.approx(seconds, abs=0.001)
