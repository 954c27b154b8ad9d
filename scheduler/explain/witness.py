"""A session that is looked on: which plugin said what about one job, and what the choice of a node was made from.

It decides as any other. Plugins' functions are wrapped where they answer about jobs and queues, so a refusal is known
with who uttered it, and at which question, whatever plugin that is.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.api.job import Job
from scheduler.api.reasons import Refusal
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.explain.explanation import Ranking
from scheduler.explain.scores import rank
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


@dataclass(frozen=True, slots=True)
class Author:
    """Who refused, at which question."""

    plugin: str
    point: ExtensionPoint


class Witness(Session):
    """A session about one job."""

    def __init__(
        self, snapshot: Snapshot, configuration: Configuration, *, about: str, pod: str = "", **settings: Any
    ) -> None:
        """``about``: key of the job; ``pod``: key of the Pod whose choice is wanted, "" for the first that is placed.
        The rest as for any session."""
        self._about = about
        self._pod = pod
        self._authors: dict[int, tuple[Refusal, Author]] = {}
        self._speaking: Author | None = None
        self.refusers: dict[ExtensionPoint, list[str]] = {}
        """Question -> the plugins that answered no for the job."""
        self.rankings: dict[str, Ranking] = {}
        """Pod -> what its node was chosen from."""
        super().__init__(snapshot, configuration, **settings)

    # --- who says what ---
    def _add(self, point: ExtensionPoint, function: Function, source: Function) -> None:
        heard = self._listening(point, function, self._option.name) if point in _QUESTIONS else function
        super()._add(point, heard, source)

    def author_of(self, refusal: Refusal) -> Author | None:
        known = self._authors.get(id(refusal))
        return known[1] if known is not None else None

    def _listening(self, point: ExtensionPoint, function: Function, plugin: str) -> Function:
        author = Author(plugin, point)

        def heard(*arguments: Any) -> Any:
            before, self._speaking = self._speaking, author
            try:
                answer = function(*arguments)
            finally:
                self._speaking = before
            if isinstance(answer, Refusal):
                self._authors[id(answer)] = (answer, author)
            if _denies(answer) and any(isinstance(a, Job) and a.key == self._about for a in arguments):
                self.refusers.setdefault(point, []).append(plugin)
            return answer

        return heard

    def refuse(self, job: Job, refusal: Refusal) -> None:  # type: ignore[override]
        if self._speaking is not None:
            self._authors[id(refusal)] = (refusal, self._speaking)
        super().refuse(job, refusal)

    # --- what was chosen from ---
    def statement(self) -> Statement:
        return _WatchedStatement(self)

    def look(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Tasks of one class are about to take their rows, one after the other."""
        if job.key != self._about:
            return
        for i, task in enumerate(tasks):
            if task.key == self._pod or not (self._pod or self.rankings):
                chosen = self.nodes.names[rows[i]]
                self.rankings = {task.key: rank(self, job, task, chosen=chosen, ahead=Counter(rows[:i]))}


class _WatchedStatement(Statement):
    def __init__(self, session: Witness) -> None:
        super().__init__(session)
        self._witness = session

    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        self._witness.look(job, tasks, rows)
        super().allocate(job, tasks, rows)


def _denies(answer: object) -> bool:
    """Whether an answer means no: a refusal, a vote against, no room."""
    return isinstance(answer, Refusal) or answer is Vote.REJECT or (isinstance(answer, int) and answer <= 0)


Watch = Callable[..., Witness]
