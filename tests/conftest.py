"""What every test may count on."""

import gc
import signal

# A shell starts programs in the background with SIGINT ignored, and they pass that on to the programs that they start,
# so commands that tests interrupt would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Modules and collected tests live as long as the run: the garbage collector need not look at them each time."""
    gc.collect()
    gc.freeze()
