"""Plugins without a constructor, evictions of Pods without a node, and nested lists of objects in tests."""

from typing import ClassVar

import numpy as np
import pytest

from scheduler.framework import registry
from scheduler.framework.columns import MaskFilter
from scheduler.framework.failures import PluginError
from scheduler.framework.plugin_session import Plugin, PluginSession
from scheduler.framework.session import Session
from scheduler.testing import World, configuration, gang, node


class Bare:
    """A plugin without ``__init__``."""

    name: ClassVar[str] = "bare"

    def open(self, session: PluginSession) -> None:
        session.add_filter(lambda cls: [MaskFilter(np.zeros(1, dtype=bool), "bare")])


class BareSubclass(Plugin):
    name = "bare"
    open = Bare.open


@pytest.mark.parametrize("plugin", [Bare, BareSubclass])
def test_a_plugin_without_arguments_needs_no_constructor(plugin: type[Plugin], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    registry.register_plugin(plugin)
    assert "bare" in World(node("n"), gang("a", 1, "1c")).run(configuration(["gang", "bare"])).waiting["a-0"]


def test_a_pod_without_a_node_is_not_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Evicts:
        name: ClassVar[str] = "evicts"

        def execute(self, session: Session) -> None:
            job = session.jobs["default/a"]
            session.statement().evict(job, next(job.tasks()), self.name)

    monkeypatch.setattr(registry, "_actions", dict(registry._actions))
    registry.register_action(Evicts)
    with pytest.raises(PluginError, match=r"action evicts: .*Pod default/a-0 holds no node, so it cannot be evicted"):
        World(node("n"), gang("a", 1, "1c")).run(configuration(["gang"], actions="evicts"))


def test_lists_of_objects_may_be_nested() -> None:
    jobs = [gang(name, 1, "1c") for name in ("a", "b")]
    assert World(node("n"), jobs).run(configuration(["gang"])).bound.keys() == {"a-0", "b-0"}
