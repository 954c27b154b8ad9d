"""The decision when the next session starts, as a function of times and counts: no clock, no waiting.

A session starts at the latest one schedule period after the last one has ended; if nothing has changed since one that
decided nothing, the period may be longer (``skip``). It starts early

- after an arrival: something new to decide on, such as a Pod to place or a PodGroup to admit;
- after an opening, if jobs wait: a change that can let them be placed, such as a Pod that ended or a changed node.

Two rules limit early sessions:

- Sessions take a limited share of the processor: each is followed by a pause of ``REST`` times the processor time that
  the process used in it (on a busy machine the session itself lasts longer). Sessions may postpone up to ``CREDIT``
  seconds of these pauses, until time without sessions makes up for them: a few Pods that arrive one after the other on
  a quiet cluster do not wait, and under load the share is kept. After a session that an opening has started and that
  placed nothing, the pause before the next opening counts doubles, up to the period: reports about nodes that arrive
  all the time do not cost a session each. After a session that stopped at a limit, the next one goes on with its work
  and may postpone more: the API server should not run out of work. After a session that left out some of the
  different Pods of a namespace (``framework/search_limit.py``), the pause is as long as its processor time only: one
  user made the session long, and the Pods of others should not wait for that.
- While a gang waits, no session starts early after an opening. What ends within a period is free for the gang at once,
  as with sessions that start every period; otherwise small arrivals would take it piece by piece. Before the first
  opening, an arrival can only take what was not enough for the gang in the last session.
"""

import math
from typing import Final

import msgspec

from scheduler.cache.versioning import Version

REST: Final = 3.0
"""Seconds of pause before an early session, per second of processor time that the last one took."""
REST_OF_OTHERS: Final = 1.0
"""Seconds of pause per second of processor time after a session that left out Pods of a namespace."""
CREDIT: Final = 0.1
"""Seconds of pauses that sessions may postpone."""
LIMITED_CREDIT: Final = 1.0
"""Seconds of pauses that sessions may postpone after a session that stopped at a limit."""
FIRST_PAUSE: Final = 0.02
"""Seconds between a session that placed nothing and the next one that an opening starts, the first time."""


class SessionResult(msgspec.Struct, frozen=True):
    """What the next session depends on of the result of a session."""

    waits: bool = False
    """A job waits that the session could not place or admit."""
    gang_waits: bool = False
    """One of them needs several Pods at once."""
    placed: bool = False
    """The session decided to bind, evict or admit."""
    limited: bool = False
    """It stopped at a limit, and has left work to the next session."""
    left_out: bool = False
    """It tried only some of the different Pods of a namespace."""


class SessionTiming:
    """When the next session is due. Times are seconds of any one clock."""

    def __init__(self, period: float, changes: Version) -> None:
        """``period``: the longest pause between two sessions. Changes before the first session are not counted."""
        self._period = period
        self._changes = changes
        self._result = SessionResult()
        self._ended = -math.inf
        self._rested = -math.inf
        """When all pauses after the sessions so far are over. The pause after one session is at most its own: a burst
        of long sessions does not hold up short ones later."""
        self._opening_pause = 0.0
        """Seconds from the end of the last session to one that an opening starts, at least."""
        self._arrivals, self._openings = changes.arrivals, changes.openings
        self._opened = self._limited = False
        self._rest: tuple[int, float] | None = None
        """The number of changes at which a rest began, and when the rest ends; None: there is none."""

    @property
    def latest(self) -> float:
        """When the next session is due without an arrival or opening."""
        if self._rest is not None and self.rests:
            return self._rest[1]
        return self._ended + self._period

    @property
    def earliest(self) -> float:
        """When the next session is due after an arrival."""
        if self._result.gang_waits and self._changes.openings != self._openings:
            return self.latest
        return min(self.latest, max(self._ended, self._rested - CREDIT))

    def begin(self) -> None:
        """A session starts, with all changes until now."""
        self._rest, self._limited = None, False
        self._opened = self._result.waits and self._changes.openings != self._openings
        self._arrivals, self._openings = self._changes.arrivals, self._changes.openings

    def end(self, now: float, seconds: float, result: SessionResult) -> None:
        """The session has ended. ``seconds``: its processor time, with all work on its decisions."""
        rest = REST_OF_OTHERS if result.left_out else REST
        rested = max(self._rested, now - seconds) + (1 + rest) * seconds
        self._rested = min(rested, now + rest * seconds + CREDIT)
        self._ended, self._result, self._limited = now, result, result.limited
        if result.placed or not self._opened:
            self._opening_pause = 0.0
        else:
            self._opening_pause = min(self._period, max(FIRST_PAUSE, 2 * self._opening_pause))

    def is_quiet(self, now: float) -> bool:
        """Whether sessions have postponed less than half of what they may postpone: Pods arrive one after the other,
        not all the time."""
        return now > self._rested - CREDIT / 2

    def skip(self, now: float, rest: float = 0.0) -> None:
        """There was nothing to decide on, so no session was held. ``rest``: seconds until the next one if nothing
        changes, where these are more than the period. A change ends the rest: the period counts again."""
        self._ended = self._rested = now
        self._rest = (self._changes.number, now + rest) if rest > self._period else None

    def fail(self, now: float) -> None:
        """The session failed, or none could be held. The next attempt waits for the period."""
        self._ended, self._rested = now, now + self._period + CREDIT

    @property
    def rests(self) -> bool:
        """Whether any change makes the next session due earlier."""
        return self._rest is not None and self._rest[0] == self._changes.number

    def due(self) -> float:
        """When the next session is due, with the changes until now."""
        if self._limited:
            return min(self.latest, max(self._ended, self._rested - LIMITED_CREDIT))
        if self._changes.arrivals != self._arrivals:
            return self.earliest
        if self._result.waits and self._changes.openings != self._openings:
            return min(self.latest, max(self.earliest, self._ended + self._opening_pause))
        return self.latest
