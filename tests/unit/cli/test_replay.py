"""``volcano-py replay`` and ``--record``: output and exit codes."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from scheduler.record.journal import SUFFIX
from tests.unit.record.test_recording import Recorded, some_cluster


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


def test_a_directory_without_differences_has_a_row_per_file(tmp_path: Path) -> None:
    Recorded(tmp_path, some_cluster()).run(3)
    result = run(tmp_path)
    assert result.exit_code == 0
    titles, row = result.output.splitlines()
    assert titles.split() == ["FILE", "SESSIONS", "BINDINGS", "EVICTIONS", "OUTCOME"]
    assert row.split() == [str(tmp_path / f"test-00001{SUFFIX}"), "3", "8", "0", "same"]


def test_a_session_that_differs_is_shown_with_both_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run(2)
    monkeypatch.setattr("scheduler.plugins.gang.Gang.open", lambda self, session: None)
    result = run(recorded.files[0])
    assert result.exit_code == 1
    assert "session 1 differs" in result.output
    assert "binds default/g3-0: n1; now nothing" in result.output


def test_json_has_all_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run(2)
    monkeypatch.setattr("scheduler.plugins.gang.Gang.open", lambda self, session: None)
    (item,) = json.loads(run(recorded.files[0], "-o", "json").output)["items"]
    assert item["sessions"] == 1 and item["differs"]["session"] == 1
    assert {"field": "binds", "name": "default/g3-0", "recorded": "n1", "now": ""} in item["differs"]["differences"]


def test_a_file_that_is_not_a_recording_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"x{SUFFIX}").write_text("hello")
    for path, problem in ((tmp_path, "not a recording"), (tmp_path / "none", "No such file")):
        result = run(path)
        assert result.exit_code == 2 and problem in result.output


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path)
    assert result.exit_code == 2 and f"no {SUFFIX} file in it" in result.output
