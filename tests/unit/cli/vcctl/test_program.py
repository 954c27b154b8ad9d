"""The syntax of ``vcctl``'s command lines, its errors and exit codes."""

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scheduler.cli.vcctl.flags import connection_flags
from scheduler.cli.vcctl.main import vcctl
from scheduler.cli.vcctl.program import arranged
from scheduler.cli.vcctl.single import vjobs, vsub
from tests.unit.cli.cluster import JOBS, Cluster, job
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("job list -n x", "job list -n x"),
        ("-n x job --selector y list", "job list -n x --selector y"),
        ("job list -n=x -q=-", "job list -n x -q -"),
        ("job list --all_namespaces --kubeconfig=a_b", "job list --all-namespaces=true --kubeconfig=a_b"),
        ("job list --all-namespaces=false", "job list --all-namespaces=false"),
        ("job run -m -1 -Nx", "job run -m -1 -Nx"),
        ("job view these words -N x are ignored", "job view -N x"),
        ("job view -N x -- --name y", "job view -N x"),
        ("job view -N", "job view -N"),
        ("job run -R=", "job run -R ="),
        ("", "-h"),
        ("job nonsense", "job -h"),
        ("help queue get", "queue get -h"),
        ("queue get --help", "queue get --help"),
        ("nonsense -x", "nonsense"),
    ],
)
def test_a_command_line_of_cobra_is_arranged_for_click(line: str, expected: str) -> None:
    assert arranged(vcctl, line.split()) == expected.split()


def test_a_program_of_one_command_has_flags_only() -> None:
    assert arranged(vjobs, ["job", "-n=x"]) == ["-n", "x"]


def test_a_failed_command_prints_the_servers_message_on_standard_output(cluster: Cluster) -> None:
    said = "admission webhook \"validatejob.volcano.sh\" denied the request: job 'minAvailable' should not be greater"

    async def refuse(call: Call, request: object) -> Answer:
        return refusal(400, "BadRequest", said)

    cluster.api.on("POST", JOBS, refuse)

    result = CliRunner().invoke(vcctl, ["job", "run", "-N", "train", "-k", str(cluster.kubeconfig)])
    assert (result.exit_code, result.stdout, result.stderr) == (255, f"Failed to run job: {said}\n", "")
    result = CliRunner().invoke(vsub, ["-n", "train", "-k", str(cluster.kubeconfig)])
    assert (result.exit_code, result.stdout, result.stderr) == (255, f"Failed to: {said}\n", "")


@pytest.mark.parametrize("line", ["queue list --nonsense", "job run -r many", "nonsense", "job list -n"])
def test_an_invalid_command_line_is_an_error_on_standard_error(line: str) -> None:
    result = CliRunner().invoke(vcctl, line.split())

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith("Error: ")


def test_flags_of_logs_are_accepted() -> None:
    result = CliRunner().invoke(vcctl, ["-v=3", "version", "--vmodule", "a=1"])

    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "API Version: v1alpha1")


def test_the_namespace_is_default_whatever_the_context_says(cluster: Cluster) -> None:
    text = cluster.kubeconfig.read_text(encoding="utf-8").replace("current-context: here", "current-context: there")
    cluster.kubeconfig.write_text(text, encoding="utf-8")
    cluster.holds(JOBS, job("train"))

    result = CliRunner().invoke(vcctl, ["job", "list", "-k", str(cluster.kubeconfig)])

    assert result.stdout.splitlines()[1].split()[0] == "train"


def test_a_kubeconfig_precedes_the_service_account_of_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[str] = []

    @click.command()
    @connection_flags()
    def command(connection: object) -> None:
        seen.append(getattr(connection, "kubeconfig"))  # noqa: B009

    file = tmp_path / "config"
    file.write_text("{}", encoding="utf-8")
    monkeypatch.setattr("scheduler.cluster.kube.transport.plain_credentials.in_cluster", lambda: True)
    for given in (f"/absent:{file}", "/absent"):
        monkeypatch.setenv("KUBECONFIG", given)
        CliRunner().invoke(command, [])
    CliRunner().invoke(command, ["-k", "/mine"])

    assert seen == [str(file), "", "/mine"]


def test_as_a_process_it_reads_the_arguments_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/vcctl", "queue", "-h"])

    with pytest.raises(SystemExit) as ended:
        vcctl()

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: vcctl queue ")
