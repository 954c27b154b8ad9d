"""The process of a command: it starts no threads that it does not use, collects garbage seldom, and ends without
freeing a cluster in memory, object by object."""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from scheduler.cli.text import flush

COLLECTION: Final = (100_000, 20, 50)
"""The thresholds of the cyclic garbage collector."""
_SESSIONS: Final = 20
"""Sessions of a simulation between two garbage collections."""
_KEPT: Final[ContextVar[list[object] | None]] = ContextVar("kept objects", default=None)
"""The objects that live until the process ends. None: the process outlives the command, as in a test."""


def keep(*objects: object) -> None:
    """Keeps objects until the process ends, if it ends with the command.

    Freeing the millions of objects of a large cluster takes as long as some sessions on it.
    """
    kept = _KEPT.get()
    if kept is not None:
        kept += objects


def run_process(command: Callable[[], None]) -> None:
    """Runs a command as the only one of this process. If it keeps objects, its exit ends the process at once: without
    functions of ``atexit`` and without waiting for threads."""
    # Arrays are small here. The threads of numpy's linear algebra double the time of the processor that a start takes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Modules and objects of a cluster live long and have no cycles: to search them for garbage every 700 allocations
    # costs more than it frees, a tenth of the time that the imports take.
    gc.set_threshold(*COLLECTION)
    kept: list[object] = []
    token = _KEPT.set(kept)
    try:
        command()
    except SystemExit as ended:
        if kept and (ended.code is None or isinstance(ended.code, int)):
            _end(ended.code or 0)
        raise
    finally:
        _KEPT.reset(token)


def _end(code: int) -> None:
    """Ends the process. Returns if output cannot be written, which the interpreter reports when it exits."""
    try:
        flush()
    except (OSError, ValueError):
        return
    os._exit(code)


# --- a cluster in memory ---
@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switches the garbage collector off: with millions of objects, most of which live until the process ends, the
    search for cycles takes as long as the work itself."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # the objects live until the process ends: the last collection does not search them either
        gc.enable()


def collect_garbage(sessions: int) -> None:
    """Frees the cycles that sessions leave behind, every 20 sessions. ``sessions``: how many have run."""
    if sessions % _SESSIONS == 0:
        gc.collect()
