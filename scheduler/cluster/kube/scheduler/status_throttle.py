"""Limits how often a status is written of which only the numbers change.

"most free on one node 7500m" changes with every Pod that is added or removed; writing it on each of thousands of
waiting Pods in every session would overload the API server for no gain. A new reason is written at once; new numbers of
a recently written reason are written after a delay. A withheld status is not assumed either, so the first session after
the delay decides it again, with current numbers.
"""

import re
from collections.abc import Sequence

from scheduler.api.decisions import Decisions, PodGroupStatusUpdate
from scheduler.api.names import EVENT_FAILED_SCHEDULING, EVENT_UNSCHEDULABLE
from scheduler.api.scheduling import PodGroupCondition

HOLD_SECONDS = 30.0
_NUMBERS = re.compile(r"\d+")


class StatusThrottle:
    """Remembers the status last written on each waiting Pod and PodGroup."""

    def __init__(self, hold: float = HOLD_SECONDS) -> None:
        self._hold = hold
        self._written: dict[str, tuple[object, float]] = {}
        """uid -> (the status without its numbers, the time of writing)."""

    def throttle(self, decisions: Decisions, now: float) -> None:
        """Removes from the decisions the statuses that say nothing new. ``now``: seconds of a monotonic clock."""
        self._forget(now)
        held: set[tuple[str, str]] = set()
        pods = []
        for update in decisions.pods:
            said = (update.reason, update.nominated, _NUMBERS.sub("#", update.message))
            if self._new(update.task.uid, said, now):
                pods.append(update)
            else:
                held.add((update.task.uid, EVENT_FAILED_SCHEDULING))
        groups = []
        for group in decisions.pod_groups:
            if self._new(group.uid, _saying(group), now):
                groups.append(group)
            else:
                held.add((group.uid, EVENT_UNSCHEDULABLE))
        if held:
            decisions.pods, decisions.pod_groups = pods, groups
            decisions.events = [e for e in decisions.events if (e.about.uid, e.reason) not in held]

    def _new(self, uid: str, said: object, now: float) -> bool:
        before = self._written.get(uid)
        if before is not None and before[0] == said:
            return False
        self._written[uid] = (said, now)
        return True

    def _forget(self, now: float) -> None:
        """Forgets statuses that may be written again."""
        self._written = {uid: entry for uid, entry in self._written.items() if now - entry[1] < self._hold}


def _saying(group: PodGroupStatusUpdate) -> tuple[object, ...]:
    """A status without the numbers in its conditions, and without their times."""
    counts = (group.running, group.succeeded, group.failed)
    return (group.phase, group.admission, counts, _conditions(group.conditions))


def _conditions(conditions: Sequence[PodGroupCondition]) -> tuple[object, ...]:
    return tuple((c.type, c.status, c.reason, _NUMBERS.sub("#", c.message)) for c in conditions)
