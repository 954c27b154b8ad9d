"""When the next session is held: every period, and sooner when what terminates on the nodes promised to a job is gone.

Whoever preempts waits for its victims to go, and is bound by the session after that. What a job waits for is awaited as
a whole: the sessions in between could not start it. Between two sessions there is a rest as long as the last one took,
since writes and watches go on meanwhile.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Protocol

from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import TaskStatus
from scheduler.framework.cycle import Outcome
from scheduler.framework.session import Session

GLANCE = 0.05
"""Seconds between two looks at what is waited for."""
Awaited = tuple[frozenset[str], ...]
"""For each job that waits for no more than that: the nodes on which something has to go first."""


class Nodes(Protocol):
    """What is known of the cluster."""

    def terminates_on(self, node: str) -> bool:
        """Whether a Pod on the node is on its way out."""
        ...


def awaited(session: Session) -> Awaited:
    """What the jobs that were promised nodes in a session wait for."""
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


class Pace:
    """The rests between sessions."""

    def __init__(self, period: float, nodes: Nodes) -> None:
        """``period``: seconds between two sessions where there is no hurry."""
        self._period = period
        self._nodes = nodes
        self._seconds = 0.0
        self._awaited: Awaited = ()

    def held(self, outcome: Outcome) -> None:
        """A session came to this."""
        self._seconds, self._awaited = outcome.seconds, awaited(outcome.session)

    async def rest(self, ends: Collection[asyncio.Future[Any]]) -> None:
        """Until the next session is due, or one of ``ends`` is done."""
        waiting, self._awaited = self._awaited, ()
        clock = asyncio.get_running_loop().time
        end = clock() + self._period
        pause = max(self._seconds, GLANCE) if waiting else self._period
        while (left := end - clock()) > 0:
            done, _ = await asyncio.wait(ends, timeout=min(pause, left), return_when=asyncio.FIRST_COMPLETED)
            if done or self._released(waiting):
                return
            pause = GLANCE

    def _released(self, waiting: Awaited) -> bool:
        return any(not any(map(self._nodes.terminates_on, names)) for names in waiting)
