"""The tests' own HTTP client, where the server closes a connection that was kept open."""

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.client import Client
from controlplane.credentials import Authority

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
Connection = ssl.SSLSocket
Step = Callable[[Connection, list[str]], None]


def answer(connection: Connection, methods: list[str]) -> None:
    """Reads one request and answers it."""
    receive(connection, methods)
    connection.sendall(ANSWER)


def receive(connection: Connection, methods: list[str]) -> None:
    """Reads one request, and sends nothing."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536)
    methods.append(request.split(b" ", 1)[0].decode())


def half(connection: Connection, methods: list[str]) -> None:
    """Reads one request and sends an answer without its last byte."""
    receive(connection, methods)
    connection.sendall(ANSWER[:-1])


@contextmanager
def serving(directory: Path, *connections: tuple[Step, ...]) -> Iterator[tuple[Client, list[str]]]:
    """A server that accepts connections one by one, handles each with the next function, and closes it. Yields the
    methods of the requests that reached it."""
    authority = Authority(directory)
    certificate = authority.issue("server", ["127.0.0.1"])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.certificate, certificate.key)
    methods: list[str] = []

    def serve() -> None:
        for steps in connections:
            raw, _ = listener.accept()
            with tls.wrap_socket(raw, server_side=True) as connection:
                for step in steps:
                    step(connection, methods)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Client("127.0.0.1", listener.getsockname()[1], "token", authority.client_context()), methods
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_a_connection_that_the_server_closed_while_idle_is_replaced(tmp_path: Path, method: str) -> None:
    with serving(tmp_path, (answer,), (answer,)) as (client, methods):
        client.get("/")
        until_closed(client)
        assert client.request(method, "/") == {}
    assert methods == ["GET", method]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_request_without_an_answer_is_repeated_where_twice_does_no_harm(tmp_path: Path, method: str) -> None:
    with serving(tmp_path, (answer, receive), (answer,)) as (client, methods):
        client.get("/")
        assert client.request(method, "/") == {}
    assert methods == ["GET", method, method]


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_request_that_may_have_been_carried_out_is_not_repeated(tmp_path: Path, method: str) -> None:
    with serving(tmp_path, (answer, receive)) as (client, methods):
        client.get("/")
        with pytest.raises((ConnectionError, ssl.SSLError)):
            client.request(method, "/")
    assert methods == ["GET", method]


def test_a_request_of_which_part_of_the_answer_came_is_not_repeated(tmp_path: Path) -> None:
    with serving(tmp_path, (answer, half)) as (client, methods):
        client.get("/")
        with pytest.raises(http.client.IncompleteRead):
            client.get("/")
    assert methods == ["GET", "GET"]


def test_the_first_request_of_a_connection_is_not_repeated(tmp_path: Path) -> None:
    with serving(tmp_path, (receive,)) as (client, methods), pytest.raises((ConnectionError, ssl.SSLError)):
        client.get("/")
    assert methods == ["GET"]


def test_a_request_that_could_not_be_sent_is_repeated_whatever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, (answer,), (answer,)) as (client, methods):
        client.get("/")
        kept = client._local.connection
        monkeypatch.setattr(kept, "request", broken_pipe)
        assert client.request("POST", "/") == {}
    assert methods == ["GET", "POST"]


def broken_pipe(*arguments: object) -> None:
    raise ssl.SSLEOFError("EOF occurred in violation of protocol")


def until_closed(client: Client) -> None:
    """Waits until the end of the connection has arrived."""
    arrived, _, _ = select.select([client._local.connection.sock], [], [], 30)
    assert arrived
