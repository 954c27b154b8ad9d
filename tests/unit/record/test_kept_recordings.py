"""Every kept recording replays to the decisions that it contains."""

from pathlib import Path

import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.record.journal import SUFFIX
from scheduler.record.replay import replay

RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob(f"*{SUFFIX}"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_kept_recording_replays_to_the_same_decisions(path: Path) -> None:
    sessions = list(replay(path))
    assert sessions
    for session in sessions:
        assert session.same, (session.number, session.error, session.differences[:5])
