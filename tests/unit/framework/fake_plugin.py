"""A plugin ``fake`` that registers the functions of a test."""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.plugin_session import PluginSession
from tests.builders import configuration

Opening = Callable[[PluginSession], None]


def fake_plugin(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Registers a plugin ``fake`` with this ``open``, and returns a configuration with the plugins gang and fake."""

    class Fake:
        name: ClassVar[str] = "fake"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def open(self, session: PluginSession) -> None:
            opening(session)

    monkeypatch.setitem(registry._plugins, "fake", Fake)
    return configuration(["gang", "fake"])
