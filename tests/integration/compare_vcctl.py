"""Compares our ``vcctl`` with Volcano's on one control plane: output, exit codes and created objects of all commands.

    $ python -m tests.integration.compare_vcctl FOLDER             # prints a table
    $ python -m tests.integration.compare_vcctl FOLDER --record    # writes what test_vcctl.py expects

FOLDER contains Volcano's programs, which ``make vcctl command-lines`` builds in its repository. The exit code is 1 if
the programs differ. Empty fields of objects, their order in ``describe`` and the spelling of amounts are not compared,
nor the name of the task of ``job run``, which admission sets.
"""

import argparse
import difflib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import click

from controlplane.client import Client
from tests.integration.stage import a_control_plane
from tests.integration.vcctl_cases import (
    CODES,
    READS,
    RECORDED,
    SCHEDULER_DEFAULT,
    WRITES,
    Answer,
    commands,
    documents,
    flags_in,
    flags_of,
    make_side,
    ours,
    prepare,
    recorded,
    write,
)

_SIDES: Final = ("vcctl-side-a", "vcctl-side-b")
_IN_ANOTHER_ZONE: Final = ("vcctl job view -n vcctl-shown -N train", "vcctl job list -n vcctl-shown")


class Comparison:
    """Runs both programs, and counts the command lines whose answers differ."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.compared = 0
        self.differing = 0

    def theirs(self, line: str) -> Answer:
        """The answer of Volcano's program."""
        program, *words = shlex.split(line)
        ended = subprocess.run([self._programs / program, *words], capture_output=True, check=False, text=True)
        return Answer(ended.returncode, ended.stdout)

    def read(self, line: str) -> None:
        for _ in range(3):  # an age may change between the two
            answers = [self.theirs(line), ours(line)]
            if " describe " in line:
                answers = [Answer(each.code, documents(each.stdout)) for each in answers]
            if answers[0] == answers[1]:
                break
        self.report(line, *answers)

    def code(self, line: str) -> None:
        self.report(line, Answer(self.theirs(line).code, ""), Answer(ours(line).code, ""))

    def flags(self, line: str, command: click.Command) -> None:
        theirs = flags_in(self.theirs(f"{line} --help").stdout).replace(SCHEDULER_DEFAULT, "--scheduler/-S")
        self.report(f"flags of {line}", Answer(0, theirs), Answer(0, flags_of(command)))

    def report(self, line: str, theirs: Answer, our: Answer) -> None:
        """Prints a row of the table."""
        same = theirs == our
        self.compared += 1
        self.differing += not same
        print(f"{'same' if same else 'DIFFERS':8} {theirs.code:4} {our.code:4}  {line}")
        if not same:
            lines = difflib.unified_diff(theirs.stdout.splitlines(), our.stdout.splitlines(), lineterm="", n=0)
            print(*lines, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of Volcano's programs")
    parser.add_argument("--record", action="store_true", help="write the output that the test expects")
    given = parser.parse_args()
    os.environ["TZ"] = "UTC"
    time.tzset()
    comparison = Comparison(given.folder)
    with a_control_plane() as plane, tempfile.TemporaryDirectory() as folder:
        os.environ["KUBECONFIG"] = str(plane.kubeconfig)
        prepare(plane.admin)
        for side in _SIDES:
            make_side(plane.admin, side, Path(folder))
        if given.record:
            _record(comparison, plane.admin, Path(folder))
            return
        _compare(comparison, plane.admin, Path(folder))
    print(f"{comparison.differing} of {comparison.compared} differ")
    sys.exit(comparison.differing > 0)


def _record(comparison: Comparison, admin: Client, folder: Path) -> None:
    answers = {line: recorded(line, comparison.theirs(line)) for line in READS}
    blocks = [f"$ {line}\n{answer}" for line, answer in answers.items()]
    blocks += [f"$ flags of {line}\n{flags_in(comparison.theirs(f'{line} --help').stdout)}\n" for line, _ in commands()]
    blocks += [
        f"$ {line}\n{recorded(line, write(admin, line, _SIDES[0], folder, comparison.theirs))}" for line in WRITES
    ]
    RECORDED.write_text("\n".join(blocks), encoding="utf-8")


def _compare(comparison: Comparison, admin: Client, folder: Path) -> None:
    for line in (*READS, "vcctl queue list", "vqueues"):
        comparison.read(line)
    for line, command in commands():
        comparison.flags(line, command)
    for line in CODES:
        comparison.code(line)
    for line in WRITES:
        answers = (
            write(admin, line, side, folder, run) for side, run in zip(_SIDES, (comparison.theirs, ours), strict=True)
        )
        comparison.report(line, *answers)
    os.environ["TZ"] = "Asia/Shanghai"
    time.tzset()
    for line in _IN_ANOTHER_ZONE:
        comparison.read(line)


if __name__ == "__main__":
    main()
