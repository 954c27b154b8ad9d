"""Remedies and details of plugins: only configured plugins are called, and an exception names its plugin."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.failures import PluginError, RegistrationError
from scheduler.framework.remedies import registry as offers
from scheduler.framework.remedies.adjustments import ChangeKind, Step, indivisible
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod
from tests.unit.explain.small_clusters import changes, explained


class Fake:
    """Refuses every job until its argument allows it."""

    name: ClassVar[str] = "fake"

    def __init__(self, arguments: Arguments) -> None:
        self._open = arguments.boolean("open", False)

    def open(self, session: Session) -> None:
        session.add_filter(lambda cls: [] if self._open else [_nowhere()])


def _nowhere() -> Any:
    from scheduler.framework.columns import Nowhere

    return Nowhere("fake is not open")


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


def test_an_exception_in_a_remedy_names_the_plugin() -> None:
    @offers.remedies(Fake)
    def open_it(evidence: Any, plugin: Fake) -> Iterator[Any]:
        raise KeyError("x")

    with pytest.raises(PluginError, match="plugin fake: remedies: KeyError: 'x'"):
        changes("g", *WORLD, conf=PLAN)


def test_a_remedy_with_another_signature_is_refused() -> None:
    with pytest.raises(RegistrationError, match="plugin fake: Remedies: function "):
        offers.remedies(Fake)(lambda evidence: iter(()))
