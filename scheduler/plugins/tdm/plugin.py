"""The plugin: nodes with the label of a revocable zone take only revocable Pods, during the hours of the zone.

Outside the hours, ``shuffle`` evicts the Pods that still run there, a few of each job at a time. Jobs that cannot use
revocable nodes come first in the order of jobs, and may preempt preemptable Pods on ordinary nodes.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Final

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, REVOCABLE_ZONE
from scheduler.api.node import Codes, Mask
from scheduler.api.reasons import Malformed
from scheduler.api.task import FINISHED_STATUSES, Task, TaskClass, TaskStatus, revocable
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import CodedFilter, Filter, PinUse, Score, StaticScore
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.support.periodic import is_due

ZONE: Final = "tdm.revocable-zone."
NOT_REVOCABLE: Final = "not allow to dispatch to revocable node"
BEST: Final = 100.0
_HOURS: Final = re.compile(r"\s*([01]?[0-9]|2[0-3]):([0-5][0-9])-([01]?[0-9]|2[0-3]):([0-5][0-9])\s*")
_MINUTE: Final = 60
_DAY: Final = 24 * 60 * _MINUTE


class HoursError(ValueError):
    """The text is not ``HH:MM-HH:MM``."""


class Hours(msgspec.Struct, frozen=True):
    """A daily time interval."""

    text: str
    start: int
    """Seconds since midnight."""
    end: int
    """Seconds since midnight; on the next day if not after ``start``."""

    def contains(self, moment: float) -> bool:
        """Whether the interval contains a Unix time, in the local time zone of this process."""
        local = datetime.fromtimestamp(moment)
        second = (local.hour * 60 + local.minute) * _MINUTE + local.second
        length = (self.end - self.start - 1) % _DAY + 1
        return (second - self.start) % _DAY <= length


def parse_hours(text: str) -> Hours:
    """Parses ``HH:MM-HH:MM``. Raises HoursError."""
    match = _HOURS.fullmatch(text)
    if match is None:
        raise HoursError(f"not hours of a day as HH:MM-HH:MM: {text!r:.66}")
    hour, minute, last_hour, last_minute = (int(part) for part in match.groups())
    return Hours(text, (hour * 60 + minute) * _MINUTE, (last_hour * 60 + last_minute) * _MINUTE)


@register_plugin
class Tdm:
    """Arguments: ``tdm.revocable-zone.<name>`` for each zone: the hours in which it may be used (``HH:MM-HH:MM``, local
    time; an end that is not after the start is on the next day). ``tdm.evict.period`` (default 1m): the minimum time
    between two rounds of evictions."""

    name: ClassVar[str] = "tdm"

    def __init__(self, arguments: Arguments) -> None:
        self.hours: dict[str, Hours] = {}
        """Zone -> its hours, for zones whose hours are valid."""
        for key in arguments:
            if key.startswith(ZONE):
                try:
                    self.hours[key.removeprefix(ZONE)] = parse_hours(arguments.text(key, ""))
                except HoursError as error:
                    arguments.problems.append(f"argument {key}: {error}; the zone is not known")
        self._period = arguments.duration("tdm.evict.period", 60.0)

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._open = {zone: hours.contains(session.now) for zone, hours in self.hours.items()}
        """Configured zone -> whether its nodes may be used now."""
        self._due = is_due(session, self.name, self._period, immediately=True)
        facts = session.nodes.facts
        codes, self._names = facts.label_column(REVOCABLE_ZONE)
        empty = self._names.index("") if "" in self._names else -2
        self._codes: Codes = np.where(codes == empty, np.int32(-1), codes)
        """Position of each node's zone in ``_names``; -1: an ordinary node."""
        session.add_filter(self._filters, pin=PinUse.IGNORED)
        session.add_score(self._scores)
        session.add_preemptable(self._victims, bound=self._evictable, by_demand=True)
        session.add_victim_tasks(self._victims_outside_hours)
        session.add_job_order(lambda job: job.preemptable)
        session.add_job_pipelined(lambda job: Vote.PERMIT if job.missing <= job.waiting_count else Vote.REJECT)
        session.add_job_starving(lambda job: not job.preemptable and TaskStatus.PENDING in job.by_status)

    # --- nodes ---
    def _filters(self, cls: TaskClass) -> list[Filter]:
        if not self._names:
            return []
        otherwise = "" if revocable(cls.annotations) else NOT_REVOCABLE
        reasons = [self._closed_reason(zone) or otherwise for zone in self._names]
        return [_by_reason(self._codes, reasons)] if any(reasons) else []

    def _closed_reason(self, zone: str) -> str:
        """Returns why nodes of the zone may not be used now; "" if they may."""
        if zone not in self.hours:
            return f"revocable zone {zone} not support"
        return "" if self._open[zone] else f"current time beyond revocable zone {zone}:{self.hours[zone].text}"

    def _scores(self, cls: TaskClass) -> list[Score]:
        if not self._names or not revocable(cls.annotations):
            return []
        active = np.array([*(self._open.get(zone, False) for zone in self._names), False])
        return [StaticScore(np.where(active[self._codes], BEST, 0.0))]

    # --- victims ---
    def _victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        if _must_not_preempt(preemptor):
            return []
        return self._within_budgets(task for task in candidates if self._on_ordinary_node(task))

    def _evictable(self, preemptor: Task, candidates: EvictionCandidates) -> Mask:
        if _must_not_preempt(preemptor):
            return np.zeros(len(candidates.tasks), dtype=bool)
        return candidates.per_task(self._on_ordinary_node)

    def _victims_outside_hours(self, candidates: Sequence[Task]) -> list[Task]:
        """Returns victims on nodes outside their hours, once per session, if a round of evictions is due."""
        due, self._due = self._due, False
        if not due:
            return []
        over = [not self._open.get(zone, True) for zone in self._names]
        return self._within_budgets(
            task
            for task in candidates
            if _is_running_preemptable(task) and (code := self._code(task)) >= 0 and over[code]
        )

    def _within_budgets(self, tasks: Iterable[Task]) -> list[Task]:
        left: dict[str, int] = {}
        victims = []
        for task in tasks:
            job = self._session.jobs.get(task.job)
            if job is None:
                continue
            if task.job not in left:
                left[task.job] = max_victims(self._session, job)
            if left[task.job] > 0:
                left[task.job] -= 1
                victims.append(task)
        return victims

    def _on_ordinary_node(self, task: Task) -> bool:
        return _is_running_preemptable(task) and self._code(task) == -1

    def _code(self, task: Task) -> int:
        """Returns the position of the zone of a task's node; -1 for an ordinary node, -2 for an unknown node."""
        row = self._session.nodes.index.get(task.node)
        return -2 if row is None else int(self._codes[row])


def _must_not_preempt(task: Task) -> bool:
    """Whether a task must not preempt others, because it is preemptable or revocable itself."""
    return task.preemptable or revocable(task.cls.annotations)


def _is_running_preemptable(task: Task) -> bool:
    return task.preemptable and task.status is TaskStatus.RUNNING


def _by_reason(codes: Codes, reasons: Sequence[str]) -> CodedFilter:
    """Builds a filter from codes and the reason of each code; nodes with the reason "" pass."""
    texts = [reason for reason in dict.fromkeys(reasons) if reason]
    place = np.array([texts.index(reason) if reason else -1 for reason in reasons] + [-1], dtype=np.int32)
    return CodedFilter(place[codes], texts)


DEFAULT: Final = 1
"""The number of victims without a budget."""
_NUMBER: Final = re.compile(r"([0-9]{1,9})(%?)")


def max_victims(session: PluginSession, job: Job) -> int:
    """Returns the number of victims that leaves ``jdb-min-available`` Pods running or, without this annotation, makes
    at most ``jdb-max-unavailable`` Pods unavailable. Percentages are of all Pods, rounded up. An invalid value is
    reported and replaced by the default."""
    running = job.count(TaskStatus.RUNNING)
    minimum, maximum = job.annotations.get(JDB_MIN_AVAILABLE), job.annotations.get(JDB_MAX_UNAVAILABLE)
    if minimum is not None:
        keep = _number(session, job, JDB_MIN_AVAILABLE, minimum)
        return DEFAULT if keep is None or running < keep else running - keep
    if maximum is not None:
        away = _number(session, job, JDB_MAX_UNAVAILABLE, maximum)
        already = job.size - job.count(*FINISHED_STATUSES) - running
        return DEFAULT if away is None else max(away - already, 0)
    return DEFAULT


def _number(session: PluginSession, job: Job, key: str, text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        problem = f"not a number or a percentage: {text!r:.66}"
        session.malformed_field(Malformed("PodGroup", job.namespace, job.name, f"metadata.annotations[{key}]", problem))
        return None
    number = int(match[1])
    return -(-number * job.size // 100) if match[2] else number
