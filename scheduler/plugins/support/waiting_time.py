"""The time limit for waiting that a PodGroup sets in an annotation (``volcano.sh/sla-waiting-time``)."""

from scheduler.api.job import Job
from scheduler.api.names import SLA_WAITING_TIME, SLA_WAITING_TIME_PLAIN
from scheduler.api.selectors import FieldReporter
from scheduler.api.times import DurationError, parse_duration


def own_waiting_time(job: Job, report: FieldReporter) -> float | None:
    """Returns the waiting time that the job's PodGroup sets, in seconds; None if it sets none or an invalid one."""
    for key in (SLA_WAITING_TIME, SLA_WAITING_TIME_PLAIN):
        text = job.annotations.get(key)
        if text is not None:
            try:
                return parse_waiting_time(text)
            except DurationError as error:
                report(f"metadata.annotations[{key}]", str(error))
    return None


def parse_waiting_time(text: str) -> float:
    """Parses a positive duration, in seconds. Raises DurationError."""
    seconds = parse_duration(text)
    if seconds <= 0:
        raise DurationError(f"not a time to wait: {text!r:.66}")
    return seconds
