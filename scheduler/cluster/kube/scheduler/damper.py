"""Messages of which only the numbers move are not written again and again.

"most free on one node 7500m" changes with every Pod that comes or goes; writing that on each of thousands of waiting
Pods, session after session, would keep the API server busy with nothing. A new reason is written at once, new numbers
of a reason that was written lately only after a while. What is held back is not assumed either, so the next session
after that while says it again, with the numbers of then.
"""

import re
from collections.abc import Sequence

from scheduler.api.decisions import Decisions, PodGroupStatusUpdate
from scheduler.api.names import EVENT_FAILED_SCHEDULING, EVENT_UNSCHEDULABLE
from scheduler.api.scheduling import PodGroupCondition

HOLD_SECONDS = 30.0
_NUMBERS = re.compile(r"\d+")


class Damper:
    """Remembers what was last written on each Pod and PodGroup that waits."""

    def __init__(self, hold: float = HOLD_SECONDS) -> None:
        self._hold = hold
        self._written: dict[str, tuple[object, float]] = {}
        """uid -> (what was said, less its numbers; when)."""

    def damp(self, decisions: Decisions, now: float) -> None:
        """Take out of the decisions what says nothing new. ``now``: seconds of a steady clock."""
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
        """What was written long enough ago may be written again."""
        self._written = {uid: entry for uid, entry in self._written.items() if now - entry[1] < self._hold}


def _saying(group: PodGroupStatusUpdate) -> tuple[object, ...]:
    """A status without the numbers in its conditions, and without their times."""
    counts = (group.running, group.succeeded, group.failed)
    return (group.phase, group.admission, counts, _conditions(group.conditions))


def _conditions(conditions: Sequence[PodGroupCondition]) -> tuple[object, ...]:
    return tuple((c.type, c.status, c.reason, _NUMBERS.sub("#", c.message)) for c in conditions)
