"""The program itself: its version, and its answer to a mistyped command."""

import json

import pytest
from click.testing import CliRunner

from scheduler import __version__
from scheduler.cli.main import main


def test_the_version_is_printed_as_text_and_as_an_object() -> None:
    text = CliRunner().invoke(main, ["version"]).stdout
    assert text.startswith(f"volcano-py {__version__} (Python 3.")
    versions = json.loads(CliRunner().invoke(main, ["version", "-o", "json"]).stdout)["clientVersion"]
    assert versions["version"] == __version__ and versions["python"] in text and versions["platform"] in text


@pytest.mark.parametrize(("typed", "meant"), [(["qeue", "list"], "queue"), (["job", "lsit"], "list")])
def test_a_mistyped_command_gets_a_suggestion(typed: list[str], meant: str) -> None:
    result = CliRunner().invoke(main, typed)
    assert result.exit_code == 2 and f"Did you mean '{meant}'?" in result.stderr
