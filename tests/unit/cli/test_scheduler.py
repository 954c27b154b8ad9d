"""The flags of ``volcano-py scheduler``: Volcano's names, Go's syntax, and refused values."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import scheduler.actions
import scheduler.plugins  # noqa: F401  a test must not be the first to register them: it would have them forgotten
from scheduler.cli.flags import DURATION, KEY_VALUE, VERBOSITY, boolean, feature_gates
from scheduler.cli.main import main
from scheduler.cli.scheduler import scheduler_command


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("500ms", 0.5), ("1m30s", 90.0), ("1.5h", 5400.0), ("2", 2.0), ("0", 0.0), (".5s", 0.5)],
)
def test_durations_are_read_in_gos_notation_or_as_seconds(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "1x", "-1s", "1s junk", "1 s", "nan", "inf"])
def test_a_malformed_duration_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        DURATION.convert(text, None, None)


def flags(*arguments: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    @click.command()
    @boolean("--leader-elect", default=True, help="")
    @boolean("--enable-metrics", default=False, help="")
    @click.option("-v", "--v", "verbosity", type=VERBOSITY, default="2")
    @click.option("--node-selector", type=KEY_VALUE, multiple=True)
    def command(**values: Any) -> None:
        seen.update(values)

    run: Callable[..., Any] = CliRunner().invoke
    result = run(command, arguments)
    assert result.exit_code == 0, result.output
    return seen


def test_booleans_and_verbosity_are_accepted_in_both_forms() -> None:
    assert flags()["leader_elect"] is True
    assert flags("--leader-elect=false", "--enable-metrics")["leader_elect"] is False
    assert flags("--leader-elect=false", "--enable-metrics")["enable_metrics"] is True
    assert flags("--enable-metrics", "-v=4")["enable_metrics"] is True
    assert [flags(*form)["verbosity"] for form in (("-v", "3"), ("-v=3",), ("--v=3",), ("-v3",))] == [3] * 4
    assert flags("--node-selector", "a:b", "--node-selector=c:d")["node_selector"] == (("a", "b"), ("c", "d"))


def test_metrics_and_health_are_served_unless_they_are_switched_off() -> None:
    defaults = {option.name: option.default for option in scheduler_command.params}
    assert defaults["enable_metrics"] is True
    assert defaults["enable_healthz"] is True


def test_a_bad_configuration_file_ends_with_code_2_naming_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text('actions: "allocate"\ntiers: {\n', encoding="utf-8")
    result = CliRunner().invoke(main, ["scheduler", f"--scheduler-conf={path}"])
    assert result.exit_code == 2
    assert "scheduler.conf:" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "flag"),
    [("scheduler", "--scheduler-conf"), ("webhooks", "--admission-conf"), ("simulate", "--scheduler-conf")],
)
def test_a_deeply_nested_configuration_file_ends_with_code_2_not_by_a_signal(
    command: str, flag: str, tmp_path: Path
) -> None:
    path = tmp_path / "deep.conf"
    path.write_text("[" * 100_000, encoding="utf-8")
    more = {"simulate": ["-f", str(tmp_path)], "webhooks": ["--webhook-service-name=admission"]}.get(command, [])
    line = [sys.executable, "-m", "scheduler.cli.main", command, flag, str(path), *more]
    result = subprocess.run(line, capture_output=True, text=True, check=False)
    assert result.returncode == 2, result.stderr
    assert "deep.conf:1: nested more than 100 deep" in result.stderr


def test_a_deeply_nested_kubeconfig_ends_with_code_1_naming_the_file(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("[" * 100_000, encoding="utf-8")
    result = CliRunner().invoke(main, ["scheduler", f"--kubeconfig={path}", "--leader-elect=false"])
    assert result.exit_code == 1
    assert f"cannot load credentials from {path}:1: nested more than 100 deep" in result.stderr


def test_missing_credentials_end_with_code_1(tmp_path: Path) -> None:
    arguments = ["scheduler", f"--kubeconfig={tmp_path / 'none'}", "--leader-elect=false"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "no such file" in result.stderr


def test_the_web_page_needs_an_address() -> None:
    result = CliRunner().invoke(main, ["scheduler", "--visibility-page"])
    assert result.exit_code == 2
    assert "--visibility-page needs --visibility-address" in result.stderr


@pytest.mark.parametrize("flag", ["tls-cert-file", "tls-private-key-file", "ca-cert-file"])
def test_a_part_of_the_files_of_a_certificate_is_refused(flag: str) -> None:
    result = CliRunner().invoke(main, ["scheduler", "--visibility-address=:8443", f"--visibility-{flag}=x"])
    assert result.exit_code == 2
    assert "--visibility-tls-cert-file and --visibility-tls-private-key-file go together" in result.stderr


def test_modes_of_sharding(tmp_path: Path) -> None:
    soft = CliRunner().invoke(main, ["scheduler", "--scheduler-sharding-mode=soft"])
    assert soft.exit_code == 2
    assert "soft is not supported: two schedulers could hand out the same chips" in soft.stderr
    recorded = CliRunner().invoke(main, ["scheduler", "--scheduler-sharding-mode=hard", f"--record={tmp_path}"])
    assert recorded.exit_code == 2
    assert "--record does not work with --scheduler-sharding-mode hard" in recorded.stderr


def test_lease_times_that_would_allow_two_leaders_are_refused() -> None:
    result = CliRunner().invoke(main, ["scheduler", "--leader-elect-renew-deadline=20s"])
    assert result.exit_code == 2
    assert "--leader-elect-lease-duration must be longer" in result.stderr


def test_flags_of_storage_are_accepted_and_one_has_no_effect(tmp_path: Path) -> None:
    storage = ["--csi-storage=false", "--ignored-provisioners=example.com/a,example.com/b"]
    arguments = ["scheduler", f"--kubeconfig={tmp_path / 'none'}", "--leader-elect=false", *storage]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert "--ignored-provisioners has no effect here" in result.stderr
    assert "--csi-storage" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "on"),
    [
        ((), False),
        (("--feature-gates=SchedulingGatesQueueAdmission=true",), True),
        (("--feature-gates", "PriorityClass=false, SchedulingGatesQueueAdmission=T"), True),
        (
            ("--feature-gates=SchedulingGatesQueueAdmission=true", "--feature-gates=SchedulingGatesQueueAdmission=0"),
            False,
        ),
        (("--feature-gates=AllAlpha=true",), True),
        (("--feature-gates=AllAlpha=true,SchedulingGatesQueueAdmission=false",), False),
    ],
)
def test_feature_gates_are_read_as_volcano_reads_them(arguments: tuple[str, ...], on: bool) -> None:
    found: list[frozenset[str]] = []

    def command(features: frozenset[str]) -> None:
        found.append(features)

    assert CliRunner().invoke(click.command()(feature_gates(command)), arguments).exit_code == 0
    assert found == [frozenset({"SchedulingGatesQueueAdmission"} if on else ())]


def test_an_unknown_feature_gate_is_reported_to_have_no_effect() -> None:
    command = click.command("scheduler")(feature_gates(lambda features: None))
    result = CliRunner().invoke(command, ["--feature-gates=PriorityClass=true"])
    assert result.output == "scheduler: feature gate PriorityClass has no effect here\n"


@pytest.mark.parametrize("text", ["SchedulingGatesQueueAdmission", "SchedulingGatesQueueAdmission=on"])
def test_a_feature_gate_is_on_or_off(text: str) -> None:
    result = CliRunner().invoke(click.command()(feature_gates(lambda features: None)), [f"--feature-gates={text}"])
    assert result.exit_code == 2
    assert f"'{text}' is not like SchedulingGatesQueueAdmission=true" in result.output
