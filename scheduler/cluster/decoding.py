"""Decoding of JSON from an API server: values nested too deeply, and the exceptions of decoders.

The API server accepts 10,000 levels of nesting, for example in the opaque parameters of a ResourceClaim. How many
levels Python's C code decodes depends on its version (1,500 in some releases of 3.12, independent of the recursion
limit), and one deeper object would make a whole list undecodable. No field that this program reads is nested deeper
than a few dozen levels, so deeper values are replaced by null.
"""

import re
from typing import Final, TypeVar

import msgspec

DECODE_ERRORS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""The exceptions of decoders."""
MAX_DEPTH: Final = 200
"""Levels that are kept of a document that is nested too deeply."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
T = TypeVar("T")


def decode(decoder: "msgspec.json.Decoder[T]", data: bytes | msgspec.Raw) -> T:
    """Decodes the data, without values that are nested too deeply. Raises msgspec.MsgspecError, UnicodeDecodeError."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(shallow(bytes(data)))


def shallow(data: bytes, depth: int = MAX_DEPTH) -> bytes:
    """Replaces every array and object below ``depth`` others by ``null`` in a JSON document."""
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
