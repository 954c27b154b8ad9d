"""JSON from an API server that is nested deeper than the interpreter decodes.

The API server accepts 10,000 levels, for example in the opaque parameters of a ResourceClaim. How many levels Python's
C code decodes depends on its version (1,500 in some releases of 3.12, whatever the recursion limit), and one object
beyond them would make a whole list unreadable. No field that this program reads is nested deeper than a few dozen
levels, so what lies deeper is left out.
"""

import re
from typing import Final, TypeVar

import msgspec

DEEPEST: Final = 200
"""Levels that are kept where not all can be decoded."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
T = TypeVar("T")


def decode(decoder: "msgspec.json.Decoder[T]", data: bytes | msgspec.Raw) -> T:
    """What the decoder makes of the data, without the parts that are nested too deep. Raises msgspec.MsgspecError,
    UnicodeDecodeError."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(shallow(bytes(data)))


def shallow(data: bytes, depth: int = DEEPEST) -> bytes:
    """The JSON document with ``null`` in place of every array and object that stands below ``depth`` others."""
    kept: list[bytes] = []
    level = end = start = 0
    for token in _TOKEN.finditer(data):
        mark = token[0]
        if mark in (b"{", b"["):
            if level == depth:
                start = token.start()
            level += 1
        elif mark in (b"}", b"]"):
            level -= 1
            if level == depth:
                kept += (data[end:start], b"null")
                end = token.end()
    return b"".join((*kept, data[end:]))
