"""Waits for the next session: until one is due (``session_timing``), or until the Pods have gone that a pipelined job
waits for. Decides whether a session is needed, and whether it runs on the event loop.

A preemptor waits for its victims to terminate, and the session after that binds it. The timer waits until all victims
of a job are gone: a session before that could not start the job. Such an early session still comes after a pause as
long as the last session took, in which writes and watches proceed.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, Final, Protocol

import msgspec

from scheduler.actions.eviction.solver import MAX_EVICTIONS
from scheduler.api.resource import PODS_INDEX
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskClass, TaskStatus
from scheduler.cache.versioning import Version
from scheduler.cluster.kube.scheduler.session_timing import SessionResult, SessionTiming
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, SessionDemand, SessionObserver
from scheduler.framework.search_limit import SearchLimit
from scheduler.framework.session import Session

IDLE_CYCLE = 5.0
"""Seconds after which a session is held although nothing has changed, if its decisions may depend on time."""
REST = 10.0
"""Seconds of a pause in which nothing changes. After it, the configuration file is read, and liveness is reported."""
POLL_SECONDS = 0.05
"""Seconds between two checks of the Pods that jobs wait for."""
BRIEF_SECONDS: Final = 0.02
"""Seconds that a session took, below which the next one can be brief, too."""
BRIEF_JOBS: Final = 64
"""Active jobs of a brief session, at most."""
BRIEF_TASKS: Final = 16
"""Pending tasks of a brief session, at most."""
BRIEF_BYTES: Final = 16 * 1024
"""Size of the specs of these tasks, as JSON: users may write thousands of terms into one."""
Awaited = tuple[frozenset[str], ...]
"""The nodes of each pipelined job on which Pods have to terminate first."""


class TimerCache(Protocol):
    """The part of the cache that the timer uses."""

    @property
    def version(self) -> int: ...

    @property
    def changes(self) -> Version: ...

    def terminates_on(self, node: str) -> bool:
        """Whether a Pod on the node is terminating."""
        ...


def awaited(session: Session) -> Awaited:
    """The nodes that the pipelined jobs of a session wait for."""
    nodes = session.nodes
    leaving = nodes.releasing[PODS_INDEX] > 0
    found = []
    for job in session.active_jobs.values():
        if TaskStatus.PIPELINED in job.by_status and session.job_pipelined(job):
            rows = {job.placed[uid] for uid in job.of(TaskStatus.PIPELINED)}
            names = frozenset(nodes.names[row] for row in rows if leaving[row])
            if names:
                found.append(names)
    return tuple(found)


def result_of(outcome: Outcome) -> SessionResult:
    """The result of a session. Jobs with scheduling gates, and gangs whose Pods do not all exist or whose queue does
    not exist, do not wait for room."""
    waits = gang_waits = False
    session = outcome.session
    for job in session.active_jobs.values():
        by_status, gang = job.by_status, job.min_member > 1 and job.queue in session.queues
        if TaskStatus.PENDING in by_status or TaskStatus.PIPELINED in by_status:
            if job.gated is None and job.size >= job.min_member:
                waits, gang_waits = True, gang_waits or (gang and job.missing > 0)
        elif job.waiting_for_queue:
            waits, gang_waits = True, gang_waits or gang
    decisions = outcome.decisions
    admits = any(update.admits for update in decisions.pod_groups)
    placed = bool(decisions.binds or decisions.evictions or decisions.ungates or admits)
    return SessionResult(
        waits,
        gang_waits,
        placed,
        limited=len(decisions.evictions) >= MAX_EVICTIONS,
        left_out=session.once(SearchLimit).left_out,
    )


@dataclass(frozen=True, slots=True)
class _Idle:
    """The last session decided nothing, and nothing of it waits to be written."""

    version: int
    """The version of the cache on which it decided."""
    timeless: bool
    """It would decide and report the same at any time: no job waits, it has not read the time, and its figures have
    been computed."""
    at: float
    """When it ended."""


class CycleTimer(SessionObserver):
    """Times the pauses between sessions."""

    def __init__(
        self,
        period: float,
        cache: TimerCache,
        *,
        unwritten: Callable[[], bool] = lambda: False,
        unreported: Callable[[], bool] = lambda: False,
    ) -> None:
        """``period``: the longest pause in seconds. ``unwritten``: whether statuses of the last session wait to be
        written. ``unreported``: whether its figures wait to be computed."""
        self._cache = cache
        self._unwritten = unwritten
        self._unreported = unreported
        self._version = -1
        """The version of the cache when the need for the session in progress was decided."""
        self._timing = SessionTiming(period, cache.changes)
        self._began: float | None = None
        """The processor time of the process when the session in progress began; None: it has ended, or was not
        needed."""
        self._brief: Configuration | None = None
        """The configuration with which the last session was brief and called no other program; None: it was not."""
        self._idle: _Idle | None = None
        """The last session, if the next one may be skipped."""
        self._awaited: Awaited = ()
        self._release_due = 0.0
        """When the next session is due once a job waits for no more terminating Pods."""

    def cycle_began(self) -> None:
        """A cycle begins. Unless ``ended`` or ``cycle_skipped`` follows before ``wait``, it has failed."""
        self._timing.begin()
        self._began = process_time()
        self._awaited = ()

    def is_brief(self, snapshot: Snapshot, configuration: Configuration) -> bool:
        """Whether the session in progress will take so little time that it can run on the event loop. On a machine
        whose processors are all busy, another thread would begin late and its result would arrive late.

        While sessions follow each other, those on another thread let requests proceed."""
        jobs = snapshot.active_jobs
        return (
            self._timing.is_quiet(_now())
            and configuration is self._brief
            and len(jobs) <= BRIEF_JOBS
            and sum(len(job.of(TaskStatus.PENDING)) for job in jobs.values()) <= BRIEF_TASKS
            and _are_small({task.cls for job in jobs.values() for task in job.of(TaskStatus.PENDING).values()})
        )

    async def demand(self) -> SessionDemand:
        """A session is needed if it may decide something, unlike the last one."""
        idle, self._version = self._idle, self._cache.version
        if idle is None or idle.version != self._version:
            return SessionDemand.NOW
        return SessionDemand.NONE if idle.timeless or _now() - idle.at < IDLE_CYCLE else SessionDemand.NOW

    def require_cycle(self) -> None:
        """Makes the next session needed whatever the last one has decided."""
        self._idle = None

    async def ended(self, outcome: Outcome) -> None:
        now = _now()
        session = outcome.session
        timeless = not session.active_jobs and not session.read_time and not self._unreported()
        done = not (outcome.decisions or self._unwritten() or session.once(SearchLimit).has_more_turns)
        self._idle = _Idle(self._version, timeless, now) if done else None
        seconds = outcome.seconds if self._began is None else process_time() - self._began
        self._timing.end(now, seconds, result_of(outcome))
        brief = outcome.seconds < BRIEF_SECONDS and not session.used_external_calls
        self._brief = session.configuration if brief else None
        self._awaited = awaited(session)
        self._release_due = now + max(outcome.seconds, POLL_SECONDS)
        self._began = None

    def cycle_skipped(self, *, rests: bool = False) -> None:
        """There was nothing to decide on. ``rests``: nothing but a change of the cache makes a session needed before it
        is needed anyway; otherwise the next check follows after the period."""
        now, idle, rest = _now(), self._idle, 0.0
        if rests and idle is not None:
            rest = REST if idle.timeless else idle.at + IDLE_CYCLE - now
        self._timing.skip(now, rest)
        self._began = None

    async def wait(self, ends: Collection[asyncio.Future[Any]]) -> None:
        """Waits until the next session is due, or one of ``ends`` is done."""
        if self._began is not None:
            self._timing.fail(_now())
            self._began = self._brief = None
        changes = self._cache.changes
        try:
            while True:
                now, due = _now(), self._timing.due()
                if self._released(now) or due <= now:
                    return
                changed = asyncio.get_running_loop().create_future()
                # A change is of no interest if it cannot make the session start earlier.
                changes.listener = partial(self._set_if_earlier, changed, due) if due > self._timing.earliest else None
                changes.waker = partial(self._set_if_earlier, changed, due) if self._timing.rests else None
                pause = min(due - now, POLL_SECONDS) if self._awaited else due - now
                done, _ = await asyncio.wait((*ends, changed), timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if not done.isdisjoint(ends):
                    return
        finally:
            changes.listener = changes.waker = None

    def _released(self, now: float) -> bool:
        """Whether a pipelined job waits for no more terminating Pods, and the last session ended long enough ago."""
        if now < self._release_due:
            return False
        return any(not any(map(self._cache.terminates_on, names)) for names in self._awaited)

    def _set_if_earlier(self, changed: asyncio.Future[None], due: float) -> None:
        if not changed.done() and self._timing.due() < due:
            changed.set_result(None)


def _are_small(classes: Collection[TaskClass]) -> bool:
    """Whether tasks of some classes say little about where they may run, and claim no devices."""
    if any(cls.device_claims for cls in classes):
        return False
    return sum(len(msgspec.json.encode(cls.spec)) for cls in classes) <= BRIEF_BYTES


def _now() -> float:
    return asyncio.get_running_loop().time()
