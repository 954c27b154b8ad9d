"""Set-up that every unit test uses."""

import pytest

# Importing these registers the built-in plugins and actions. A command that imports them within a test would register
# them for that test only.
from scheduler import actions, plugins  # noqa: F401
from scheduler.framework import registry


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the plugins and actions that a test registers, after the test."""
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    monkeypatch.setattr(registry, "_actions", dict(registry._actions))
