"""Measures the start of each role: from the start of its process to its first request to the API server.

The API server is a socket that accepts one connection. Prints a table; asserts nothing.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.contest import cpu_seconds

_FREE: Final = "--healthz-address=127.0.0.1:0"
ROLES: Final = {
    "scheduler": (_FREE, "--listen-address=127.0.0.1:0"),
    "controllers": (_FREE, "--listen-address=127.0.0.1:0"),
    "webhooks": (_FREE, "--port=0", "--webhook-service-name=webhooks"),
}
"""The flags of each role."""
SOURCES: Final = ("kubeconfig", "--master")
"""Where a role has the address of the API server from."""


def first_request(role: str, source: str, folder: Path) -> tuple[float, float]:
    """Starts a role; returns the seconds until its first request, and the processor time until then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        kubeconfig = folder / "config"
        kubeconfig.write_text(_kubeconfig(address), encoding="utf-8")
        flags = ["--kubeconfig", str(kubeconfig)] if source == "kubeconfig" else ["--master", address]
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        began = time.monotonic()
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("volcano-py")), role, *ROLES[role], *flags],
            env={**environment, "HOME": str(folder), "KUBECONFIG": ""},
            stderr=subprocess.DEVNULL,
        )
        server.settimeout(60)
        connection, _ = server.accept()
        with connection:
            connection.recv(1)
            took, used = time.monotonic() - began, cpu_seconds(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return took, used


def _kubeconfig(address: str) -> str:
    return yaml.safe_dump(
        {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "role"}}],
            "clusters": [{"name": "here", "cluster": {"server": address}}],
            "users": [{"name": "role", "user": {"token": "abc"}}],
        }
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    table = Table(title=f"from the start of the process to the first request: median of {rounds}, fastest")
    for column in ("role", "address from", "first request", "fastest", "cpu"):
        table.add_column(column, justify="left" if column in ("role", "address from") else "right")
    with tempfile.TemporaryDirectory() as folder:
        for role in ROLES:
            for source in SOURCES:
                runs = [first_request(role, source, Path(folder)) for _ in range(rounds)]
                took, used = ([run[which] for run in runs] for which in (0, 1))
                table.add_row(role, source, f"{median(took):.2f} s", f"{min(took):.2f} s", f"{median(used):.2f} s")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
