"""Set-up for all tests."""

import gc
import os
import signal

from hypothesis import HealthCheck, settings

from tests.examples import FAST

# A deadline per example, and one for the generation of examples, would fail on a busy machine.
settings.register_profile("thorough", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(FAST, settings.get_profile("thorough"), max_examples=25)
settings.load_profile("thorough")

# A shell starts programs in the background with SIGINT ignored, and they pass that on to the programs that they start,
# so commands that tests interrupt would run for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The threads of numpy's linear algebra, which no test needs, would compete with the other processes of the run.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection() -> None:
    """Modules and collected tests live until the end of the run, so the garbage collector need not scan them."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()
