"""Recordings with hostile content: recordings that inflate or are nested without end are refused."""

import gzip
from pathlib import Path

import pytest

from scheduler.record import frames
from scheduler.record.frames import Begin, RecordingError, joined, read_frames
from scheduler.record.replay import replay
from tests.builders import NAME, group, node, pods, queue
from tests.unit.record.test_recording import Recorded


@pytest.mark.slow
def test_a_member_that_inflates_without_end_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.record"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    monkeypatch.setattr(frames, "MAX_MEMBER", 1_000_000)
    with pytest.raises(RecordingError, match=r"bomb\.record: a member of more than 1000000 bytes when decompressed"):
        list(read_frames(path))


def test_a_file_of_many_members_that_inflate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.record"
    frame = Begin(1, "x" * 900_000, [], "default", [])
    path.write_bytes(gzip.compress(joined([frame])) * 100)
    monkeypatch.setattr(frames, "MAX_MEMBER", 1_000_000)
    with pytest.raises(
        RecordingError, match=r"bomb\.record: the first \d+ bytes are \d+ when decompressed, at most 100"
    ):
        list(read_frames(path))


@pytest.mark.slow
def test_a_recording_inflates_far_less_than_is_read(tmp_path: Path) -> None:
    many = [node(f"n{i}", "64c") for i in range(500)] + pods("g", 2000, "1c", "g") + [group("g", "q", 2000), queue("q")]
    (path,) = Recorded(tmp_path, many).run(2).files
    with gzip.open(path) as file:
        assert len(file.read()) < frames.MAX_RATIO / 3 * path.stat().st_size


@pytest.mark.parametrize("tag", ["Put", "Opened", "Usage"])
def test_a_frame_that_is_nested_without_end_is_refused(tag: str, tmp_path: Path) -> None:
    deep = b"\x91" * 100_000 + b"\xc0"
    frame = b"\x93" + bytes([0xA0 + len(tag)]) + tag.encode() + b"\xa3Pod" + deep
    path = tmp_path / "deep.record"
    begin = joined([Begin(frames.FORMAT, "x", [NAME], "default", [])])
    path.write_bytes(gzip.compress(begin + len(frame).to_bytes(4, "big") + frame))
    with pytest.raises(RecordingError, match=r"deep\.record"):
        list(replay(path))
