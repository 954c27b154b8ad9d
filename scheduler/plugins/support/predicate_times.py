"""The time of a placement in nanoseconds, unique per placement, as device plugins expect it in an annotation."""

from collections.abc import Iterable
from typing import Final

from scheduler.api.names import GPU_INDEX, GPU_PREDICATE_TIME, PREDICATE_TIME
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task
from scheduler.framework.plugin_session import PluginSession

_NANOSECONDS: Final = 1_000_000_000
_SERVED: Final = str(2**64 - 1)
"""The value that a device plugin writes when it has served the Pod."""
_AHEAD: Final = 86_400
"""Seconds that a time may be ahead of the session's, because clocks differ or were set back."""


class NodeTimes:
    """The predicate times of one session. Device plugins serve the Pods of a node in the order of these times.

    A predicate time is the session's time plus the number of the placement, or more where a Pod on the node has a later
    one. It is unique as long as the time between two sessions, in nanoseconds, exceeds the number of placements in one.
    A snapshot always yields the same times. ``session.once(NodeTimes)`` returns the one that all plugins share.
    """

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._last = int(session.now * _NANOSECONDS)
        self._latest: dict[str, int] = {}
        """Node -> the latest predicate time of its Pods when the session began."""

    def next(self, node: str) -> str:
        """Returns a time after those of all Pods on the node, and after all times that were returned before."""
        if node not in self._latest:
            problems: list[Malformed] = []
            self._latest[node] = latest_time(self._session.snapshot.chips.get(node, ()), self._session.now, problems)
            for problem in problems:
                self._session.malformed_field(problem)
        self._last = max(self._last, self._latest[node]) + 1
        return str(self._last)


def latest_time(tasks: Iterable[Task], now: float, problems: list[Malformed]) -> int:
    """Returns the latest predicate time among Pods that the device plugin has not served; 0 without any. A time that
    cannot be one is ignored, and added to ``problems``. ``now``: the session's time, in seconds since the epoch."""
    latest, limit = 0, int((now + _AHEAD) * _NANOSECONDS)
    for task in tasks:
        text = task.predicate_time
        if not text or text == _SERVED:
            continue
        time = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else limit + 1
        if time <= limit:
            latest = max(latest, time)
        else:
            field = f"metadata.annotations[{GPU_PREDICATE_TIME if GPU_INDEX in task.annotations else PREDICATE_TIME}]"
            problem = f"{text[:32]!r} is not a time in nanoseconds before tomorrow"
            problems.append(Malformed("Pod", task.namespace, task.name, field, problem))
    return latest
