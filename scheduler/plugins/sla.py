"""sla: admits jobs that have waited too long, and reserves nodes for them (Volcano's sla plugin)."""

from collections.abc import Iterator
from math import inf, isfinite
from typing import ClassVar

from scheduler.api.job import Job
from scheduler.api.names import SLA_WAITING_TIME_PLAIN
from scheduler.api.reasons import Malformed
from scheduler.api.times import DurationError, format_duration
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import job_details
from scheduler.framework.session import Session
from scheduler.plugins.support.waiting_time import own_waiting_time, parse_waiting_time

NEVER = float("inf")


@register_plugin
class Sla:
    """Argument ``sla-waiting-time``: the waiting time of jobs whose PodGroup has neither of the annotations
    ``volcano.sh/sla-waiting-time`` and ``sla-waiting-time``; a duration such as ``1h30m``. Default: no limit."""

    name: ClassVar[str] = "sla"

    def __init__(self, arguments: Arguments) -> None:
        self._default = NEVER
        given = arguments.get(SLA_WAITING_TIME_PLAIN)
        if given is not None:
            try:
                self._default = parse_waiting_time(str(given))
            except DurationError as error:
                arguments.problems.append(f"argument {SLA_WAITING_TIME_PLAIN}: {error}; jobs may wait for ever")

    def open(self, session: PluginSession) -> None:
        self._session = session
        self.deadlines = {key: self._deadline(job) for key, job in session.jobs.items()}
        session.add_job_order(lambda job: self.deadlines[job.key])
        session.add_job_enqueueable(self._overdue)
        session.add_job_pipelined(self._overdue)

    def _overdue(self, job: Job) -> Vote:
        deadline = self.deadlines.get(job.key)
        if deadline is None:  # the job exists only for a trial
            deadline = self._deadline(job)
        return Vote.PERMIT if self._session.now >= deadline else Vote.ABSTAIN

    def _deadline(self, job: Job) -> float:
        """When the job has waited too long, in seconds since the epoch; infinity for never."""

        def report(field: str, problem: str) -> None:
            self._session.malformed_field(Malformed("PodGroup", job.namespace, job.name, field, problem))

        own = own_waiting_time(job, report)
        return job.creation + (self._default if own is None else own)


@job_details(Sla)
def deadline(session: Session, plugin: Sla, job: Job) -> Iterator[Gate]:
    """When a job that waits for its admission is admitted, however full its queue is."""
    then = plugin.deadlines[job.key] if job.waiting_for_queue else inf
    if isfinite(then):
        wait, left = format_duration(round(then - job.creation)), format_duration(round(then - session.now))
        yield Gate(GateKind.ENQUEUE, f"it is admitted once it has waited {wait}, that is in {left}", Sla.name)
