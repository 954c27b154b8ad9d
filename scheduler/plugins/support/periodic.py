"""Work that a plugin does periodically, not in every session."""

from scheduler.framework.plugin_session import PluginSession


class Periodic:
    """The times of the work under one configuration.

    A cluster that is simulated again from the same time on does the work in the same sessions.
    """

    def __init__(self, *, immediately: bool) -> None:
        """``immediately``: the work is due at once, not only after a period."""
        self._immediately = immediately
        self._last: float | None = None
        """When ``due`` last started a period, in seconds since the epoch."""
        self._due = False
        """What ``due`` returned at that time."""

    def due(self, now: float, period: float) -> bool:
        """Returns whether the work is due at ``now`` (seconds since the epoch). If it is, the next period begins; a
        second call with the same time returns the same answer."""
        first = self._last is None or now < self._last
        if not first and self._last is not None and now < self._last + period:
            return self._due and now == self._last
        self._last, self._due = now, self._immediately or not first
        return self._due


def is_due(session: PluginSession, work: str, period: float, *, immediately: bool) -> bool:
    """Returns whether the work of a plugin is due in a session. ``period``: seconds; ``immediately``: with a new
    configuration the work is due at once, not only after a period."""
    key, version = (Periodic, work), (session.configuration,)
    periodic = session.memo(key, version, lambda _: Periodic(immediately=immediately))
    return periodic.due(session.now, period)
