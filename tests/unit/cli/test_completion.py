"""Completion of commands (without loading them) and of names from the cluster; scripts; the kubectl plugin."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from scheduler.cli.completion import kubectl_complete_vc
from scheduler.cli.main import kubectl_vc, main
from scheduler.cli.vcctl.main import vcctl
from tests.unit.cli.cluster import JOBS, QUEUES, Cluster, job, write_kubeconfig

HEAVY = ("kubernetes", "aiohttp", "msgspec", "numpy", "rich", "yaml", "prometheus_client", "importlib.metadata")


def process(*arguments: str, **environment: str) -> str:
    """Runs a separate process; returns its output, followed by the heavy packages that it has loaded."""
    code = (
        "import atexit, sys; sys.argv[0] = 'volcano-py'\n"
        f"atexit.register(lambda: print(*(name for name in {HEAVY} if name in sys.modules)))\n"
        "from scheduler.cli.main import main; main(prog_name='volcano-py')"
    )
    line = [sys.executable, "-c", code, *arguments]
    return subprocess.run(line, capture_output=True, text=True, env={**os.environ, **environment}, check=True).stdout


def completions(*words: str) -> list[str]:
    *before, incomplete = words
    found = ShellComplete(main, {}, "volcano-py", "_VOLCANO_PY_COMPLETE").get_completions(before, incomplete)
    return [item.value for item in found]


@pytest.mark.parametrize(
    "arguments", [["--help"], ["job", "--help"], ["queue", "list", "--help"], ["simulate", "--help"], ["--version"]]
)
def test_help_loads_no_heavy_package(arguments: list[str]) -> None:
    assert process(*arguments).endswith("\n\n")


@pytest.mark.slow
def test_a_simulation_without_external_calls_loads_no_http_client(tmp_path: Path) -> None:
    manifest = tmp_path / "node.yaml"
    manifest.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n", encoding="utf-8")

    loaded = process("simulate", "-f", str(manifest)).splitlines()[-1].split()

    assert "numpy" in loaded and not {"kubernetes", "aiohttp", "prometheus_client"}.intersection(loaded)


def test_completing_commands_loads_no_heavy_package() -> None:
    printed = process(_VOLCANO_PY_COMPLETE="bash_complete", COMP_WORDS="volcano-py queue ", COMP_CWORD="2")

    assert printed.split() == [f"plain,{verb}" for verb in ("create", "delete", "get", "list", "operate", "top")]


def test_every_command_can_be_loaded_and_has_a_summary() -> None:
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert command.help
    assert main.get_command(context, "nonsense") is None
    assert {"job", "jobflow", "jobtemplate"} <= set(completions("j"))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine gets more than the second that a shell waits."""
    monkeypatch.setattr("scheduler.cli.completion._SECONDS", 30.0)


@pytest.mark.usefixtures("patient")
def test_names_are_completed_from_the_cluster(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train-1"), job("train-2"), job("serve"))
    cluster.holds(QUEUES, {"metadata": {"name": "research"}})
    cluster.holds("/api/v1/nodes", *({"metadata": {"name": name}} for name in ("node-1", "node-2", "other")))
    access = ("-k", str(cluster.kubeconfig))

    assert completions("job", "view", *access, "tr") == ["train-1", "train-2"]
    assert completions("job", "delete", *access, "-N", "s") == ["serve"]
    assert completions("job", "list", *access, "-q", "") == ["research"]
    assert completions("node", "chips", *access, "node-") == ["node-1", "node-2"]


@pytest.mark.usefixtures("patient")
def test_names_are_completed_in_the_namespace_that_was_given(cluster: Cluster) -> None:
    cluster.holds(JOBS.replace("default", "team-a"), job("theirs"))

    assert completions("job", "view", "-k", str(cluster.kubeconfig), "-n", "team-a", "") == ["theirs"]


def test_without_a_cluster_nothing_is_completed_and_nothing_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    for kubeconfig in (tmp_path / "kubeconfig", tmp_path / "none"):
        assert completions("job", "view", "-k", str(kubeconfig), "") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_calls_the_program(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])

    assert result.exit_code == 0
    assert f"_VOLCANO_PY_COMPLETE={shell}_complete" in result.stdout


def test_vcctl_has_a_script_of_its_own() -> None:
    result = CliRunner().invoke(main, ["completion", "bash", "--program", "vcctl"])

    assert (result.exit_code, "_VCCTL_COMPLETE=bash_complete" in result.stdout) == (0, True)
    found = ShellComplete(vcctl, {}, "vcctl", "_VCCTL_COMPLETE").get_completions(["job"], "s")
    assert [item.value for item in found] == ["suspend"]


def test_completion_for_kubectl_uses_its_protocol(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-vc", "job", "s"])

    kubectl_complete_vc()

    assert capsys.readouterr().out == "suspend\tStop a vcjob until it is resumed.\n:4\n"


def test_kubectl_completes_files_for_file_flags(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-vc", "job", "run", "-f", ""])

    kubectl_complete_vc()

    assert capsys.readouterr().out == ":0\n"


def test_as_a_plugin_it_calls_itself_kubectl_vc(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl-vc", "job", "--help"])

    with pytest.raises(SystemExit):
        kubectl_vc()

    assert capsys.readouterr().out.startswith("Usage: kubectl vc job [OPTIONS]")
