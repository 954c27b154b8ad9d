"""Decoding of JSON from an API server: values nested too deeply, the exceptions of decoders, and lists that arrive.

The API server accepts 10,000 levels of nesting, for example in the opaque parameters of a ResourceClaim. How many
levels Python's C code decodes depends on its version (1,500 in some releases of 3.12, independent of the recursion
limit), and one deeper object would make a whole list undecodable. No field that this program reads is nested deeper
than a few dozen levels, so deeper values are replaced by null.
"""

import re
from typing import Any, Final, Generic, TypeVar

import msgspec

DECODE_ERRORS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""The exceptions of decoders."""
MAX_DEPTH: Final = 200
"""Levels that are kept of a document that is nested too deeply."""
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
T = TypeVar("T")
_ATTEMPTS: Final = 3
"""Places that are tried as the end of an object, per batch."""
_HEAD: Final = re.compile(rb'([^\\]{0,2048}?"items":)\[(\{"[^"\\]{1,64}":)')
"""What precedes the array of objects, and how the first object begins."""


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


class MetadataOfList(msgspec.Struct):
    continuation: str = msgspec.field(default="", name="continue")
    """The token of the next page; "": there is none."""


class ObjectList(msgspec.Struct, Generic[T]):
    items: list[T] | None = None
    metadata: MetadataOfList = msgspec.field(default_factory=MetadataOfList)


class ListDecoder(Generic[T]):
    """Decodes one list, or one page of it, while it arrives. The API server sends a list as fast as it encodes it,
    which takes longer than to decode it.

    A batch ends where an object ends and the next begins with the same key as the first. This can be in the middle of
    an object, between members of it. Then the batch is not valid JSON, and the decoder tries another place.
    """

    def __init__(self, item: Any, batch: int = 1 << 19) -> None:
        """``item``: the type of an object. ``batch``: the number of bytes that are decoded together, at least."""
        self._objects: msgspec.json.Decoder[list[T]] = msgspec.json.Decoder(list[item])
        self._list: msgspec.json.Decoder[ObjectList[T]] = msgspec.json.Decoder(ObjectList[item])
        self._head = b""
        """What precedes the array of objects; empty until the first object arrives."""
        self._separator = b""
        self._pending = bytearray()
        self._batch = self._due = batch
        """The number of pending bytes at which a batch is decoded."""

    def feed(self, data: bytes) -> list[T]:
        """Adds bytes and returns the objects decoded, in their order. Raises no error: ``finish`` decodes what could
        not be decoded."""
        self._pending += data
        if len(self._pending) < self._due:
            return []
        found = self._decode_batch() if self._take_head() else None
        # After a failure, only twice as much is tried again: the time to decode stays linear.
        self._due = 2 * len(self._pending) if found is None else self._batch
        return found or []

    def finish(self) -> ObjectList[T]:
        """Returns the list, with the objects that ``feed`` did not return. Raises DECODE_ERRORS."""
        return decode(self._list, self._head + bytes(self._pending))

    def _take_head(self) -> bool:
        if not self._head:
            found = _HEAD.match(self._pending)
            if found is None:
                return False
            self._head, self._separator = found[1], b"}," + found[2]
            del self._pending[: found.end(1)]
        return True

    def _decode_batch(self) -> list[T] | None:
        """Decodes the first objects as an array of their own, in place: copies would take half as long as decoding."""
        comma = len(self._pending)
        for _ in range(_ATTEMPTS):
            comma = self._pending.rfind(self._separator, 0, comma) + 1
            if not comma:
                break
            self._pending[comma : comma + 1] = b"]"
            try:
                with memoryview(self._pending) as pending, pending[: comma + 1] as batch:
                    found = self._objects.decode(batch)
            except DECODE_ERRORS:
                self._pending[comma : comma + 1] = b","
                continue
            del self._pending[:comma]
            self._pending[:1] = b"["
            return found
        return None
