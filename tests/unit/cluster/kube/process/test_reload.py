"""The configuration file: bad at the start it is an error, bad later it changes nothing."""

import os
from pathlib import Path

import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.cluster.kube.process import reload
from scheduler.cluster.kube.process.reload import ConfigurationFile, ReloadedFile
from scheduler.cluster.kube.scheduler.daemon import nodes_to_find
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import ConfigurationError, parse_configuration
from scheduler.observability.metrics import Metrics


def reloads(metrics: Metrics, result: str) -> float:
    return metrics.registry.get_sample_value("volcano_py_config_reloads_total", {"result": result}) or 0


def test_a_bad_file_at_the_start_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text('actions: "allocate"\ntiers: [\n', encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"scheduler\.conf:\d"):
        ConfigurationFile(str(path))
    with pytest.raises(ConfigurationError, match="No such file"):
        ConfigurationFile(str(tmp_path / "missing"))


def test_a_bad_file_later_keeps_the_last_good_one_and_is_counted_once(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text('actions: "allocate"\n', encoding="utf-8")
    metrics = Metrics()
    file = ConfigurationFile(str(path))
    assert not file.poll(metrics)
    path.write_text('actions: "no-such-action"\n', encoding="utf-8")
    assert not file.poll(metrics)
    assert not file.poll(metrics)
    assert list(file.current.actions) == ["allocate"]
    assert reloads(metrics, "error") == 1
    path.write_bytes(b"\xff\xfe")
    assert not file.poll(metrics)
    path.write_text('actions: "allocate, backfill"\n', encoding="utf-8")
    assert file.poll(metrics)
    assert list(file.current.actions) == ["allocate", "backfill"]
    assert reloads(metrics, "success") == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * 100_000, "scheduler.conf:1: nested more than 100 deep"),
        ("- " * 100_000 + "x", "scheduler.conf:1: nested more than 100 deep"),
        (
            "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(12)),
            "at most 10000000 are read",
        ),
    ],
)
def test_a_file_that_is_too_much_later_keeps_the_last_good_one_and_is_read_once(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text('actions: "allocate"\n', encoding="utf-8")
    parsed: list[str] = []
    logged: list[str] = []
    monkeypatch.setattr(reload.log, "error", lambda event, error: logged.append(error), raising=False)

    def parse(text: str, source: str) -> Configuration:
        parsed.append(text)
        return parse_configuration(text, source)

    metrics, file = Metrics(), ReloadedFile(str(path), parse)
    path.write_text(text, encoding="utf-8")
    assert [file.poll(metrics), file.poll(metrics)] == [False, False]
    assert list(file.current.actions) == ["allocate"]
    assert reloads(metrics, "error") == 1
    assert parsed[1:] == [text]
    (line,) = logged
    assert problem in line
    path.write_text('actions: "backfill"\n', encoding="utf-8")
    assert file.poll(metrics)


def test_the_swapped_symlink_of_a_mounted_config_map_is_noticed(tmp_path: Path) -> None:
    for version, actions in (("v1", "allocate"), ("v2", "backfill")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "scheduler.conf").write_text(f'actions: "{actions}"\n', encoding="utf-8")
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "scheduler.conf").symlink_to("data/scheduler.conf")
    file = ConfigurationFile(str(tmp_path / "scheduler.conf"))
    (tmp_path / "next").symlink_to("v2")
    os.replace(tmp_path / "next", tmp_path / "data")  # noqa: PTH105  the atomic swap as the kubelet does it
    assert file.poll(Metrics())
    assert file.current.actions == ("backfill",)


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [(5000, 100, 0), (80, 10, 0), (5000, 10, 500), (150, 10, 100), (1000, 0, 420), (6000, 0, 300)],
)
def test_how_many_feasible_nodes_are_enough(nodes: int, percentage: int, expected: int) -> None:
    assert nodes_to_find(nodes, percentage, 100) == expected


def test_feature_gates_outlive_a_change_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "scheduler.conf"
    path.write_text('actions: "allocate"', encoding="utf-8")
    file = ConfigurationFile(str(path), frozenset({"SchedulingGatesQueueAdmission"}))
    path.write_text('actions: "allocate, backfill"', encoding="utf-8")
    assert file.poll(Metrics())
    assert file.current.has_action("backfill")
    assert file.current.features == {"SchedulingGatesQueueAdmission"}
