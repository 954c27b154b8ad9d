"""The comparison of benchmarks with recorded figures, and their profiles."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401  a test must not be the first to register them: it would have them forgotten
from benchmarks import check, figures
from benchmarks.check import Change, best, changes, is_lost
from benchmarks.contest import answered_requests
from benchmarks.figures import Figure
from benchmarks.profile import functions
from benchmarks.rows import ROWS, chosen


def named(**values: float) -> dict[str, Figure]:
    """Figures. If the name of a figure begins with ``rate``, a higher value is better."""
    return {name: Figure(name, value, name.startswith("rate")) for name, value in values.items()}


@pytest.mark.parametrize(
    ("name", "before", "now", "lost"),
    [
        ("time", 1.0, 1.14, False),
        ("time", 1.0, 1.16, True),
        ("time", 1.0, 0.5, False),
        ("rate", 4.0, 3.5, False),
        ("rate", 4.0, 3.4, True),
        ("rate", 4.0, 8.0, False),
        ("time", 0.0, 1.0, False),
    ],
)
def test_a_figure_is_lost_if_it_is_worse_by_more_than_fifteen_percent(
    name: str, before: float, now: float, lost: bool
) -> None:
    (change,) = changes(named(**{name: before}), named(**{name: now}))

    assert is_lost(change) is lost


def test_a_figure_that_is_no_longer_reported_is_lost_and_a_new_one_is_not() -> None:
    gone, new = changes(named(time=1.0), named(rate=1.0))

    assert gone == Change("time", Figure("time", 1.0), None) and is_lost(gone)
    assert new == Change("rate", None, Figure("rate", 1.0, higher_is_better=True)) and not is_lost(new)


def test_of_several_runs_the_best_of_each_figure_counts() -> None:
    assert best(named(time=2.0, rate=3.0, other=1.0), named(time=1.0, rate=1.0)) == named(time=1.0, rate=3.0, other=1.0)


@pytest.mark.slow
def test_a_benchmark_reports_its_figures_to_the_file_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figures"
    figures.report("unheard", 1.0)
    monkeypatch.setenv(figures.FILE, str(path))

    figures.report("ratio", 1.5)
    figures.report("rate", 2.5, higher_is_better=True)
    figures.report_time("session", 1.0)

    ratio, rate, time = figures.reported(path)
    assert (ratio, rate) == (Figure("ratio", 1.5), Figure("rate", 2.5, higher_is_better=True))
    assert time.name == "session" and time.value > 0


def test_recorded_figures_are_read_as_they_were_written_and_rows_that_no_longer_exist_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "RECORDED", tmp_path / "recorded.json")
    assert check.recorded() == {}

    check.write({"gone": named(time=1.0), "sessions": named(time=1.23456, rate=2.0)})

    assert check.recorded() == {"sessions": named(time=1.235, rate=2.0)}


def test_the_recorded_figures_are_those_of_existing_rows() -> None:
    assert check.recorded().keys() <= ROWS.keys()


@pytest.mark.parametrize("module", sorted({row.module for row in ROWS.values()}))
def test_every_row_is_a_program_that_knows_its_arguments(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit):
        import_module(f"benchmarks.{module}").main()
    known = capsys.readouterr().out

    given = [argument for row in ROWS.values() if row.module == module for argument in row.arguments]
    assert not [argument for argument in given if argument.startswith("--") and argument not in known]


def test_rows_are_chosen_by_group_or_name() -> None:
    assert chosen([], []) == ROWS
    assert {row.group for row in chosen(["memory"], []).values()} == {"memory"}
    assert list(chosen([], ["vcjobs"])) == ["vcjobs"]


def test_a_profile_counts_each_function_once_per_stack() -> None:
    own, total = functions(["main (a.py:1);walk (b.py:2);walk (b.py:2) 3", "main (a.py:1) 2"])

    assert own == {"walk (b.py:2)": 3, "main (a.py:1)": 2}
    assert total == {"walk (b.py:2)": 3, "main (a.py:1)": 5}


def test_requests_are_counted_by_verb_and_resource_without_watches_and_leases() -> None:
    metrics = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="pods",subresource="",verb="DELETE"} 3000
apiserver_request_total{code="404",resource="pods",subresource="",verb="DELETE"} 2
apiserver_request_total{code="201",resource="pods",subresource="binding",verb="POST"} 1.5e+03
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 9
apiserver_request_total{code="0",resource="pods",subresource="",verb="WATCH"} 4
apiserver_longrunning_requests{resource="pods",subresource="",verb="WATCH"} 4
"""
    assert answered_requests(metrics) == {"DELETE pods": 3002, "POST pods/binding": 1500}
