"""sla: a job that has waited longer than it should is let in, and nodes are kept for it (Volcano's sla plugin)."""

from typing import ClassVar

from scheduler.api.duration import DurationError, parse_duration
from scheduler.api.job import Job
from scheduler.api.names import SLA_WAITING_TIME, SLA_WAITING_TIME_PLAIN
from scheduler.api.reasons import Malformed
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import JOB_ENQUEUEABLE, JOB_ORDER, JOB_PIPELINED, Vote
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.selectors import Complain

NEVER = float("inf")


@register_plugin
class Sla:
    """Argument ``sla-waiting-time``: how long jobs may wait that do not say so themselves in an annotation of their
    PodGroup (``volcano.sh/sla-waiting-time``, or ``sla-waiting-time``); a duration such as ``1h30m``. Default: for
    ever."""

    name: ClassVar[str] = "sla"

    def __init__(self, arguments: Arguments) -> None:
        self._default = NEVER
        given = arguments.get(SLA_WAITING_TIME_PLAIN)
        if given is not None:
            try:
                self._default = _waiting_time(str(given))
            except DurationError as error:
                arguments.problems.append(f"argument {SLA_WAITING_TIME_PLAIN}: {error}; jobs may wait for ever")

    def open(self, session: Session) -> None:
        self._session = session
        self.deadlines = {key: self._deadline(job) for key, job in session.jobs.items()}
        session.add(JOB_ORDER, lambda job: self.deadlines[job.key])
        session.add(JOB_ENQUEUEABLE, self._overdue)
        session.add(JOB_PIPELINED, self._overdue)

    def _overdue(self, job: Job) -> Vote:
        return Vote.PERMIT if self._session.now >= self.deadlines[job.key] else Vote.ABSTAIN

    def _deadline(self, job: Job) -> float:
        """Seconds since the epoch, or infinity."""

        def complain(field: str, problem: str) -> None:
            self._session.malformed_field(Malformed("PodGroup", job.namespace, job.name, field, problem))

        own = own_waiting_time(job, complain)
        return job.creation + (self._default if own is None else own)


def own_waiting_time(job: Job, complain: Complain) -> float | None:
    """How long a PodGroup says that it may wait, in seconds; None: it does not say."""
    for key in (SLA_WAITING_TIME, SLA_WAITING_TIME_PLAIN):
        text = job.annotations.get(key)
        if text is not None:
            try:
                return _waiting_time(text)
            except DurationError as error:
                complain(f"metadata.annotations[{key}]", str(error))
    return None


def _waiting_time(text: str) -> float:
    """Seconds, more than none. Raises DurationError."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise DurationError(f"not a time to wait: {text!r:.66}")
    return seconds
