"""Which simulations refuse reads of labels and annotations that no plugin requires. The commands are tested in
``tests/unit/cli/test_plugin_errors.py``, ``scheduler.testing`` in its own tests."""

from collections.abc import Callable

import pytest

from scheduler.api.task import TaskClass
from scheduler.cluster.memory import Simulation
from scheduler.framework.columns import Filter
from scheduler.framework.failures import PluginError
from tests.builders import NAME, configuration, group, manifests, node, pod
from tests.unit.framework.fake_plugin import fake_plugin

OBJECTS = (node("n"), group("g"), pod("p", "1c", "g", labels={"team": "blue"}))


def filters(ask: Callable[[TaskClass], object]) -> Callable[[TaskClass], list[Filter]]:
    def asking(cls: TaskClass) -> list[Filter]:
        ask(cls)
        return []

    return asking


def test_the_check_ends_with_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TaskClass] = []
    conf = fake_plugin(lambda session: session.add_filter(filters(seen.append)), monkeypatch)
    Simulation(manifests(*OBJECTS), conf, [NAME]).cycle()
    assert seen and all(cls.labels.get("team") is None and type(cls.labels) is dict for cls in seen)


def test_the_check_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = filters(lambda cls: cls.labels.get("team"))
    conf = fake_plugin(lambda session: session.add_filter(ask), monkeypatch)
    simulation = Simulation(manifests(*OBJECTS), conf, [NAME])
    with pytest.raises(PluginError, match="Pods of this class have team"):
        simulation.cycle()
    simulation.checks_external_plugins = False
    simulation.cycle()


def test_a_simulation_with_built_in_plugins_only_reads_no_pods_for_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cluster.memory.simulation.refusing_unkept", None)
    Simulation(manifests(*OBJECTS), configuration(["gang", "predicates"]), [NAME]).cycle()
