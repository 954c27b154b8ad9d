"""Tokens that programs and OpenID providers issue, which the ``kubernetes`` package fetches."""

import base64
import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scheduler.cluster.kube.transport.credentials import Credentials

SERVER = "https://10.0.0.1:6443"


def kubeconfig(folder: Path, user: dict[str, Any]) -> str:
    path = folder / "config"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": SERVER, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def plugin(status: dict[str, str]) -> dict[str, Any]:
    """A user whose token comes from a program."""
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    version = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    return {"exec": {**version, "command": sys.executable, "args": ["-c", f"print({json.dumps(answer)!r})"]}}


def test_a_token_comes_from_an_exec_plugin(tmp_path: Path) -> None:
    credentials = Credentials(kubeconfig=kubeconfig(tmp_path, plugin({"token": "from-plugin"})))
    assert credentials.load().host == SERVER
    assert credentials.authorization() == "Bearer from-plugin"


class Provider(BaseHTTPRequestHandler):
    """An OpenID provider that renews tokens."""

    def do_GET(self) -> None:
        host = self.headers["Host"]
        self.answer({"token_endpoint": f"http://{host}/token"} if self.path.startswith("/.well-known/") else {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert "refresh_token=old" in body
        self.answer({"id_token": token(3600), "refresh_token": "new", "access_token": "a", "token_type": "Bearer"})

    def answer(self, body: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def token(seconds: int) -> str:
    """A token that expires after some seconds."""
    parts = ({"alg": "none"}, {"exp": int(time.time()) + seconds})
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts), "x"])


@pytest.fixture
def provider() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_expired_token_of_an_openid_provider_is_renewed(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    config = {
        "idp-issuer-url": provider, "client-id": "me", "client-secret": "s", "refresh-token": "old",
        "id-token": token(-3600),
    }  # fmt: skip
    path = kubeconfig(tmp_path, {"auth-provider": {"name": "oidc", "config": config}})
    credentials = Credentials(kubeconfig=path)

    credentials.load()

    renewed = json.loads(base64.urlsafe_b64decode(credentials.authorization().split(".")[1] + "=="))
    assert renewed["exp"] > time.time()
