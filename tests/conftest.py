"""Set-up for all tests."""

import gc
import logging
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.examples import FAST
from tests.rights_in_use import RightsInUse
from tests.workers import report_less

# A deadline per example, and one for the generation of examples, would fail on a busy machine.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(FAST, settings.get_profile("thorough"), max_examples=25)
settings.load_profile("thorough")

# A shell starts programs in the background with SIGINT ignored, and they pass that on to the programs that they start,
# so commands that tests interrupt would run for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Commands print some dates and times in the local time zone.
os.environ["TZ"] = "UTC"
time.tzset()
# The threads of numpy's linear algebra, which no test needs, would compete with the other processes of the run.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The API servers that tests start live for minutes: a quarter of the garbage collections, and more memory, saves a
# quarter of their processor time.
os.environ.setdefault("GOGC", "400")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the process that reports the outcome of the run
        config.pluginmanager.register(RightsInUse())


def pytest_collection() -> None:
    """Disables garbage collection until all tests are collected, then excludes modules and tests from it: they live
    until the end of the run, so the collector need not scan them."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)  # rarer than by default, as in the roles: see `scheduler.cli.role_flags.serve`
    gc.enable()
    report_less(session.config)


# Loggers that are kept would go on as the test set them up that used them first.
_configure = structlog.configure


def _configure_uncached(**options: Any) -> None:
    _configure(**{**options, "cache_logger_on_first_use": False})


structlog.configure = _configure_uncached  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """Removes, after a test, the logging that the test or a command in it has set up."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)
