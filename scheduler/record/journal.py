"""The files of a recording: frames in, bounded in size.

Each file is self-contained. A new one begins when one is full, and the oldest are removed when all are too large.
A disk that is full or gone ends the recording, never the scheduler.
"""

import gzip
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from scheduler.record.frames import AnyFrame, joined

SUFFIX: Final = ".record"
FILES: Final = 16
"""The number of files into which the space is divided."""
_LEVEL: Final = 1
"""The level of compression: a fast one, with which text that repeats itself shrinks well all the same."""


class Journal:
    """Writes one recording into a directory."""

    def __init__(self, directory: Path, limit: int, stamp: str, report: Callable[[str], None]) -> None:
        """``limit``: bytes that all files of the directory may take; ``stamp``: the beginning of their names;
        ``report`` is called, once, with the reason why the recording has ended. Raises OSError if the directory cannot
        be created."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._limit = limit
        self._stamp = stamp
        self._report = report
        self._file: Path | None = None
        self._size = 0
        self._beginning = 0
        """Bytes of the file that its beginning takes."""
        self._number = 0
        self.ended = False
        """Whether the recording has ended, because a file could not be written."""

    @property
    def open(self) -> bool:
        """Whether there is a file to write to."""
        return self._file is not None and not self.ended

    @property
    def full(self) -> bool:
        """Whether the next frames should begin a new file."""
        return self._file is None or self._size >= self._enough

    @property
    def _enough(self) -> int:
        """Bytes of one file: a share of the space, or more where what there was alone takes much of that."""
        return max(self._limit // FILES, 2 * self._beginning)

    def begin(self, frames: Iterable[AnyFrame]) -> None:
        """Begins a new file with the frames that make it self-contained."""
        if self.ended:
            return
        self._number += 1
        self._file = self._directory / f"{self._stamp}-{self._number:05}{SUFFIX}"
        self._size = 0
        try:
            self._make_room()
        except OSError as error:
            self._end(self._directory, error)
        self.write(frames)
        self._beginning = self._size

    def write(self, frames: Iterable[AnyFrame]) -> None:
        """Adds frames that belong together: they are read back together or not at all."""
        if self._file is None or self.ended:
            return
        member = gzip.compress(joined(frames), _LEVEL, mtime=0)
        try:
            with self._file.open("ab") as file:
                file.write(member)
        except OSError as error:
            self._end(self._file, error)
        self._size += len(member)

    def _end(self, path: Path, error: OSError) -> None:
        self.ended = True
        self._report(f"{path}: {error.strerror or error}")

    def _make_room(self) -> None:
        """Removes the oldest files until a new one fits beside the rest."""
        files = sorted(self._directory.glob(f"*{SUFFIX}"), key=lambda path: (path.stat().st_mtime, path.name))
        space = sum(path.stat().st_size for path in files) + self._enough
        for path in files:
            if space <= self._limit:
                return
            space -= path.stat().st_size
            path.unlink(missing_ok=True)
