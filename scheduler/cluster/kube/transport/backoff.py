"""Exponential backoff with jitter."""

import random


class Backoff:
    """Doubles from ``first`` to ``longest`` seconds, each time shortened at random by up to a half."""

    def __init__(self, first: float = 0.2, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest
        self._failures = 0

    @property
    def failures(self) -> int:
        """Calls of ``next`` since the last ``reset``."""
        return self._failures

    def next(self, at_least: float | None = None) -> float:
        """Seconds to wait now. ``at_least``: the time that the server asked for (Retry-After)."""
        whole = min(self._longest, self._first * 2.0 ** min(self._failures, 32))
        self._failures += 1
        return max(whole * random.uniform(0.5, 1.0), at_least or 0.0)

    def reset(self) -> None:
        """Starts from ``first`` again, after a success."""
        self._failures = 0
