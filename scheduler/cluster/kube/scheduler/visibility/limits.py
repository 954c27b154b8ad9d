"""The rate of requests per key, in a bounded amount of memory."""

import time
from collections.abc import Callable
from typing import Final

KEYS: Final = 1024
"""Keys that are remembered; beyond that, the one seen least recently is forgotten."""


class RateLimit:
    """A token bucket for each key."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._rate = per_second
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}
        """Key -> tokens left, and when."""

    def wait(self, key: str) -> float:
        """Takes a token. Returns 0, or the seconds until there is one: then no token is taken."""
        now = self._clock()
        left, at = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        taken = left >= 1
        self._left[key] = (left - taken, now)
        if len(self._left) > KEYS:
            del self._left[next(iter(self._left))]
        return 0.0 if taken else (1 - left) / self._rate
