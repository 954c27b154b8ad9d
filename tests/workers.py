"""What the worker processes of a parallel run (pytest-xdist) report to the process that started them.

They send six messages for each test. For one that passes, two are enough: its outcome, and that the next test may
begin. With thousands of tests the others take as long as the tests of some directories.
"""

from typing import Any, Protocol

import pytest

_ANNOUNCEMENTS = frozenset({"logstart", "logfinish"})


class _Interactor(Protocol):
    """The part of a worker process that sends messages."""

    def sendevent(self, name: str, **kwargs: Any) -> None: ...


def report_less(config: pytest.Config) -> None:
    """Leaves out the messages that a test begins, ends, and is set up and torn down without an error, unless options
    request them."""
    option = config.option
    if option.verbose > 0 or option.durations is not None or option.xmlpath:
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = _less(plugin)


def _less(interactor: _Interactor) -> Any:
    send = interactor.sendevent

    def sendevent(name: str, **kwargs: Any) -> None:
        if name in _ANNOUNCEMENTS or (name == "testreport" and _says_nothing(kwargs["data"])):
            return
        send(name, **kwargs)

    return sendevent


def _says_nothing(report: dict[str, Any]) -> bool:
    return bool(report["when"] != "call" and report["outcome"] == "passed")
