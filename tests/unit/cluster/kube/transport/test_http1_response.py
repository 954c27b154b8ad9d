"""The parser of HTTP/1.1 responses: any split of the bytes, and the responses that it refuses."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.kube.transport.http1.response import MAX_HEAD, ResponseError, ResponseParser

FIXED = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nDate: now\r\n\r\n"
    b'3;name="value"\r\nhel\r\n2  \r\nlo\r\n0\r\nExpires: never\r\n\r\n'
)


def parsed(data: bytes) -> ResponseParser:
    parser = ResponseParser()
    assert parser.feed(data)
    return parser


@pytest.mark.parametrize("wire", [FIXED, CHUNKED])
@given(data=st.data())
def test_a_response_may_arrive_in_any_pieces(wire: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(1, len(wire) - 1), unique=True)))
    pieces = [wire[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    parser = ResponseParser()
    assert [parser.feed(piece) for piece in pieces] == [False] * len(cuts) + [True]
    assert parser.response.status in (200, 201)
    assert parser.response.body == b"hello"
    assert parser.reusable


@given(
    chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    coded=st.booleans(),
    handed_out=st.booleans(),
    data=st.data(),
)
def test_a_body_is_the_same_in_any_pieces_whether_it_is_kept_or_handed_out(
    chunks: list[bytes], coded: bool, handed_out: bool, data: st.DataObject
) -> None:
    body = b"".join(chunks)
    if coded:
        wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        wire += b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    else:
        wire = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(wire) - 1), unique=True)))
    pieces = [wire[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    parts: list[bytes] = []
    parser = ResponseParser(receive=parts.append if handed_out else None)
    complete = [parser.feed(piece) for piece in pieces]
    assert complete == [False] * len(cuts) + [True]
    assert b"".join(parts) == (body if handed_out else b"")
    assert parser.response.body == (b"" if handed_out else body)
    assert all(parts)


def test_a_body_is_handed_out_as_it_arrives_and_has_no_limit() -> None:
    parts: list[bytes] = []
    parser = ResponseParser(limit=3, receive=parts.append)
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
    assert (parser.hands_out, parser.status) == (False, 0)
    assert not parser.feed(b"\r\n4\r\nab")
    assert (parser.hands_out, parser.status) == (True, 200)
    assert parts == [b"ab"]
    assert not parser.feed(b"cd\r\n2\r")
    assert parser.feed(b"\nef\r\n0\r\n\r\n")
    assert parts == [b"ab", b"cd", b"ef"]
    assert parsed_with(parts.append, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlong").response.body == b""


def parsed_with(receive: Callable[[bytes], object], wire: bytes, limit: int = 3) -> ResponseParser:
    parser = ResponseParser(limit, receive=receive)
    assert parser.feed(wire)
    return parser


def test_the_body_of_an_error_is_kept_within_the_limit() -> None:
    parts: list[bytes] = []
    wire = b"HTTP/1.1 410 Gone\r\nContent-Length: 3\r\n\r\nold"
    assert parsed_with(parts.append, wire).response.body == b"old"
    assert not parts
    with pytest.raises(ResponseError, match="a body of more than 2 bytes"):
        parsed_with(parts.append, wire, 2)


@pytest.mark.parametrize("wire", [CHUNKED[:-2], FIXED[:-1]])
def test_a_body_that_is_handed_out_and_cut_off_is_not_complete(wire: bytes) -> None:
    parser = ResponseParser(receive=lambda part: None)
    assert not parser.feed(wire)
    assert not parser.end()


def test_a_body_is_compressed_only_if_that_was_requested() -> None:
    parser = ResponseParser(gzip=True)
    assert parser.feed(b"HTTP/1.1 200 OK\r\nContent-Encoding: GZIP\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08")
    assert parser.response.body == b"\x1f\x8b\x08"
    with pytest.raises(ResponseError, match="a Content-Encoding that was not requested"):
        ResponseParser(gzip=True).feed(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\n")


@given(st.binary())
def test_arbitrary_bytes_are_refused_or_incomplete(data: bytes) -> None:
    for begin in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        parser = ResponseParser()
        with suppress(ResponseError):
            parser.feed(begin + data)


def test_names_of_fields_are_in_lower_case_and_repeated_values_are_joined() -> None:
    parser = parsed(b"HTTP/1.1 429 \r\nRetry-After:  7 \r\nWarning: a\r\nwarning: b\r\nContent-Length: 0\r\n\r\n")
    assert parser.response.headers == {b"retry-after": b"7", b"warning": b"a, b", b"content-length": b"0"}


@pytest.mark.parametrize(
    "wire",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        FIXED + b"HTTP/1.1 200 OK\r\n",
    ],
)
def test_a_connection_is_not_used_again_if_the_server_closes_it_or_sends_more(wire: bytes) -> None:
    assert not parsed(wire).reusable


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    parser = ResponseParser()
    assert not parser.feed(b"HTTP/1.1 200 OK\r\n\r\nhel")
    assert not parser.feed(b"lo")
    assert parser.end()
    assert parser.response.body == b"hello"
    assert not parser.reusable


@pytest.mark.parametrize("wire", [FIXED[:-1], CHUNKED[:-2], b"HTTP/1.1 200 OK\r\n", b""])
def test_a_response_that_is_cut_off_is_not_complete(wire: bytes) -> None:
    parser = ResponseParser()
    assert not parser.feed(wire)
    assert not parser.end()


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_statuses_have_no_body(status: bytes) -> None:
    parser = parsed(b"HTTP/1.1 " + status + b"\r\nContent-Length: 5\r\n\r\n")
    assert parser.response.body == b""


def after_head(*lines: bytes) -> bytes:
    return b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b"", b""))


CODED = after_head(b"Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("wire", "problem"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not an HTTP/1.1 response"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "not an HTTP/1.1 response"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "not an HTTP/1.1 response"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "an invalid head"),
        (after_head(b"Name : value"), "an invalid head"),
        (after_head(b"Name: first", b" continued"), "an invalid head"),
        (after_head(b"Name: a\x00b"), "an invalid head"),
        (after_head(b"Name: a\nOther: b"), "an invalid head"),
        (after_head(b"no colon"), "an invalid head"),
        (after_head(b"Long: " + b"x" * MAX_HEAD), "a head of more than"),
        (b"HTTP/1.1 200 OK\r\nLong: " + b"x" * MAX_HEAD, "more than 65536 bytes"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "unexpected status 101"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20, "unexpected status 103"),
        (after_head(b"Content-Length: 5", b"Transfer-Encoding: chunked"), "both Content-Length and Transfer-Encoding"),
        (after_head(b"Content-Length: 5", b"Content-Length: 6"), "an invalid Content-Length"),
        (after_head(b"Content-Length: -1"), "an invalid Content-Length"),
        (after_head(b"Content-Length: 0x5"), "an invalid Content-Length"),
        (after_head(b"Content-Length: 99999999999"), "a body of more than"),
        (after_head(b"Transfer-Encoding: gzip, chunked"), "other than chunked"),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "other than chunked"),
        (after_head(b"Content-Encoding: gzip", b"Content-Length: 5"), "a Content-Encoding that was not requested"),
        (CODED + b"xyz\r\n", "an invalid size of a chunk"),
        (CODED + b"-1\r\n", "an invalid size of a chunk"),
        (CODED + b"1" * 300, "an invalid size of a chunk: more than 256 bytes"),
        (CODED + b"3;" + b"x" * 300 + b"\r\nabc\r\n", "an invalid size of a chunk"),
        (CODED + b"3" + b" " * 300 + b"\r\nabc\r\n", "an invalid size of a chunk"),
        (CODED + b"3\nabc\r\n", "an invalid size of a chunk"),
        (CODED + b"1" * 16 + b"\r\n", "an invalid size of a chunk"),
        (CODED + b"3\r\nabcd\r\n", "longer than its size"),
        (CODED + b"0\r\nno colon\r\n\r\n", "an invalid trailer"),
    ],
)
def test_what_could_be_misread_is_refused(wire: bytes, problem: str) -> None:
    with pytest.raises(ResponseError, match=problem):
        ResponseParser().feed(wire)


@pytest.mark.parametrize("wire", [CODED + b"7\r\n1234567\r\n4\r\n8901\r\n", after_head() + b"12345678901"])
def test_a_body_is_bounded_also_where_its_length_is_not_announced(wire: bytes) -> None:
    with pytest.raises(ResponseError, match="a body of more than 10 bytes"):
        ResponseParser(limit=10).feed(wire)


def test_what_is_received_in_parts_is_not_kept_and_not_limited() -> None:
    parts: list[bytes] = []
    parser = ResponseParser(limit=3, receive=parts.append)
    assert parser.feed(CHUNKED)
    assert b"".join(parts) == b"hello"
    assert parser.response.body == b""


def test_the_body_of_a_refusal_is_not_passed_on() -> None:
    parts: list[bytes] = []
    parser = ResponseParser(receive=parts.append)
    assert parser.feed(FIXED.replace(b"201 Created", b"410 Gone"))
    assert not parts
    assert parser.response.body == b"hello"
