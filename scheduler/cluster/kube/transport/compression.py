"""Answers that the API server has compressed with gzip."""

import zlib
from collections.abc import Callable
from typing import Final

GZIP: Final = b"\x1f"
"""The first byte of a compressed answer. No JSON begins with it."""
GZIP_FORMAT: Final = 31
"""zlib's number of it."""
_AT_ONCE: Final = 2**20
"""Bytes that are handed out at once, at most."""


class Inflater:
    """Hands out the parts of a body that may be compressed, as they arrive."""

    def __init__(self, receive: Callable[[bytes], object]) -> None:
        self._receive = receive
        self._begun = False
        self._inflating = zlib.decompressobj(GZIP_FORMAT)
        self._compressed = False

    def feed(self, part: bytes) -> None:
        """Raises zlib.error if the body is malformed."""
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
        """The body is complete. Raises zlib.error if it is cut off."""
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
