"""Random statements on a plugin's ledger: discarding a statement restores the books exactly."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError, Statement


@dataclass
class Setting(ABC):
    """An open session, with accessors for its jobs."""

    session: Session

    def job(self, name: str) -> Job:
        return self.session.jobs[f"default/{name}"]

    def task(self, job_name: str, number: int = 0) -> Task:
        return sorted(self.job(job_name).tasks(), key=lambda task: task.name)[number]

    @abstractmethod
    def books(self) -> list[object]:
        """The state of the ledger, for comparison."""


class Statements(RuleBasedStateMachine):
    """Allocates, pipelines, evicts, discards and commits in any order."""

    def begin(self, given: Setting, waiting: list[str], running: list[str]) -> None:
        """``waiting``, ``running``: names of jobs with one task each."""
        self.setting = given
        self.waiting = waiting
        self.running = running
        self.statement: Statement = given.session.statement()
        self.before = given.books()

    @rule(data=st.data(), pipelined=st.booleans())
    def place(self, data: st.DataObject, pipelined: bool) -> None:
        name = data.draw(st.sampled_from(self.waiting))
        row = data.draw(st.integers(0, len(self.setting.session.nodes) - 1))
        job, task = self.setting.job(name), self.setting.task(name)
        if task.uid not in job.of(TaskStatus.PENDING):
            return
        books = self.setting.books()
        try:
            if pipelined:
                self.statement.pipeline(job, task, row)
            else:
                self.statement.allocate(job, [task], [row])
        except AllocationError:
            assert self.setting.books() == books

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.running))
        job, task = self.setting.job(name), self.setting.task(name)
        if task.uid not in job.of(TaskStatus.RELEASING):
            self.statement.evict(job, task, "test")

    @rule()
    def discard(self) -> None:
        self.statement.discard()
        assert self.setting.books() == self.before

    @rule()
    def commit(self) -> None:
        self.statement.commit()
        self.before = self.setting.books()
