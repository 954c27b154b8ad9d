"""The plugin: what is asked of the extender, when, and what its silence means."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

import msgspec

from scheduler.api.job import Job
from scheduler.api.objects import ConfigMap
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.columns import Filter, Score
from scheduler.framework.extension import (
    JOB_READY,
    Vote,
)
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.extender import answers
from scheduler.plugins.extender.client import ExtenderClient, NoAnswerError
from scheduler.plugins.extender.columns import ExtenderScore, OneByOne, VerdictFilter, Verdicts
from scheduler.plugins.extender.settings import Settings
from scheduler.plugins.extender.wire import Wire

A = TypeVar("A")


@register_plugin
class Extender:
    """Arguments: ``extender.urlPrefix``, ``extender.httpTimeout`` (1s), ``extender.ignorable`` (false),
    ``extender.managedResources`` (a list; none: all tasks are its business), and a verb for each question that is to be
    asked: ``extender.<question>Verb`` with onSessionOpen, onSessionClose, predicate, prioritize, preemptable,
    reclaimable, queueOverused, jobEnqueueable, jobEnqueued, jobReady, allocateFunc, deallocateFunc."""

    name: ClassVar[str] = "extender"

    def __init__(self, arguments: Arguments) -> None:
        self._settings = Settings(arguments)

    @classmethod
    def cache_requirements(cls, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> CacheRequirements:
        return CacheRequirements(originals=True)

    def open(self, session: Session) -> None:
        settings = self._settings
        self._session = session
        self._kept: dict[object, tuple[int, Any]] = {}
        """Question -> moment of the session and answer."""
        self._unranked: dict[tuple[str, int], str] = {}
        """Key of a job and class -> why its tasks may not be placed by the scores there are."""
        self._client = ExtenderClient(session.external_calls, settings, self._tell)
        self._wire = Wire(session)
        if settings.session_close:
            session.add_close(lambda: self._notify(settings.session_close, {}))
        heard = not settings.session_open or self._notify(settings.session_open, self._wire.everything())
        if heard or settings.ignorable:
            self._open(session)

    def _open(self, session: Session) -> None:
        settings = self._settings
        if settings.predicate or settings.allocate:
            session.add_filter(self._filters, per_job=True)
        if settings.prioritize:
            session.add_score(self._scores, per_job=True)
        if settings.preemptable:
            session.add_preemptable(partial(self._victims, settings.preemptable))
        if settings.reclaimable:
            session.add_reclaimable(partial(self._victims, settings.reclaimable))
        if settings.queue_overused:
            session.add_overused(self._overused)
        if settings.job_enqueueable:
            session.add_job_enqueueable(self._enqueueable)
        if settings.job_enqueued:
            session.add_job_enqueued(lambda job: self._notify(settings.job_enqueued, {"job": self._wire.job(job)}))
        if settings.job_ready:
            session.add_job_ready(self._missing)
        if settings.allocate or settings.deallocate or settings.prioritize:
            session.add_handlers(self._allocated, self._deallocated)

    def _tell(self, problem: str) -> None:
        self._session.problems.append(f"plugin {self.name}: {problem}")

    def _notify(self, verb: str, message: object) -> bool:
        """Whether it was heard."""
        try:
            self._client.notify(verb, message)
        except NoAnswerError:
            return False
        return True

    def _keep(self, question: object, ask: Callable[[], A]) -> A:
        """What was answered before, if nothing has been placed or evicted since."""
        moment = len(self._session.nodes.log)
        kept = self._kept.get(question)
        if kept is None or kept[0] != moment:
            kept = self._kept[question] = (moment, ask())
        answer: A = kept[1]
        return answer

    # --- nodes ---
    def _filters(self, cls: TaskClass, job: Job) -> list[Filter]:
        if not self._settings.concerns(cls):
            return []
        if not self._settings.predicate:
            return [OneByOne()]
        verdicts = Verdicts(
            self._session.nodes, partial(self._ask_predicate, cls, job), ignorable=self._settings.ignorable
        )
        return [VerdictFilter(verdicts, unresolvable=True), VerdictFilter(verdicts, unresolvable=False)]

    def _ask_predicate(
        self, cls: TaskClass, job: Job, rows: Sequence[int]
    ) -> Sequence[answers.Predicate | NoAnswerError]:
        task = self._next(cls, job)
        questions = [{"task": task, "node": self._wire.node(row)} for row in rows]
        return self._client.ask_all(self._settings.predicate, questions, answers.Predicate)

    def _scores(self, cls: TaskClass, job: Job) -> list[Score]:
        if not self._settings.concerns(cls):
            return []
        return [ExtenderScore(self._session.nodes, partial(self._ask_scores, cls, job))]

    def _ask_scores(self, cls: TaskClass, job: Job, rows: Sequence[int]) -> Mapping[str, float] | None:
        """Where it cannot rank the nodes, nothing is placed, unless it is to be ignored."""
        question = {"task": self._next(cls, job), "nodes": [self._wire.node(row) for row in rows]}
        self._unranked.pop((job.key, cls.id), None)
        try:
            answer = self._client.ask(self._settings.prioritize, question, answers.Prioritize)
        except NoAnswerError as error:
            if not self._settings.ignorable:
                self._unranked[job.key, cls.id] = str(error)
            return None
        if answer.errormessage or answer.nodescore is None:
            why = f"the nodes are not ranked: {answer.errormessage or 'no nodeScore'}"
            self._unranked[job.key, cls.id] = f"extender {self._settings.prefix}/{self._settings.prioritize}: {why}"
            return None
        return answer.nodescore

    def _next(self, cls: TaskClass, job: Job) -> msgspec.Raw:
        """The task of the class that is to be placed next, which stands for the others."""
        waiting = [task for task in job.of(TaskStatus.PENDING).values() if task.cls is cls]
        task = min(waiting or (t for t in job.tasks() if t.cls is cls), key=self._session.task_key)
        return msgspec.Raw(msgspec.json.encode(self._wire.task(job, task)))

    # --- victims ---
    def _victims(self, verb: str, evictor: Task, evictees: Sequence[Task]) -> list[Task] | None:
        if not self._settings.concerns(evictor.cls):
            return None
        return self._keep(
            (verb, evictor.uid, *(task.uid for task in evictees)),
            lambda: self._ask_victims(verb, evictor, evictees),
        )

    def _ask_victims(self, verb: str, evictor: Task, evictees: Sequence[Task]) -> list[Task] | None:
        question = {"evictor": self._task(evictor), "evictees": [self._task(task) for task in evictees]}
        try:
            answer = self._client.ask(verb, question, answers.Victims)
        except NoAnswerError:
            return None if self._settings.ignorable else []
        uids = answer.uids
        return [task for task in evictees if task.uid in uids] if answer.status else None

    def _task(self, task: Task) -> object:
        return self._wire.task(self._session.jobs.get(task.job), task)

    # --- queues and jobs ---
    def _overused(self, queue: Queue) -> Refusal | None:
        return self._keep(("overused", queue.name), lambda: self._ask_overused(queue))

    def _ask_overused(self, queue: Queue) -> Refusal | None:
        verb = self._settings.queue_overused
        try:
            answer = self._client.ask(verb, {"queue": self._wire.queue(queue)}, answers.Overused)
        except NoAnswerError as error:
            return None if self._settings.ignorable else Refusal("Extender", f"queue {queue.name}: {error}")
        if not answer.overused:
            return None
        return Refusal("Extender", f"queue {queue.name} is overused, says the extender {self._settings.prefix}/{verb}")

    def _enqueueable(self, job: Job) -> Vote:
        try:
            question = {"job": self._wire.job(job)}
            status = self._client.ask(self._settings.job_enqueueable, question, answers.Vote).status
        except NoAnswerError:
            status = 1 if self._settings.ignorable else -1
        return Vote.PERMIT if status > 0 else Vote.REJECT if status < 0 else Vote.ABSTAIN

    def _missing(self, job: Job) -> int:
        """It is asked when all others find the job ready."""
        others = (f for tier in self._session.functions(JOB_READY) for f in tier if f != self._missing)
        if any(other(job) for other in others):
            return 0
        return self._keep(("ready", job.key), lambda: self._ask_missing(job))

    def _ask_missing(self, job: Job) -> int:
        try:
            question = {"job": self._wire.job(job)}
            return int(not self._client.ask(self._settings.job_ready, question, answers.Ready).status)
        except NoAnswerError:
            return int(not self._settings.ignorable)

    # --- placements ---
    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Raises AllocationError when it objects. An eviction that is undone is nothing to object to."""
        unranked = self._unranked.pop((job.key, tasks[0].cls.id), "")
        if unranked and not tasks[0].node:
            raise AllocationError(unranked)
        for position, task in enumerate(tasks):
            objection = self._event(self._settings.allocate, job, task)
            if objection and not task.node:
                for told in reversed(tasks[: position + 1]):
                    self._event(self._settings.deallocate, job, told, TaskStatus.PENDING)
                raise AllocationError(objection)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task in tasks:
            self._event(self._settings.deallocate, job, task, None if task.node else TaskStatus.PENDING)

    def _event(self, verb: str, job: Job, task: Task, status: TaskStatus | None = None) -> str:
        """What it has to say against it, or "". ``status``: to be shown in place of the one it still has."""
        if not verb or not self._settings.concerns(task.cls):
            return ""
        try:
            return self._client.ask(verb, {"task": self._wire.task(job, task, status)}, answers.Event).errormessage
        except NoAnswerError as error:
            return "" if self._settings.ignorable else str(error)
