"""Moments as Kubernetes writes them."""

import time

import pytest

from scheduler.api.moment import format_moment, parse_moment


def test_a_moment_is_written_without_fractions_and_read_again() -> None:
    assert format_moment(1_800_000_000.9) == "2027-01-15T08:00:00Z"
    assert parse_moment("2027-01-15T08:00:00Z") == 1_800_000_000
    assert parse_moment("2027-01-15T10:00:00.5+02:00") == 1_800_000_000.5


def test_a_moment_without_a_zone_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert parse_moment("2027-01-15T08:00:00") == 1_800_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("text", [None, "", "yesterday", "2027-13-01T00:00:00Z"])
def test_what_is_no_moment_is_none(text: str | None) -> None:
    assert parse_moment(text) is None
