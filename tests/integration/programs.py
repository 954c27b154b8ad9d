"""Our programs as processes of tests: forks of one process per test process that has imported their modules.

Starting Python and importing the modules of a role takes about a second of processor time, and tests start hundreds of
roles. The code after the imports, from the command line on, runs as in a separate process. Tests of the
chart start whole programs (`installation`).
"""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from controlplane.process import die_with_parent

_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(["tests.integration.preloaded"])


class Program:
    """Runs ``volcano-py`` with arguments. The output is appended to files."""

    def __init__(self, arguments: Sequence[str], output: Path, errors: Path | None = None) -> None:
        """``errors``: the file for the standard error; by default the file of the standard output."""
        files = (output, errors or output)
        self._process = _FORKED.Process(target=_run, args=(list(arguments), files, dict(os.environ)), daemon=True)
        self._process.start()
        atexit.register(self.kill)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative after a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Returns the exit code."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("volcano-py", timeout)
        atexit.unregister(self.kill)
        return code

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def run(arguments: Sequence[str], timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Runs ``volcano-py`` until it ends."""
    with tempfile.TemporaryDirectory() as directory:
        output, errors = Path(directory, "output"), Path(directory, "errors")
        code = Program(arguments, output, errors).wait(timeout)
        texts = (file.read_text(encoding="utf-8") for file in (output, errors))
        return subprocess.CompletedProcess(["volcano-py", *arguments], code, *texts)


def print_end(log: Path) -> None:
    """Prints the end of a log file, which pytest shows if the test fails."""
    print(log.read_text(encoding="utf-8", errors="replace")[-4000:])


def _run(arguments: list[str], files: tuple[Path, Path], environment: dict[str, str]) -> None:
    """Runs a program in the forked process."""
    from scheduler.cli.main import volcano_py

    die_with_parent()
    os.environ.clear()
    os.environ.update(environment)
    for stream, file in zip((1, 2), files, strict=True):
        opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(opened, stream)
        os.close(opened)
    sys.argv = ["volcano-py", *arguments]
    try:
        volcano_py()
    finally:
        atexit._run_exitfuncs()
