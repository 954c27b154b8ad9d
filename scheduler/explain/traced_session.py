"""A session that records which plugin refused one job at which extension point, and how a node was chosen.

It makes the same decisions as an ordinary session. It wraps the plugins' functions that answer about jobs and queues,
so every refusal is attributed to its plugin and extension point, for external plugins too.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from scheduler.api.job import Job
from scheduler.api.reasons import Refusal
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.explain.explanation import Ranking
from scheduler.explain.nodes import rank
from scheduler.framework.combining import Function
from scheduler.framework.configuration import Configuration
from scheduler.framework.extension import (
    ALLOCATABLE,
    ALLOCATABLE_NOW,
    JOB_ENQUEUEABLE,
    JOB_VALID,
    OVERUSED,
    ExtensionPoint,
    Vote,
)
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

_QUESTIONS: Final = frozenset({JOB_ENQUEUEABLE, JOB_VALID, OVERUSED, ALLOCATABLE, ALLOCATABLE_NOW})


class RefusalSource(msgspec.Struct, frozen=True):
    """The plugin that refused, and its extension point."""

    plugin: str
    point: ExtensionPoint


class TracedSession(Session):
    """A session that traces one job."""

    def __init__(
        self, snapshot: Snapshot, configuration: Configuration, *, about: str, pod: str = "", **settings: Any
    ) -> None:
        """``about``: key of the traced job. ``pod``: key of the Pod to rank nodes for; "": the first that is placed.
        The other arguments are those of ``Session``."""
        self._about = about
        self._pod = pod
        self._refusal_sources: dict[int, tuple[Refusal, RefusalSource]] = {}
        self._current_source: RefusalSource | None = None
        self.refusers: dict[ExtensionPoint, list[str]] = {}
        """Extension point -> the plugins that refused the job there."""
        self.rankings: dict[str, Ranking] = {}
        """Pod -> the ranking of nodes when it was placed."""
        super().__init__(snapshot, configuration, **settings)

    # --- refusals ---
    def insert(
        self, point: ExtensionPoint, tier: int, function: Function, plugin: str, source: Function | None = None
    ) -> None:
        recorded = self._recording(point, function, plugin) if point in _QUESTIONS else function
        super().insert(point, tier, recorded, plugin, source or function)

    def source_of(self, refusal: Refusal) -> RefusalSource | None:
        """The plugin and extension point of a refusal; None: unknown."""
        known = self._refusal_sources.get(id(refusal))
        return known[1] if known is not None else None

    def _recording(self, point: ExtensionPoint, function: Function, plugin: str) -> Function:
        author = RefusalSource(plugin, point)

        def recorded(*arguments: Any) -> Any:
            before, self._current_source = self._current_source, author
            try:
                answer = function(*arguments)
            finally:
                self._current_source = before
            if isinstance(answer, Refusal):
                self._refusal_sources[id(answer)] = (answer, author)
            if _denies(answer) and any(isinstance(a, Job) and a.key == self._about for a in arguments):
                self.refusers.setdefault(point, []).append(plugin)
            return answer

        return recorded

    def refuse(self, job: Job, refusal: Refusal, *, restates: Refusal | None = None) -> None:
        source = self._current_source if restates is None else self.source_of(restates)
        if source is not None:
            self._refusal_sources[id(refusal)] = (refusal, source)
        super().refuse(job, refusal)

    def is_traced(self, job: Job) -> bool:
        return job.key == self._about

    # --- rankings ---
    def statement(self) -> Statement:
        return _TracedStatement(self)

    def record_ranking(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Records the ranking of nodes before tasks of one class are allocated to ``rows``, in this order."""
        if job.key != self._about:
            return
        for i, task in enumerate(tasks):
            if task.key == self._pod or not (self._pod or self.rankings):
                chosen = self.nodes.names[rows[i]]
                self.rankings = {task.key: rank(self, job, task, chosen=chosen, ahead=Counter(rows[:i]))}


class _TracedStatement(Statement):
    def __init__(self, session: TracedSession) -> None:
        super().__init__(session)
        self._traced = session

    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._traced.record_ranking(job, tasks, rows)
        super().allocate(job, tasks, rows)


def _denies(answer: object) -> bool:
    """Whether an answer is a refusal: a Refusal, a rejecting vote, or room for no task."""
    return isinstance(answer, Refusal) or answer is Vote.REJECT or (isinstance(answer, int) and answer <= 0)
