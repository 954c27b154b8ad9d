"""Writes files that Pods read: rank tables in a directory that all nodes share."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Final

from scheduler.controllers.effects import FileEffect, RemoveFile, WriteFile

READABLE: Final = 0o644
ENTERABLE: Final = 0o755


class FilesError(Exception):
    """A file could not be written or removed."""


class DirectoryFiles:
    """The files below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def carry_out(self, effect: FileEffect) -> None:
        """Carries out an effect in a thread, because a shared directory may be slow. Raises FilesError."""
        try:
            await asyncio.to_thread(self._carry_out, effect)
        except OSError as error:
            raise FilesError(f"{effect.directory}/{effect.name}: {error.strerror}") from error

    def _carry_out(self, effect: FileEffect) -> None:
        if isinstance(effect, WriteFile):
            self._write(effect)
        else:
            self._remove(effect)

    def _write(self, effect: WriteFile) -> None:
        """Replaces the file at once, so that no reader sees half of it."""
        directory = self._root / effect.directory
        directory.mkdir(mode=ENTERABLE, exist_ok=True)
        temporary = directory / f".{effect.name}.new"  # only the leader writes, and never two of one job at once
        temporary.write_text(effect.text, encoding="utf-8")
        temporary.chmod(READABLE)
        temporary.replace(directory / effect.name)

    def _remove(self, effect: RemoveFile) -> None:
        directory = self._root / effect.directory
        (directory / effect.name).unlink(missing_ok=True)
        with suppress(OSError):
            directory.rmdir()
