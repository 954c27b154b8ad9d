"""The start and the end of the process of a command."""

import gc
import os
import subprocess
import sys
import weakref

import pytest

from scheduler.cli.process import COLLECTION, keep, run_process

PROGRAM = """
import atexit, sys
from scheduler.cli.process import COLLECTION, keep, run_process

class Large:
    def __del__(self):
        print("freed", file=sys.stderr)

def command():
    {first}
    print("line\\n" * 20_000, end="")
    sys.exit({code})

atexit.register(print, "interpreter finished", file=sys.stderr)
run_process(command)
"""


class Large:
    """A replacement for a cluster."""


def ended(first: str, code: str) -> "subprocess.CompletedProcess[str]":
    program = PROGRAM.format(first=first, code=code)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("code", "status"), [("", 0), ("0", 0), ("2", 2)])
def test_kept_objects_are_not_freed_and_output_and_exit_code_arrive(code: str, status: int) -> None:
    result = ended("keep(Large())", code)
    assert (result.returncode, result.stdout, result.stderr) == (status, "line\n" * 20_000, "")


def test_without_kept_objects_the_interpreter_finishes() -> None:
    result = ended("Large()", "1")
    assert (result.returncode, result.stderr) == (1, "freed\ninterpreter finished\n")


def test_an_exit_with_a_message_prints_it() -> None:
    result = ended("keep(Large())", "'refused'")
    assert result.returncode == 1
    assert "refused" in result.stderr.splitlines()


def test_a_failed_command_prints_its_traceback() -> None:
    result = ended("keep(Large()); raise ValueError('defect')", "0")
    assert result.returncode == 1
    assert "ValueError: defect" in result.stderr


def test_closed_output_is_reported() -> None:
    program = PROGRAM.format(first="keep(Large())", code="0")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) != 0


def test_a_process_that_outlives_the_command_frees_the_objects() -> None:
    large = Large()
    alive = weakref.ref(large)
    keep(large)
    del large
    assert alive() is None


@pytest.mark.parametrize(("given", "found"), [(None, "1"), ("4", "4")])
def test_a_process_has_one_thread_of_linear_algebra_unless_the_environment_says_otherwise(
    given: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", given or "")
    if given is None:
        monkeypatch.delenv("OPENBLAS_NUM_THREADS")
    run_process(lambda: None)
    assert os.environ["OPENBLAS_NUM_THREADS"] == found


def test_a_process_searches_rarely_for_garbage_from_its_beginning() -> None:
    before, found = gc.get_threshold(), []
    try:
        run_process(lambda: found.append(gc.get_threshold()))
    finally:
        gc.set_threshold(*before)
    assert found == [COLLECTION]
