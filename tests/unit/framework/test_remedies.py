"""Remedies and details of plugins: only configured plugins are called, and an exception names its plugin."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner

from scheduler.api.kinds import NODE
from scheduler.cli.main import main
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.failures import PluginError, RegistrationError
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.remedies import registry as offers
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Step, indivisible
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod
from tests.unit.explain.small_clusters import changes, explained


class Fake:
    """Refuses every job until its argument allows it."""

    name: ClassVar[str] = "fake"

    def __init__(self, arguments: Arguments) -> None:
        self._open = arguments.boolean("open", False)

    def open(self, session: PluginSession) -> None:
        session.add_filter(lambda cls: [] if self._open else [_nowhere()])


def _nowhere() -> Any:
    from scheduler.framework.columns import RefusingFilter

    return RefusingFilter("fake is not open")


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._plugins, "fake", Fake)
    for name in ("_remedies", "_pod_details", "_job_details", "_node_labels"):
        monkeypatch.setattr(offers, name, list(getattr(offers, name)))


PLAN = configuration(["gang", "predicates", "fake"])
WORLD = (node("n"), group("g"), pod("p", "1c", "g"))


def test_explain_tries_what_a_plugin_offers() -> None:
    @offers.remedies(Fake)
    def open_it(evidence: Any, plugin: Fake) -> Iterator[Any]:
        yield (indivisible(ChangeKind.PLUGIN, Step("open fake", arguments={"fake": {"open": True}})),)

    assert "open fake" in changes("g", *WORLD, conf=PLAN)


def test_details_of_a_plugin_become_gates() -> None:
    @offers.pod_details(Fake)
    def detail(session: Session, plugin: Fake, task: Any, job: Any, reasons: set[str]) -> Iterator[Gate]:
        yield Gate(GateKind.NODES, f"{task.name}: {', '.join(sorted(reasons))}", plugin.name)

    gates = explained("podgroup", "g", *WORLD, conf=PLAN).gates
    assert ("fake", "p: fake is not open") in [(gate.plugin, gate.message) for gate in gates]


def test_a_plugin_that_is_not_configured_offers_nothing() -> None:
    @offers.remedies(Fake)
    def open_it(evidence: Any, plugin: Fake) -> Iterator[Any]:
        raise AssertionError

    session = World(*WORLD).session(configuration(["gang"]))
    assert offers.remedies_of(session) == []


def _broken_remedy(evidence: Any, plugin: Fake) -> Iterator[Any]:
    raise KeyError("x")


def _broken_amount(evidence: Any, plugin: Fake) -> Iterator[Any]:
    def at(amount: int) -> Step:
        raise KeyError("x")

    yield (Adjustment(ChangeKind.PLUGIN, 1, 1, at),)


def _broken_edit(evidence: Any, plugin: Fake) -> Iterator[Any]:
    def transform(raw: Any) -> Any:
        raise KeyError("x")

    yield (indivisible(ChangeKind.PLUGIN, Step("edit", edits=(Edit(NODE, "", "n", transform),))),)


@pytest.mark.parametrize("broken", [_broken_remedy, _broken_amount, _broken_edit])
def test_explain_goes_on_without_a_remedy_that_raises(broken: Any) -> None:
    offers.remedies(Fake)(broken)

    @offers.remedies(Fake)
    def open_it(evidence: Any, plugin: Fake) -> Iterator[Any]:
        yield (indivisible(ChangeKind.PLUGIN, Step("open fake", arguments={"fake": {"open": True}})),)

    found = explained("podgroup", "g", *WORLD, conf=PLAN, search=True)
    assert [change.text for change in found.changes] == ["open fake"]
    assert [str(error) for error in found.remedy_errors] == [f"plugin fake: remedy {broken.__name__}: KeyError: 'x'"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"fkae": {"open": True}}, "a Step sets arguments of plugin 'fkae', which is not configured"),
        ({"fake": {"opne": True}}, "a Step sets argument 'opne', which plugin fake does not read"),
    ],
)
def test_a_remedy_that_sets_what_nothing_reads_is_named(arguments: dict[str, Any], problem: str) -> None:
    @offers.remedies(Fake)
    def misspelt(evidence: Any, plugin: Fake) -> Iterator[Any]:
        yield (indivisible(ChangeKind.PLUGIN, Step("open fake", arguments=arguments)),)

    found = explained("podgroup", "g", *WORLD, conf=PLAN, search=True)
    assert found.changes == []
    (error,) = found.remedy_errors
    assert str(error).endswith(f".misspelt: LookupError: {problem}")


def test_a_test_of_a_plugin_sees_the_exception_of_a_remedy() -> None:
    offers.remedies(Fake)(_broken_remedy)
    with pytest.raises(PluginError, match="plugin fake: remedy _broken_remedy: KeyError: 'x'"):
        World(*WORLD).changes("g", PLAN)


def test_the_command_prints_one_line_about_a_remedy_that_raises(tmp_path: Path) -> None:
    offers.remedies(Fake)(_broken_amount)
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": WORLD}))
    (tmp_path / "conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: fake}]}]")
    files = ["-f", str(tmp_path / "cluster.json"), "--scheduler-conf", str(tmp_path / "conf")]
    result = CliRunner().invoke(main, ["explain", "podgroup", "g", *files])
    assert result.exit_code == 0, result.output
    assert result.stderr == "note: plugin fake: remedy _broken_amount: KeyError: 'x'; its changes are not tried\n"


def test_explain_prints_one_line_about_a_plugin_that_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_values: dict[str, int] = {}
    monkeypatch.setattr(Fake, "open", lambda self, session: no_values["x"])
    (tmp_path / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": WORLD}))
    (tmp_path / "conf").write_text("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: fake}]}]")
    files = ["-f", str(tmp_path / "cluster.json"), "--scheduler-conf", str(tmp_path / "conf")]
    result = CliRunner().invoke(main, ["explain", "podgroup", "g", *files])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "plugin fake: open: KeyError: 'x'" in result.stderr and "Traceback" not in result.stderr


def test_a_remedy_with_another_signature_is_refused() -> None:
    with pytest.raises(RegistrationError, match="plugin fake: Remedies: function "):
        offers.remedies(Fake)(lambda evidence: iter(()))
