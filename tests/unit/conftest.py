"""What every unit test may count on."""

import pytest

from scheduler.framework import registry


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plugins and actions that a test registers are forgotten after it."""
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    monkeypatch.setattr(registry, "_actions", dict(registry._actions))
