"""A small HTTP client for tests: creates, reads, patches and deletes objects as plain JSON.

The tests do not use the client of the program under test, because then an error in it could hide itself. This client is
synchronous and uses paths, not kinds. It is not part of `scheduler` and not optimized, but keeps its connection open,
so that a benchmark can create thousands of nodes in reasonable time.
"""

import http.client
import json
import select
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

_PATCH_TYPES = {
    "apply": "application/apply-patch+yaml",
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}

_IDEMPOTENT = frozenset({"DELETE", "GET", "PUT"})
_LATER = (b"initializing", b"too many questions")
"""The messages of answers with status 429 after which the request is sent again: the storage of a new kind is not
ready, or a rate limit was reached. An eviction that a budget refuses has the same status."""
_PATIENCE = 30.0
"""The seconds during which such a request is sent again."""


class ApiError(Exception):
    """The API server refused a request: `status` is the HTTP status, `body` the Status object or other content of the
    answer."""

    def __init__(self, method: str, path: str, status: int, body: Any) -> None:
        message = body.get("message") if isinstance(body, dict) else body
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status
        self.body = body


class Client:
    """Requests to one API server under one identity; may be shared by threads, each of which gets a connection."""

    def __init__(self, host: str, port: int, token: str, tls: ssl.SSLContext) -> None:
        self._address = (host, port)
        self._tls = tls
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._local = threading.local()

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Send one request and return the decoded answer: JSON as Python objects, anything else as text.

        `path` starts with a slash and carries its query. Raises `ApiError` for a status of 400 and above, and `OSError`
        or `http.client.HTTPException` when there is no answer.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": content_type}
        deadline = time.monotonic() + _PATIENCE
        status, kind, answer = self._exchange(method, path, data, headers)
        while status == 429 and any(text in answer for text in _LATER) and time.monotonic() < deadline:
            time.sleep(0.2)
            status, kind, answer = self._exchange(method, path, data, headers)
        decoded = json.loads(answer) if kind.startswith("application/json") else answer.decode("utf-8", "replace")
        if status >= 400:
            raise ApiError(method, path, status, decoded)
        return decoded

    def get(self, path: str) -> Any:
        """The object or list at `path`."""
        return self.request("GET", path)

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """POST `body` to the collection or subresource at `path`; the object as it was stored."""
        return self.request("POST", path, body)

    def patch(self, path: str, body: Any, kind: str = "merge") -> Any:
        """Patch the object at `path`; `kind` is one of apply, json, merge and strategic."""
        return self.request("PATCH", path, body, _PATCH_TYPES[kind])

    def delete(self, path: str) -> Any:
        """Delete the object at `path`."""
        return self.request("DELETE", path)

    def wait(self, path: str, condition: Callable[[Any], bool], timeout: float = 30.0) -> Any:
        """Poll the object at `path`, which may not exist yet, until `condition` holds for it, and return it.

        Raises `TimeoutError` with the object's last state after `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                found = self.get(path)
                if condition(found):
                    return found
            except ApiError as error:
                if error.status != 404:
                    raise
                found = None
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is not as expected after {timeout:.0f} s: {json.dumps(found)}")
            time.sleep(0.05)

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, str, bytes]:
        """Send a request and read its answer.

        A server closes a connection that is idle for long, and may close it at the moment of the next request. Such a
        request is repeated once, on a new connection: if it could not be sent completely, because then the server has
        not carried it out; otherwise only if carrying it out twice is harmless.
        """
        connection = self._kept()
        reused = connection is not None
        if connection is None:
            connection = http.client.HTTPSConnection(*self._address, context=self._tls, timeout=60)
        self._local.connection = connection
        response = None
        sent = False
        try:
            connection.request(method, path, data, headers)
            sent = True
            response = connection.getresponse()
            return response.status, response.headers.get("Content-Type", ""), response.read()
        except BaseException as error:  # a connection without its response cannot be used again
            connection.close()
            self._local.connection = None
            lost = response is None and isinstance(error, ConnectionError | ssl.SSLError)
            if not (reused and lost and (not sent or method in _IDEMPOTENT)):
                raise
        return self._exchange(method, path, data, headers)

    def _kept(self) -> http.client.HTTPSConnection | None:
        """The open connection of this thread; None if there is none or the server has closed it."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None or connection.sock is None:
            return None
        readable = select.poll()
        readable.register(connection.sock, select.POLLIN)
        if readable.poll(0):  # no answer is due, so this is the end of the connection
            connection.close()
            return None
        return connection
