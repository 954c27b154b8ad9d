"""Runs one program of the control plane as a child process: starts it, observes its start, and stops it reliably.

A test run that is interrupted must not leave an API server behind, and if a program does not start, the error must give
the reason instead of a time-out. This module handles both for every program. `controlplane.run` has the programs and
their options.
"""

import atexit
import contextlib
import ctypes
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: between fork and exec a child must not run the dynamic loader.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class StartError(Exception):
    """A program ended, or was not ready in time; the message names it and ends with the last lines of its log."""


class Process:
    """A running program whose output goes to `<logs>/<name>.log`.

    The program has its own session, so that Ctrl-C reaches only the parent, which then stops its programs in order. On
    Linux, the system kills the program as soon as the parent has ended, for any reason. (For the system, the parent is
    the thread that started the program, so start it in a thread that lives as long as the program is needed.)
    """

    def __init__(self, name: str, command: Sequence[str | Path], logs: Path) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=logs,
                start_new_session=True,
                # A system call through a loaded library takes no lock that another thread might hold.
                preexec_fn=die_with_parent if _LIBC is not None else None,  # noqa: PLW1509
            )
        atexit.register(self.stop, grace=0.0)

    @property
    def pid(self) -> int:
        """The process id, for measurements of CPU and memory."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the program has not ended yet."""
        return self._child.poll() is None

    def tail(self, lines: int = 15) -> str:
        """The last `lines` lines of the log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def wait_until(self, ready: Callable[[], bool], timeout: float) -> None:
        """Poll `ready` until it is true; `StartError` if the program ends before, or after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while not ready():
            if not self.running:
                raise StartError(f"{self.name} ended with status {self._child.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} was not ready after {timeout:.0f} s:\n{self.tail()}")
            time.sleep(0.05)

    def stop(self, grace: float = 5.0) -> None:
        """Asks the program to end and kills it ``grace`` seconds later. Does nothing if it has ended already."""
        atexit.unregister(self.stop)
        if not self.running:
            return
        if grace > 0:
            self._child.send_signal(signal.SIGTERM)
            try:
                self._child.wait(grace)
            except subprocess.TimeoutExpired:
                pass
            else:
                return
        self._child.kill()
        self._child.wait()


def free_ports(count: int) -> list[int]:
    """Different TCP ports of 127.0.0.1 on which no process listens at the moment.

    They lie below those that Linux gives to outgoing connections (32768 and above): such a connection, of which the
    programs of a control plane open many, would occupy the port before the program listens on it.
    """
    found: set[int] = set()
    while len(found) < count:
        port = 10_000 + secrets.randbelow(22_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return list(found)


def die_with_parent() -> None:
    """On Linux, has the system kill this process as soon as the parent has ended."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
