"""Times by which device plugins know the order of Pods: in nanoseconds, no two alike."""

from typing import Final

_NANOSECONDS: Final = 1_000_000_000


class PredicateTimes:
    """Those of one session. Some device plugins serve the Pods of a node in this order.

    The session's time plus the number of the placement is unique as long as sessions are further apart (in nanoseconds)
    than the number of placements in one, and a snapshot always gives the same times.
    """

    def __init__(self, now: float) -> None:
        """``now``: the session's time, in seconds since the epoch."""
        self._last = int(now * _NANOSECONDS)

    def next(self) -> str:
        self._last += 1
        return str(self._last)
