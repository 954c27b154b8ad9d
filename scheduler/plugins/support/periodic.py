"""Work that a plugin does periodically, not in every session."""

from scheduler.framework.configuration import Configuration


class Periodic:
    """Remembers, for the whole process, when the work was last done under one configuration.

    Plugins live for one session, so the time has to be kept outside them. A cluster that is simulated again from the
    same time on does the work in the same sessions.
    """

    def __init__(self, *, immediately: bool) -> None:
        """``immediately``: under a new configuration the work is due at once, not only after a period."""
        self._immediately = immediately
        self._configuration: Configuration | None = None
        self._last = 0.0
        """When ``due`` last started a period, in seconds since the epoch."""
        self._due = False
        """What ``due`` returned at that time."""

    def due(self, configuration: Configuration, now: float, period: float) -> bool:
        """Whether the work is due at ``now`` (seconds since the epoch). If it is, the next period begins; a second call
        with the same time returns the same answer."""
        first = configuration is not self._configuration or now < self._last
        if not first and now < self._last + period:
            return self._due and now == self._last
        self._configuration, self._last, self._due = configuration, now, self._immediately or not first
        return self._due
