"""What the bodies and headers of answers hold: compressed bodies, the lines of a stream, and warnings.

Warnings are in the header ``Warning`` (RFC 7234), with the code 299.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Final

GZIP: Final = b"\x1f"
"""The first byte of a compressed answer. No JSON begins with it."""
GZIP_FORMAT: Final = 31
"""zlib's number of it."""
_AT_ONCE: Final = 2**20
"""Bytes that are handed out at once, at most."""
MAX_LINE: Final = 64 * 2**20
"""Bytes of a line. An object has at most 3 MiB."""
_WARNING: Final = re.compile(r'\s*([0-9]{3}) [^\s",]+ "((?:[^"\\]|\\.)*)"(?: "[^"]*")?\s*(?:,|$)')
"""Code, agent, text and date."""
_MISCELLANEOUS: Final = "299"
"""The code of warnings for users; others are about caches."""
_ESCAPED: Final = re.compile(r"\\(.)")


class Inflater:
    """Hands out the parts of a body that may be compressed, as they arrive."""

    def __init__(self, receive: Callable[[bytes], object]) -> None:
        self._receive = receive
        self._begun = False
        self._inflating = zlib.decompressobj(GZIP_FORMAT)
        self._compressed = False

    def feed(self, part: bytes) -> None:
        """Hands out a part, decompressed if necessary. Raises zlib.error if the body is malformed."""
        if not self._begun and part:
            self._begun = True
            self._compressed = part.startswith(GZIP)
        if not self._compressed:
            self._receive(part)
            return
        while part:
            inflated = self._inflating.decompress(part, _AT_ONCE)
            part = self._inflating.unconsumed_tail
            if inflated:
                self._receive(inflated)

    def finish(self) -> None:
        """Ends the body. Raises zlib.error if it is cut off."""
        if self._compressed and not self._inflating.eof:
            raise zlib.error("it is cut off")


def inflated(body: bytes) -> bytes:
    """A whole body, decompressed if it is compressed. Raises zlib.error."""
    if not body.startswith(GZIP):
        return body
    parts: list[bytes] = []
    inflater = Inflater(parts.append)
    inflater.feed(body)
    inflater.finish()
    return b"".join(parts)


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
        """The bytes after the last newline."""
        return b"".join(self._rest)


def warning_texts(header: str) -> Iterator[str]:
    """The texts of a header, which may have several values, separated by commas. What follows an invalid one is left
    out."""
    position = 0
    while position < len(header) and (found := _WARNING.match(header, position)) is not None:
        code, text = found.groups()
        if code == _MISCELLANEOUS and text:
            yield _ESCAPED.sub(r"\1", text)
        position = found.end()
