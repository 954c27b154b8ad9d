"""For commands that make a great many objects, of which hardly any is dropped before the process ends."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_SESSIONS: Final = 20
"""After so many sessions what they leave is worth looking for."""


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Python's search for cycles among all objects takes as long as the work itself where there are millions."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what is there stays until the end, and is not searched even then
        gc.enable()


def collect_after(sessions: int) -> None:
    """Free what sessions have left behind, once in a while. ``sessions``: how many there were so far."""
    if sessions % _SESSIONS == 0:
        gc.collect()
