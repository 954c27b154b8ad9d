"""The time until which this process may write to the cluster.

Leader election extends it with every renewal. The client checks it right before it sends a write, and aborts requests
before another process could hold the lease. So two processes never write at the same time.
"""

import math
import time


class Fenced(Exception):  # noqa: N818  it is no error: the work is another's now
    """The request was not sent: this process is not, or no longer, the leader."""


def clock() -> float:
    """Seconds of a clock that also runs while the machine sleeps: a suspended process must not wake up as the
    leader."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Fence:
    """Closed until opened."""

    def __init__(self) -> None:
        self._send_until = -math.inf
        self._answer_until = -math.inf

    def extend(self, send_until: float, answer_until: float) -> None:
        """Allows requests to be sent until ``send_until`` and answered until ``answer_until`` (times of ``clock``)."""
        self._send_until = send_until
        self._answer_until = answer_until

    def open_forever(self) -> None:
        """Opens the fence for good: there is no leader election."""
        self._send_until = self._answer_until = math.inf

    def close(self) -> None:
        """Forbids requests from now on."""
        self._send_until = self._answer_until = -math.inf

    @property
    def is_open(self) -> bool:
        return clock() < self._send_until

    def expired(self) -> float:
        """Seconds since the fence closed because it was not extended; 0 while it is open."""
        return max(0.0, clock() - self._send_until)

    def check(self) -> float:
        """Seconds within which a request sent now has to be answered. Raises Fenced if none may be sent."""
        now = clock()
        if now >= self._send_until:
            raise Fenced("not the leader")
        return self._answer_until - now
