"""The network between an API server and the Services of its cluster, for a machine without one.

An API server that calls an admission webhook connects to the cluster IP of a Service. Here it is configured to use an
HTTP proxy on a Unix socket for that (its egress selector), and the proxy connects to the local port that the test has
assigned to the address. So a test needs no change to the objects that name the Service.
"""

import json
import re
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from typing import Any, Self

_CONNECT = re.compile(rb"CONNECT (\S+):([0-9]+) HTTP/1\.[01]\r\n")
Address = tuple[str, int]


class ServiceNetwork:
    """A context manager. ``apiserver_options`` are for the API server, which may be started before or after."""

    def __init__(self) -> None:
        # Short: the path of a Unix socket is at most a hundred characters long.
        self._directory = Path(tempfile.mkdtemp(prefix="egress-"))
        self._ports: dict[Address, int] = {}
        self._server = _Server(str(self._directory / "proxy"), _Tunnel)
        self._server.ports = self._ports
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def apiserver_options(self) -> list[str]:
        transport = {"uds": {"udsName": str(self._directory / "proxy")}}
        selection = {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
        content = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [selection],
        }
        path = self._directory / "egress.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return [f"--egress-selector-config-file={path}"]

    def connect(self, service: dict[str, Any], port: str, local: int) -> None:
        """Assigns a local port to a port of a Service, by name."""
        number = next(each["port"] for each in service["spec"]["ports"] if each["name"] == port)
        self._ports[service["spec"]["clusterIP"], number] = local

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._directory, ignore_errors=True)


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128  # by default, a sixth connection at once is refused
    ports: dict[Address, int]


class _Tunnel(StreamRequestHandler):
    """Handles one CONNECT, then copies bytes in both directions."""

    server: _Server

    def handle(self) -> None:
        asked = _CONNECT.fullmatch(self.rfile.readline())
        while self.rfile.readline() not in (b"\r\n", b""):
            pass
        local = self.server.ports.get((asked[1].decode(), int(asked[2]))) if asked else None
        try:
            if local is None:
                raise ConnectionRefusedError
            there = socket.create_connection(("127.0.0.1", local))
        except OSError:
            self.wfile.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with there:
            back = threading.Thread(target=_pump, args=(there, self.connection), daemon=True)
            back.start()
            _pump(self.connection, there)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
