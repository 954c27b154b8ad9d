"""Ages in kubectl's notation, tables on narrow terminals, and colours."""

import sys
import time
from datetime import UTC, datetime

import pytest

from scheduler.api.printable import printable
from scheduler.cli.layout import width_of, wrapped
from scheduler.cli.output import Column, RowTable
from scheduler.cli.text import age, coloured_by_phase, echo, local_time

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 5 * MINUTE, "7h5m"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + HOUR, "8d"),
        (729 * DAY, "729d"),
        (731 * DAY, "2y1d"),
        (3000 * DAY, "8y"),
    ],
)
def test_older_ages_are_less_precise(seconds: int, text: str) -> None:
    since = datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert age(since, NOW) == text


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-01-01T00:00:00", "9999-99-99T00:00:00Z"])
def test_a_malformed_time_has_no_age(time: str | None) -> None:
    assert age(time, NOW) == "<unknown>"


def test_printed_text_is_one_line_without_control_characters() -> None:
    assert printable("a\nb\x1b[31mc\u202ed") == r"a b\x1b[31mc\u202ed"
    assert printable("\x9b\x7f\u2028\u200b\ufeff\U000e0041\ud800\u3164") == (
        r"\x9b\x7f\u2028\u200b\ufeff\U000e0041\ud800\u3164"
    )
    assert printable("naïve – 训练") == "naïve – 训练"


COLUMNS: list[Column[tuple[str, str]]] = [
    Column("Name", lambda row: row[0], 20),
    Column("Reason", lambda row: row[1], elastic=True),
]
ROW = ("a-name-of-28-characters-long", "cpu: asked 4, most free on one node 1500m")


def test_without_a_terminal_nothing_is_cut_off() -> None:
    assert RowTable(COLUMNS).lines([ROW])[1] == f"{ROW[0]}  {ROW[1]}"


def test_below_120_columns_a_reason_is_below_its_row() -> None:
    assert RowTable(COLUMNS, limit=119).lines([ROW, ("b", "")]) == [
        "Name",
        "a-name-of-28-characters-long",
        "  Reason: cpu: asked 4, most free on one node 1500m",
        "b",
    ]
    assert RowTable(COLUMNS, limit=50).lines([ROW])[2:] == [
        "  Reason: cpu: asked 4, most free on one node",
        "    1500m",
    ]


def test_from_120_columns_on_a_reason_is_in_its_column_and_wraps() -> None:
    title, *lines = RowTable(COLUMNS, limit=120).lines([(ROW[0], f"{ROW[1]}, {ROW[1]}, {ROW[1]}")])

    assert title == "Name" + " " * 26 + "Reason"
    assert lines == [
        f"{ROW[0]}  {ROW[1]}, {ROW[1]}, cpu:",
        " " * 30 + "asked 4, most free on one node 1500m",
    ]


def test_a_reason_is_in_no_column_of_less_than_40() -> None:
    below = RowTable(COLUMNS, limit=120).lines([("n" * 79, "why " * 30)])
    assert below[1:3] == ["n" * 79, "  Reason: " + "why " * 26 + "why"]

    beside = RowTable(COLUMNS, limit=120).lines([("n" * 77, "x" * 200)])
    assert beside[1:3] == ["n" * 77 + "  " + "x" * 41, " " * 79 + "x" * 41]


def test_columns_that_do_not_fit_continue_on_a_second_line() -> None:
    columns: list[Column[str]] = [Column(title, lambda row: row) for title in ("ALPHA", "BETA", "GAMMA")]

    assert RowTable(columns, limit=12).lines(["a"]) == ["ALPHA  BETA", "  GAMMA", "a      a", "  a"]


def test_gaps_shrink_before_a_row_takes_several_lines() -> None:
    columns: list[Column[tuple[str, str]]] = [COLUMNS[0], Column("Phase", lambda row: row[1])]

    assert RowTable(columns, limit=12).lines([("short", "why")]) == ["Name   Phase", "short  why"]


def test_wide_characters_take_two_columns_and_words_are_broken_only_if_they_must_be() -> None:
    assert width_of("训练 a") == 6
    assert wrapped("训练训练 abc", 5) == ["训练", "训练", "abc"]
    assert wrapped("abcdefgh ij", 4) == ["abcd", "efgh", "ij"]


def test_a_list_is_broken_after_its_commas_and_begins_beside_its_title() -> None:
    listed = "NVIDIA-H200=2/3,NVIDIA-H800=0/2,NVIDIA-L40S=1/1"
    assert wrapped(f"Cards: {listed}", 40) == ["Cards: NVIDIA-H200=2/3,NVIDIA-H800=0/2,", "NVIDIA-L40S=1/1"]
    assert wrapped("a short,list stays", 14) == ["a short,list", "stays"]


def test_later_rows_keep_the_widths_of_the_first() -> None:
    table = RowTable(COLUMNS)
    table.lines([("first", "a")])

    assert table.lines([("second", "b")]) == ["second              b"]


def test_colours_are_enabled_on_terminals_unless_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert coloured_by_phase("Running", "Running") == "Running"

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    echo(coloured_by_phase("Running", "Run\x1b[2Jning"))
    assert capsys.readouterr().out == "\x1b[32mRun\\x1b[2Jning\x1b[0m\n"
    assert coloured_by_phase("SomethingElse", "x") == "x"

    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured_by_phase("Running", "Running") == "Running"


def test_times_are_those_of_the_local_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    form = "%Y-%m-%d %H:%M:%S %z %Z"
    assert local_time("2026-01-01T20:00:00Z", form) == "2026-01-01 20:00:00 +0000 UTC"
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Shanghai")
        time.tzset()
        assert local_time("2026-01-01T20:00:00Z", form) == "2026-01-02 04:00:00 +0800 CST"
    time.tzset()
    for malformed in (None, "", "yesterday", "2026-01-01T20:00:00"):
        assert local_time(malformed, form) == ""
