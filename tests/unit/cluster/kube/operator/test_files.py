"""Files that Pods read."""

import asyncio
from pathlib import Path

import pytest

from scheduler.cluster.kube.operator.executor import DirectoryFiles, FilesError
from scheduler.controllers.effects import FileEffect, RemoveFile, WriteFile


def carry_out(root: Path, *effects: FileEffect) -> None:
    async def run() -> None:
        files = DirectoryFiles(root)
        for effect in effects:
            await files.carry_out(effect)

    asyncio.run(run())


def test_a_file_is_replaced_and_everyone_can_read_it(tmp_path: Path) -> None:
    carry_out(tmp_path, WriteFile("ns.job", "hccl.json", "old"), WriteFile("ns.job", "hccl.json", "new"))
    file = tmp_path / "ns.job" / "hccl.json"
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in file.parent.iterdir()] == ["hccl.json"]


def test_the_directory_goes_with_its_last_file(tmp_path: Path) -> None:
    carry_out(tmp_path, WriteFile("ns.job", "a", ""), WriteFile("ns.job", "b", ""), RemoveFile("ns.job", "a"))
    assert (tmp_path / "ns.job").exists()
    carry_out(tmp_path, RemoveFile("ns.job", "b"), RemoveFile("ns.job", "b"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match=r"^ns\.job/hccl\.json: No such file or directory$"):
        carry_out(tmp_path / "missing", WriteFile("ns.job", "hccl.json", ""))
