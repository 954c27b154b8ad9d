"""Set-up for all tests."""

import gc
import signal

from hypothesis import HealthCheck, settings

# A deadline per example, and one for the generation of examples, would fail on a busy machine.
settings.register_profile("no-deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no-deadline")

# A shell starts programs in the background with SIGINT ignored, and they pass that on to the programs that they start,
# so commands that tests interrupt would run for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Modules and collected tests live until the end of the run, so the garbage collector need not scan them."""
    gc.collect()
    gc.freeze()
