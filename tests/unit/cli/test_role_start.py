"""The start of a role: what it imports before its first request to the API server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = (
    "aiohttp", "cel_expr_python", "cryptography", "kopf", "kubernetes", "numpy", "oauthlib", "pydantic", "requests",
    "rich", "urllib3",
)  # fmt: skip
"""Packages that take a noticeable part of a start."""
ROLES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "scheduler": ((), set()),
    "controllers": ((), {"aiohttp", "numpy"}),
    "webhooks": (("--webhook-service-name=webhooks", "--port=0"), {"aiohttp", "cryptography", "numpy"}),
}
"""Role -> its flags, and the heavy packages that it may import before its first request: those of its web server, its
certificate and its amounts of resources."""
FIRST_REQUEST = f"""
import os, sys
from scheduler.cluster.kube.transport.http_transport import Http1Transport

async def first(*_, **__):
    print(*[name for name in {HEAVY} if name in sys.modules], flush=True)
    os._exit(0)

Http1Transport.send = first
from scheduler.cli.main import main
main(sys.argv[1:], prog_name="volcano-py")
"""


def imported(role: str, *arguments: str, **environment: str) -> set[str]:
    """The heavy packages that a role has imported when it sends its first request, without those that it may import."""
    flags, allowed = ROLES[role]
    if role != "webhooks":
        flags = (*flags, "--listen-address=127.0.0.1:0")
    outside = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    run = subprocess.run(
        [sys.executable, "-c", FIRST_REQUEST, role, *arguments, *flags, "--healthz-address=127.0.0.1:0"],
        env={**outside, **environment}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return set(run.stdout.split()) - allowed


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "config"
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "role"}}],
        "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "role", "user": {"token": "abc"}}],
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_sends_its_first_request_before_it_imports_heavy_packages(role: str, kubeconfig: str) -> None:
    assert imported(role, "--kubeconfig", kubeconfig) == set()


@pytest.mark.parametrize("role", ROLES)
def test_an_address_on_the_command_line_needs_no_heavy_packages(role: str, tmp_path: Path) -> None:
    assert imported(role, "--master", "http://127.0.0.1:1", HOME=str(tmp_path), KUBECONFIG="") == set()
