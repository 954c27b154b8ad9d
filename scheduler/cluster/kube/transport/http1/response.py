"""Parses an HTTP/1.1 response as its bytes arrive.

Strict where leniency is dangerous: the end of a body is never ambiguous. Sizes are bounded, except the size of
a body whose parts are handed out as they arrive.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_HEAD: Final = 64 * 1024
"""Bytes of a status line with its header fields; also of the trailer of a chunked body."""
MAX_BODY: Final = 256 * 2**20
"""Bytes of a body that is kept whole. Objects have at most 3 MiB; custom metrics of all nodes have some tens."""
_MAX_SIZE_LINE: Final = 256
"""Bytes of the line before each chunk."""
_MAX_INTERIM: Final = 8
"""Responses with a status of 1xx before the final one."""
_PROTOCOL: Final = b"HTTP/1."
_FIELDS: Final = rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\x00]*\r\n)*"
_HEAD: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: [^\r\n\x00]*)?\r\n(" + _FIELDS + rb")\r\n")
_TRAILER: Final = re.compile(_FIELDS + rb"\r\n")
_SIZE_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\x00]{0,%d})?\r\n" % _MAX_SIZE_LINE)
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_NEED_MORE: Final = -1


class ResponseError(Exception):
    """The answer of the server is not a valid HTTP/1.1 response, or too large."""


@dataclass(slots=True)
class Response:
    """A complete response."""

    status: int
    headers: dict[bytes, bytes]
    """Name in lower case -> value. The values of a field that occurs more than once are joined by ", "."""
    body: bytes


class ResponseParser:
    """Parses one response: call ``feed`` until it returns True."""

    def __init__(
        self, limit: int = MAX_BODY, *, receive: Callable[[bytes], object] | None = None, gzip: bool = False
    ) -> None:
        """``limit``: bytes of the body, if it is kept. ``receive``: called with each part of the body of a successful
        response, as it arrives; it is not kept then. ``gzip``: whether the body may be compressed; it stays so."""
        self.reusable = False
        """Whether another response may follow on the same connection, once this one is complete."""
        self.status = 0
        """The status code of the final response; 0: its head has not arrived."""
        self._limit = limit
        self._receive = receive
        self._hand_out: Callable[[bytes], object] | None = None
        """``receive``, once the head of a successful response has arrived."""
        self._gzip = gzip
        self._rest = b""
        """The beginning of a head or line that has not arrived completely."""
        self._step: Callable[[ResponseParser, bytes, int], int] = ResponseParser._head
        """Parses from a position on. Returns the position after what it has parsed, or _NEED_MORE. A bound method would
        keep the parser, and what ``receive`` holds, until the next garbage collection."""
        self._interim = 0
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._size = 0
        """Bytes in ``_parts``."""
        self._missing = 0
        """Bytes of the body, or of the present chunk, that have not arrived."""
        self._complete = False

    def feed(self, data: bytes) -> bool:
        """Returns whether the response is complete. Raises ResponseError."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        position = 0
        while not self._complete:
            position = self._step(self, data, position)
            if position == _NEED_MORE:
                return False
        if position < len(data):  # bytes that belong to no request
            self.reusable = False
        return True

    def end(self) -> bool:
        """The server closed the connection. Returns whether the response is complete."""
        if self._step == ResponseParser._until_end:
            self._complete = True
        return self._complete

    @property
    def response(self) -> Response:
        """The response, once it is complete."""
        return Response(self.status, self._headers, b"".join(self._parts))

    @property
    def hands_out(self) -> bool:
        """Whether the head has arrived and the body is handed out, not kept."""
        return self._hand_out is not None

    # --- the head -----------------------------------------------------------------------------------------------------
    def _head(self, data: bytes, position: int) -> int:
        match = _HEAD.match(data, position)
        if match is None:
            if not _PROTOCOL.startswith(data[position : position + len(_PROTOCOL)]):
                raise ResponseError("not an HTTP/1.1 response")
            return self._incomplete(data, position, b"\r\n\r\n", MAX_HEAD, "an invalid head")
        if match.end() - position > MAX_HEAD:
            raise ResponseError(f"a head of more than {MAX_HEAD} bytes")
        minor, status, fields = match.groups()
        number = int(status)
        if number < 200:
            self._interim += 1
            if number == 101 or self._interim > _MAX_INTERIM:
                raise ResponseError(f"unexpected status {number}")
            return match.end()
        self.status = number
        if number < 300:
            self._hand_out = self._receive
        self._headers = _parsed(fields)
        self._expect_body(minor != b"0")
        return match.end()

    def _expect_body(self, persistent: bool) -> None:
        headers = self._headers
        encoding = headers.get(b"content-encoding", b"identity").lower()
        if encoding != b"identity" and not (self._gzip and encoding == b"gzip"):
            raise ResponseError("a Content-Encoding that was not requested")
        options = {option.strip() for option in headers.get(b"connection", b"").lower().split(b",")}
        self.reusable = persistent and b"close" not in options
        length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
        if coding is not None:
            if length is not None:
                raise ResponseError("both Content-Length and Transfer-Encoding")
            if coding.lower() != b"chunked" or not persistent:
                raise ResponseError("a Transfer-Encoding other than chunked")
            self._step = ResponseParser._size_line
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise ResponseError("an invalid Content-Length")
            self._missing = int(length)
            if not self.hands_out:
                self._check(self._missing)
            self._step = ResponseParser._fixed
        else:
            self._step = ResponseParser._until_end
        if self.status in (204, 304):  # they have no body, whatever their fields say
            self._complete = True
        elif self._step == ResponseParser._until_end:
            self.reusable = False

    # --- the body -----------------------------------------------------------------------------------------------------
    def _fixed(self, data: bytes, position: int) -> int:
        position = self._take(data, position)
        if self._missing:
            return _NEED_MORE
        self._complete = True
        return position

    def _until_end(self, data: bytes, position: int) -> int:
        self._missing = len(data) - position
        self._take(data, position)
        return _NEED_MORE

    def _size_line(self, data: bytes, position: int) -> int:
        match = _SIZE_LINE.match(data, position)
        if match is None:
            return self._incomplete(data, position, b"\r\n", _MAX_SIZE_LINE, "an invalid size of a chunk")
        if match.end() - position > _MAX_SIZE_LINE:
            raise ResponseError(f"an invalid size of a chunk: more than {_MAX_SIZE_LINE} bytes")
        self._missing = int(match[1], 16)
        self._step = ResponseParser._chunk if self._missing else ResponseParser._trailer
        return match.end()

    def _chunk(self, data: bytes, position: int) -> int:
        position = self._take(data, position)
        if self._missing:
            return _NEED_MORE
        self._step = ResponseParser._chunk_end
        return self._chunk_end(data, position)

    def _chunk_end(self, data: bytes, position: int) -> int:
        if len(data) - position < 2:
            self._rest = data[position:]
            return _NEED_MORE
        if data[position : position + 2] != b"\r\n":
            raise ResponseError("a chunk that is longer than its size")
        self._step = ResponseParser._size_line
        return position + 2

    def _trailer(self, data: bytes, position: int) -> int:
        match = _TRAILER.match(data, position)
        if match is None:
            return self._incomplete(data, position, b"\r\n\r\n", MAX_HEAD, "an invalid trailer")
        self._complete = True
        return match.end()

    def _take(self, data: bytes, position: int) -> int:
        """Adds to the body what has arrived of ``_missing``. Returns the position after it."""
        end = min(len(data), position + self._missing)
        if end > position:
            self._missing -= end - position
            if self._hand_out is not None:
                self._hand_out(data[position:end])
            else:
                self._size += end - position
                self._check(self._size)
                self._parts.append(data[position:end])
        return end

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise ResponseError(f"a body of more than {self._limit} bytes")

    def _incomplete(self, data: bytes, position: int, terminator: bytes, limit: int, problem: str) -> int:
        """Keeps the beginning of what does not parse yet. Raises ResponseError if it is whole, or too long."""
        if data.find(terminator, position) >= 0:
            raise ResponseError(problem)
        if len(data) - position > limit:
            raise ResponseError(f"{problem}: more than {limit} bytes")
        self._rest = data[position:]
        return _NEED_MORE


def _parsed(fields: bytes) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for line in fields.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers
