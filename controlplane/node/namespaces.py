"""Runs a command in network, mount, PID, IPC and UTS namespaces of its own::

    python -m controlplane.node.namespaces COMMAND...

Control plane, kubelets, containers and tests all run there, so ports, firewall rules and mounts of the machine do not
change, and everything ends with the command, even if it is killed: the kernel ends all processes of a PID namespace
with its first process. Only directories are left then: those of temporary files and of cgroups, which this program
removes.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from controlplane.node.preflight import UNSHARE, cgroup_roots

CGROUP_VARIABLE = "VOLCANO_PY_NODE_CGROUP"
"""Names the cgroup, relative to each hierarchy, that contains the cgroups of all nodes. It is set within the
namespaces only."""

_INIT = "--init"
_PRIVATE_DIRECTORIES = (
    "/run/netns",
    "/run/containerd",
    "/var/lib/cni",
    "/var/lib/kubelet",  # the directory for device plugins, whatever the root directory of a kubelet is
    "/var/log/pods",
    "/var/log/containers",
)
"""The directories outside of the directory of a node into which containerd, CNI plugins and kubelets write."""


def inside() -> bool:
    """Whether this process runs in the namespaces."""
    return CGROUP_VARIABLE in os.environ


def run(command: Sequence[str]) -> int:
    """Runs a command in new namespaces, and returns its exit status."""
    group = f"volcano-py-{secrets.token_hex(4)}"
    roots = [root / group for root in cgroup_roots()]
    created = [Path(directory) for directory in _PRIVATE_DIRECTORIES if not Path(directory).exists()]
    for directory in created:
        directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="node-") as temporary:
        try:
            for root in roots:
                root.mkdir()
            environment = {**os.environ, CGROUP_VARIABLE: group, "TMPDIR": temporary}
            inner = [sys.executable, "-m", "controlplane.node.namespaces", _INIT, *command]
            with _uninterrupted():
                return subprocess.run([*UNSHARE, *inner], env=environment, check=False).returncode
        finally:
            for root in cgroup_roots(every=True):
                _remove_cgroups(root / group)
            for directory in created:
                with contextlib.suppress(OSError):
                    directory.rmdir()


def _init(command: Sequence[str]) -> int:
    """The first process of the PID namespace: prepares mounts and network, runs the command, and waits for every
    process whose parent has ended, until the command has ended."""
    for directory in _PRIVATE_DIRECTORIES:
        _call("mount", "-t", "tmpfs", "none", directory)
    # Kubelets mount volumes that containers may share; nothing is shared with the machine, see unshare(1).
    _call("mount", "--make-rshared", "/")
    _call("ip", "link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
    child = subprocess.Popen(command)
    # Ctrl-C reaches the command directly.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        ended, status = os.wait()
        if ended == child.pid:
            return os.waitstatus_to_exitcode(status) % 256


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Leaves Ctrl-C to the command, so that what it leaves is removed afterwards."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _remove_cgroups(root: Path, patience: float = 10.0) -> None:
    """Removes a cgroup and those below it; waits for their last processes, which the kernel is ending."""
    deadline = time.monotonic() + patience
    while root.exists():
        for directory, _, _ in os.walk(root, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()
        if time.monotonic() > deadline:
            print(f"warning: processes are left in {root}", file=sys.stderr)
            return
        time.sleep(0.05)


def _call(*command: str) -> None:
    subprocess.run(command, check=True)


def main(arguments: Sequence[str]) -> int:
    """The entry point of the command line; returns the exit status of the command."""
    return _init(arguments[1:]) if arguments[:1] == [_INIT] else run(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
