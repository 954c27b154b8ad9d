"""``vcctl`` and the programs beside it on a real API server: output, exit codes and created objects of every command
are those of Volcano's programs, which ``compare_vcctl`` recorded."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.run import ControlPlane
from tests.integration.rights import account
from tests.integration.stage import Namespace, running, wait
from tests.integration.vcctl_cases import (
    CODES,
    READS,
    RECORDED,
    SCHEDULER_DEFAULT,
    WRITES,
    commands,
    flags_of,
    make_side,
    ours,
    prepare,
    recorded,
    write,
)

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module", autouse=True)
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with the objects that the commands show, named by KUBECONFIG."""
    prepare(control_plane.admin)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
        yield control_plane


EXPECTED = {
    line: f"{answer.rstrip()}\n"
    for block in f"\n{RECORDED.read_text(encoding='utf-8')}".split("\n$ ")[1:]
    for line, _, answer in [block.partition("\n")]
}
"""Command line -> the recorded answer of Volcano's program; the last one for those that are repeated."""


@pytest.mark.parametrize("line", READS)
def test_a_command_prints_what_volcanos_program_prints(line: str) -> None:
    assert recorded(line, ours(line)) == EXPECTED[line]


def test_every_command_has_the_flags_and_defaults_of_volcanos_programs() -> None:
    flags = {line: f"{flags_of(command)}\n" for line, command in commands()}
    theirs = {
        line.removeprefix("flags of "): answer.replace(SCHEDULER_DEFAULT, "--scheduler/-S")
        for line, answer in EXPECTED.items()
        if line.startswith("flags of ")
    }

    assert flags == theirs


def test_queues_of_others_are_listed_too() -> None:
    listed = ours("vcctl queue list").stdout.splitlines(keepends=True)
    one = ours("vcctl queue get -n vcctl-research").stdout.splitlines(keepends=True)

    assert listed[0] == one[0]
    assert one[1] in listed


@pytest.mark.parametrize("line", CODES)
def test_exit_codes_are_those_of_volcanos_programs(line: str) -> None:
    assert ours(line).code == CODES[line]


def test_commands_create_change_and_delete_what_volcanos_programs_do(cluster: ControlPlane, tmp_path: Path) -> None:
    make_side(cluster.admin, "vcctl-side", tmp_path)

    answers = [
        f"$ {line}\n{recorded(line, write(cluster.admin, line, 'vcctl-side', tmp_path, ours))}" for line in WRITES
    ]

    assert RECORDED.read_text(encoding="utf-8").endswith("\n".join(answers))


def cells(line: str) -> list[str]:
    """The cells of the first row that a command prints; [] if there is none."""
    answer = ours(line)
    assert answer.code == 0, answer.stdout
    return [*(row.split() for row in answer.stdout.splitlines()[1:]), []][0]


def test_a_job_and_a_queue_go_through_their_lives(cluster: ControlPlane, tmp_path: Path) -> None:
    name = Namespace(cluster)
    name.node("n1")
    here = f"-n {name.name}"

    def phase() -> str:
        return cells(f"vcctl job list {here}")[2]

    def state() -> str:
        return cells(f"vcctl queue get {here}")[2]

    with (
        running(
            "controllers", account(cluster, "controllers"), tmp_path, "--leader-elect=false", "--scheduler-name=volcano"
        ),
        name.scheduled(tmp_path, "--scheduler-name=volcano"),
    ):
        ours(f"vcctl queue create {here} -w 2")
        ours(f"vcctl job run {here} -N train -m 2 -r 2 -S volcano")
        wait(lambda: phase() == "Running")
        assert cells(f"vcctl pod list {here} -j train")[:3] == ["train-default0-0", "1/1", "Running"]
        ours(f"vcctl job suspend {here} -N train")
        wait(lambda: phase() == "Aborted")
        ours(f"vcctl job resume {here} -N train")
        wait(lambda: phase() == "Running")
        assert ours(f"vcctl job delete {here} -N train").stdout == "delete job train successfully\n"
        wait(lambda: state() == "Open")
        ours(f"vcctl queue operate {here} -a close")
        wait(lambda: state() == "Closed")
        ours(f"vcctl queue operate {here} -a open")
        wait(lambda: state() == "Open")
        assert ours(f"vcctl queue delete {here}").code == 0
        wait(lambda: ours(f"vcctl queue get {here}").code == 255)
    assert ours(f"vcctl job list {here}").stdout == "No resources found\n"
