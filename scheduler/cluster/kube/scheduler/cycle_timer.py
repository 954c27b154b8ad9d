"""Decides when the next session runs: every period, and sooner when the Pods have gone that a pipelined job waits for.

A preemptor waits for its victims to terminate, and the session after that binds it. The timer waits until all victims
of a job are gone: a session before that could not start the job. Such an early session still comes after a pause as
long as the last session took, in which writes and watches proceed.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Protocol

from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import TaskStatus
from scheduler.framework.cycle import Outcome
from scheduler.framework.session import Session

POLL_SECONDS = 0.05
"""Seconds between two checks of the Pods that jobs wait for."""
Awaited = tuple[frozenset[str], ...]
"""For each pipelined job, the nodes on which Pods have to terminate first."""


class Nodes(Protocol):
    """The part of the cache that the timer uses."""

    def terminates_on(self, node: str) -> bool:
        """Whether a Pod on the node is terminating."""
        ...


def awaited(session: Session) -> Awaited:
    """The nodes that the pipelined jobs of a session wait for."""
    nodes = session.nodes
    leaving = nodes.releasing[PODS_INDEX] > 0
    found = []
    for job in session.jobs.values():
        if TaskStatus.PIPELINED in job.by_status and session.job_pipelined(job):
            rows = {job.placed[uid] for uid in job.of(TaskStatus.PIPELINED)}
            names = frozenset(nodes.names[row] for row in rows if leaving[row])
            if names:
                found.append(names)
    return tuple(found)


class CycleTimer:
    """Times the pauses between sessions."""

    def __init__(self, period: float, nodes: Nodes) -> None:
        """``period``: seconds between two sessions when no pipelined job waits."""
        self._period = period
        self._nodes = nodes
        self._seconds = 0.0
        self._awaited: Awaited = ()

    def cycle_ended(self, outcome: Outcome) -> None:
        """Notes the outcome of a session."""
        self._seconds, self._awaited = outcome.seconds, awaited(outcome.session)

    async def wait(self, ends: Collection[asyncio.Future[Any]]) -> None:
        """Waits until the next session is due, or one of ``ends`` is done."""
        waiting, self._awaited = self._awaited, ()
        clock = asyncio.get_running_loop().time
        end = clock() + self._period
        pause = max(self._seconds, POLL_SECONDS) if waiting else self._period
        while (left := end - clock()) > 0:
            done, _ = await asyncio.wait(ends, timeout=min(pause, left), return_when=asyncio.FIRST_COMPLETED)
            if done or self._released(waiting):
                return
            pause = POLL_SECONDS

    def _released(self, waiting: Awaited) -> bool:
        return any(not any(map(self._nodes.terminates_on, names)) for names in waiting)
