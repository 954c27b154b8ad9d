"""The time of a placement in nanoseconds, unique per placement, as device plugins expect it in an annotation."""

from typing import Final

_NANOSECONDS: Final = 1_000_000_000


class PredicateTimes:
    """The predicate times of one session. Some device plugins serve the Pods of a node in the order of these times.

    A predicate time is the session's time plus the number of the placement. It is unique as long as the time between
    two sessions, in nanoseconds, exceeds the number of placements in one. A snapshot always yields the same times.
    """

    def __init__(self, now: float) -> None:
        """``now``: the session's time, in seconds since the epoch."""
        self._last = int(now * _NANOSECONDS)

    def next(self) -> str:
        self._last += 1
        return str(self._last)
