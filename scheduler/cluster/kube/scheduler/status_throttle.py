"""Limits how many statuses of waiting Pods and PodGroups, and of Queues, sessions write.

"most free on one node 7500m" changes with every Pod that is added or removed; writing it on each of thousands of
waiting Pods in every session would overload the API server for no gain. New numbers of a recently written reason are
written after a delay. New reasons are written at once, but only a limited number per schedule period: an autoscaler may
create ten thousand Pods that the quota of their queue refuses. Nominated nodes, which have cost evictions, do not count
towards the limit: later sessions try them first. What a queue has allocated changes with every binding;
it is written once per period. What a queue deserves may change with every job of any other queue; if nothing else has
changed, it is written after a delay. While the Pods of a job are being created or bound, each step would be a status
that the next one replaces: they are left out as long as there are further steps. A withheld status is not assumed
either, so a later session decides it again, with current numbers.
"""

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from scheduler.api.decisions import Decisions, PodGroupStatusUpdate, PodsUnschedulable
from scheduler.api.job import INQUEUE, Job
from scheduler.api.names import (
    EVENT_SCHEDULED,
    EVENT_UNSCHEDULABLE,
    REASON_NOT_ENOUGH_PODS_OF_TASK,
    REASON_NOT_ENOUGH_TASKS,
)
from scheduler.api.scheduling import PodGroupCondition
from scheduler.api.task import TaskStatus

HOLD_SECONDS: Final = 60.0
"""Least number of seconds between two statuses of an object that differ only in numbers."""
DESERVED_SECONDS: Final = 10.0
"""Least number of seconds between two statuses of a queue of which the second differs only in what it deserves."""
LIMIT: Final = 500
"""Number of statuses of waiting Pods, and of waiting PodGroups, that the sessions of one period write."""
_WITH_STATUS: Final = frozenset({EVENT_SCHEDULED, EVENT_UNSCHEDULABLE})
"""Reasons of the Events that a new status of a PodGroup causes."""
PROGRESS: Final = 1.0
"""Seconds without a further step after which the status of a job is written although Pods of it are missing, or are
being bound."""
_INCOMPLETE: Final = frozenset({REASON_NOT_ENOUGH_TASKS, REASON_NOT_ENOUGH_PODS_OF_TASK})
"""Reasons why a gang is refused whose Pods do not all exist yet."""
_ABOUT_STEPS: Final = _INCOMPLETE | {EVENT_UNSCHEDULABLE}
_NUMBERS = re.compile(r"\d+")


class _Step(NamedTuple):
    """The progress of a job whose Pods are being created or bound: the numbers of its Pods and of its bound Pods."""

    pods: int
    bound: int


class StatusThrottle:
    """Remembers the status last written on each waiting Pod and PodGroup."""

    def __init__(self, hold: float = HOLD_SECONDS, limit: int = LIMIT, period: float = 0.0) -> None:
        """``period``: seconds in which ``limit`` applies; 0: it applies to each session."""
        self.waits = False
        """Whether statuses of queues, or of jobs that have further steps, are due soon even if nothing changes."""
        self._hold = hold
        self._limit = limit
        self._period = period
        self._began = -math.inf
        """When the present period began."""
        self._pods = self._groups = 0
        """Statuses written in the present period."""
        self._queues: dict[str, float] = {}
        """Queue -> the time of the last writing, for those written lately."""
        self._written: dict[str, tuple[object, float]] = {}
        """uid -> (the status without its numbers, the time of writing)."""
        self._steps: dict[str, tuple[_Step, float]] = {}
        """Key of a job that has a status to write while its Pods are being created or bound -> the last step, and when
        it was seen first."""

    def throttle(self, decisions: Decisions, now: float, jobs: Mapping[str, Job] | None = None) -> bool:
        """Removes from the decisions the statuses that say nothing new, those that the next step of their job replaces,
        and those beyond the limit. ``now``: seconds of a monotonic clock; ``jobs``: by key, as the session left them.
        Returns ``waits``."""
        self._forget(now)
        has_steps = self._leave_out_steps(decisions, now, jobs or {})
        queues = decisions.queues
        if now - self._began >= self._period:
            self._began, self._pods, self._groups = now, 0, 0
            decisions.queues = [u for u in queues if not (u.only_deserved and u.name in self._queues)]
            self._queues |= {update.name: now for update in decisions.queues}
        else:
            decisions.queues = []
        held: set[str] = set()
        decisions.pods = [update for update in map(partial(self._due, now), decisions.pods) if update.tasks]
        groups = []
        for group in decisions.pod_groups:
            only_waits = not group.admits and not group.running + group.succeeded + group.failed
            if only_waits and self._groups >= self._limit:
                held.add(group.uid)
            elif self._is_new(group.uid, content := _without_numbers(group)):
                self._written[group.uid] = (content, now)
                self._groups += only_waits
                groups.append(group)
            else:
                held.add(group.uid)
        if held:
            decisions.pod_groups = groups
            events = decisions.events
            decisions.events = [e for e in events if e.reason not in _WITH_STATUS or e.about.uid not in held]
        self.waits = has_steps or len(decisions.queues) < len(queues)
        return self.waits

    def _leave_out_steps(self, decisions: Decisions, now: float, jobs: Mapping[str, Job]) -> bool:
        """Removes the statuses of admitted jobs that are being created or bound, with the Events that say the same.
        Returns whether there are such jobs."""
        groups = {f"{g.namespace}/{g.name}" for g in decisions.pod_groups if g.phase == INQUEUE and not g.admits}
        waiting = {update.tasks[0].job for update in decisions.pods if update.tasks and not update.nominated}
        steps: dict[str, tuple[_Step, float]] = {}
        for key in groups | waiting:
            job = jobs.get(key)
            step = None if job is None else _step(job)
            if step is not None:
                known = self._steps.get(key)
                steps[key] = known if known is not None and known[0] == step else (step, now)
        self._steps = steps
        held = {key for key, (_, since) in steps.items() if now - since < PROGRESS}
        if not held:
            return False
        uids = {jobs[key].uid for key in held}
        decisions.pod_groups = [g for g in decisions.pod_groups if g.uid not in uids or g.phase != INQUEUE or g.admits]
        decisions.pods = [u for u in decisions.pods if u.nominated or not u.tasks or u.tasks[0].job not in held]
        decisions.events = [e for e in decisions.events if e.reason not in _ABOUT_STEPS or e.about.uid not in uids]
        return True

    def _due(self, now: float, update: PodsUnschedulable) -> PodsUnschedulable:
        """Returns the update for the Pods that are written now, perhaps none."""
        said = (update.reason, update.nominated, _NUMBERS.sub("#", update.message))
        tasks = []
        for task in update.tasks:
            if self._pods >= self._limit and not update.nominated:
                break
            if self._is_new(task.uid, said):
                self._written[task.uid] = (said, now)
                self._pods += not update.nominated
                tasks.append(task)
        return update._replace(tasks=tasks)

    def _is_new(self, uid: str, said: object) -> bool:
        before = self._written.get(uid)
        return before is None or before[0] != said

    def _forget(self, now: float) -> None:
        """Forgets statuses that may be written again."""
        self._written = {uid: entry for uid, entry in self._written.items() if now - entry[1] < self._hold}
        self._queues = {name: at for name, at in self._queues.items() if now - at < DESERVED_SECONDS}


def _without_numbers(group: PodGroupStatusUpdate) -> tuple[object, ...]:
    """A status without the numbers in its conditions, and without their times."""
    counts = (group.running, group.succeeded, group.failed)
    return (group.phase, group.admission, group.alternative, counts, _conditions(group.conditions))


def _conditions(conditions: Sequence[PodGroupCondition]) -> tuple[object, ...]:
    return tuple((c.type, c.status, c.reason, _NUMBERS.sub("#", c.message)) for c in conditions)


def _step(job: Job) -> _Step | None:
    """The step of a job whose Pods are being created or bound; None: neither is the case."""
    if not job.by_status or job.phase != INQUEUE:
        return None
    is_incomplete = job.size < job.min_member or any(refusal.reason in _INCOMPLETE for refusal in job.refusals)
    if not is_incomplete and TaskStatus.BINDING not in job.by_status:
        return None
    return _Step(job.size, job.count(TaskStatus.BOUND))
