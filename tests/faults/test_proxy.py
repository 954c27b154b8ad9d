"""The fault proxy between a client and a server that speak HTTP/1.1 over TLS."""

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controlplane.credentials import Authority
from tests.faults.proxy import FaultProxy, Trigger
from tests.faults.schedule import Fault, FaultKind, Role, Target, Window

BINDING = "/api/v1/namespaces/ns/pods/p/binding"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/volcano-py"
ANSWER = json.dumps({"kind": "Status", "padding": "x" * 3000}).encode()


class Stage:
    """A server that counts requests, and a proxy in front of it."""

    def __init__(self, directory: Path) -> None:
        self.received: list[str] = []
        stage = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                stage.received.append(self.path)
                self.send_response(200)
                self.send_header("Content-Length", str(len(ANSWER)))
                self.end_headers()
                self.wfile.write(ANSWER)

            do_GET = do_POST = do_PUT = _answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                """Logs nothing."""

        authority = Authority(directory)
        certificate = authority.issue("server")
        self._tls = authority.client_context()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.certificate, certificate.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.proxy = FaultProxy(self._server.server_port, self._tls, certificate)
        self.proxy.start()
        self._port = self.proxy.listen("scheduler-1", Role.SCHEDULER)

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=10)

    def send(self, method: str = "POST", path: str = BINDING, body: bytes = b"{}") -> tuple[int, bytes]:
        """Sends a request on a connection of its own. Raises OSError or HTTPException without a whole answer."""
        connection = self.connect()
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def inject(self, fault: Fault, target: Target = Target.BINDING, share: float = 1.0) -> None:
        self.proxy.begin(1, [Window(0.0, 60.0, Role.SCHEDULER, target, fault, share)])

    def stop(self) -> None:
        self.proxy.stop()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.stop()


def test_without_faults_answers_are_passed_on_over_a_kept_connection(stage: Stage) -> None:
    connection = stage.connect()
    for _ in range(3):
        connection.request("POST", BINDING, b"{}")
        assert connection.getresponse().read() == ANSWER
    connection.close()
    assert [exchange.status for exchange in stage.proxy.placements] == [200] * 3


def test_a_refused_request_does_not_reach_the_server_and_the_connection_stays_open(stage: Stage) -> None:
    stage.inject(Fault(FaultKind.REFUSED, 429))
    connection = stage.connect()
    for _ in range(2):
        connection.request("POST", BINDING, b"{}")
        response = connection.getresponse()
        assert (response.status, response.headers["Retry-After"]) == (429, "1")
        assert json.loads(response.read())["reason"] == "TooManyRequests"
    connection.close()
    assert not stage.received
    assert stage.proxy.injected == {"binding refused 429": 2}


@pytest.mark.parametrize("kind", [FaultKind.ANSWER_LOST, FaultKind.TORN])
def test_a_request_whose_answer_is_lost_was_carried_out(stage: Stage, kind: FaultKind) -> None:
    stage.inject(Fault(kind))
    with pytest.raises((OSError, http.client.HTTPException)):
        stage.send()
    assert stage.received == [BINDING]


def test_an_error_may_hide_that_a_request_was_carried_out(stage: Stage) -> None:
    stage.inject(Fault(FaultKind.ANSWER_REPLACED, 504))
    assert stage.send()[0] == 504
    assert stage.received == [BINDING]


def test_an_unanswered_request_ends_with_the_faults(stage: Stage) -> None:
    stage.inject(Fault(FaultKind.UNANSWERED))
    threading.Timer(0.2, stage.proxy.calm).start()
    with pytest.raises((OSError, http.client.HTTPException)):
        stage.send()
    assert not stage.received


def test_a_delayed_request_is_not_carried_out_if_the_client_has_given_up(stage: Stage) -> None:
    stage.inject(Fault(FaultKind.DELAYED, seconds=0.3))
    connection = stage.connect()
    connection.request("POST", BINDING, b"{}")
    connection.close()
    time.sleep(0.5)
    assert not stage.received
    assert stage.send()[0] == 200


def test_other_requests_than_those_of_the_window_meet_no_fault(stage: Stage) -> None:
    stage.inject(Fault(FaultKind.REFUSED, 500), Target.WATCH)
    assert stage.send("GET", "/api/v1/pods?limit=5")[0] == 200
    assert stage.send("GET", "/api/v1/pods?watch=1")[0] == 500
    stage.proxy.calm()
    assert stage.send("GET", "/api/v1/pods?watch=1")[0] == 200


def test_a_watch_may_report_that_its_version_is_too_old(stage: Stage) -> None:
    stage.inject(Fault(FaultKind.EXPIRED), Target.WATCH)
    status, body = stage.send("GET", "/api/v1/pods?watch=1")
    assert status == 200
    assert json.loads(body)["object"]["code"] == 410


def test_the_same_seed_chooses_the_same_requests_of_a_window(stage: Stage) -> None:
    def outcomes() -> list[int]:
        stage.inject(Fault(FaultKind.REFUSED, 503), share=0.5)
        return [stage.send()[0] for _ in range(12)]

    first = outcomes()
    assert first == outcomes()
    assert set(first) == {200, 503}


def test_the_proxy_knows_who_leads_and_acts_after_a_number_of_bindings(stage: Stage) -> None:
    held, released = (json.dumps({"spec": {"holderIdentity": holder}}).encode() for holder in ("me", ""))
    stage.send("PUT", LEASE, held)
    assert stage.proxy.leaders == {Role.SCHEDULER: "scheduler-1"}
    struck: list[str] = []
    stage.proxy.add_trigger(Trigger(Role.SCHEDULER, Target.BINDING, 2, struck.append))
    for expected in ([], ["scheduler-1"], ["scheduler-1"]):
        stage.send()
        assert struck == expected
    stage.send("PUT", LEASE, released)
    assert not stage.proxy.leaders
    assert [takeover.client for takeover in stage.proxy.takeovers] == ["scheduler-1"]
