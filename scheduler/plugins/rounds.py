"""What a plugin does every so often, not in every session."""

from scheduler.framework.configuration import Configuration


class Rounds:
    """When the last round was, under one configuration. Sessions know nothing of each other: the process remembers.
    A cluster that is simulated once more, from the same moment on, gets the same rounds."""

    def __init__(self, *, at_once: bool) -> None:
        """``at_once``: the first round under a configuration is due immediately, not after a period."""
        self._at_once = at_once
        self._configuration: Configuration | None = None
        self._moment = 0.0
        self._due = False
        """What was answered then."""

    def due(self, configuration: Configuration, now: float, period: float) -> bool:
        """Whether a round is due now (seconds since the epoch); if so, it counts as made."""
        first = configuration is not self._configuration or now < self._moment
        if not first and now < self._moment + period:
            return self._due and now == self._moment
        self._configuration, self._moment, self._due = configuration, now, self._at_once or not first
        return self._due
