"""What every unit test may count on."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

# Importing these registers the built-in plugins and actions. A command that imports them within a test would register
# them for that test only.
from scheduler import actions, plugins  # noqa: F401
from scheduler.framework import registry


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the plugins and actions that a test registers, after the test."""
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    monkeypatch.setattr(registry, "_actions", dict(registry._actions))


@pytest.fixture(autouse=True)
def _logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where a test, or a command that it runs, sets up logging, that ends with the test."""
    configure = structlog.configure

    def uncached(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", uncached)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)
