"""The lines of a streamed answer, from the parts in which it arrives."""

from typing import Final

MAX_LINE: Final = 64 * 2**20
"""Bytes of a line. An object has at most 3 MiB."""


class LineError(Exception):
    """A line is too long."""


class LineSplitter:
    """Splits one answer."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        """The parts of the line that has not arrived completely."""
        self._size = 0
        """Bytes in ``_rest``."""

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that are complete now. Raises LineError."""
        found = part.split(b"\n")
        last = found.pop()
        if found:
            if self._rest:
                found[0] = b"".join((*self._rest, found[0]))
                self._rest.clear()
            self._size = 0
        if last:
            self._rest.append(last)
            self._size += len(last)
            if self._size > MAX_LINE:
                raise LineError(f"a line of more than {MAX_LINE} bytes")
        return found

    def unfinished(self) -> bytes:
        """What follows the last newline."""
        return b"".join(self._rest)
