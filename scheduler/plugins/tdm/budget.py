"""How many Pods of a job may be evicted at once: its disruption budget, in annotations of the PodGroup."""

import re
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from scheduler.api.reasons import Malformed
from scheduler.api.task import FINISHED_STATUSES, TaskStatus
from scheduler.framework.session import Session

DEFAULT: Final = 1
"""Where the job says nothing."""
_NUMBER: Final = re.compile(r"([0-9]{1,9})(%?)")


def most_victims(session: Session, job: Job) -> int:
    """As many as keep ``jdb-min-available`` Pods running, or ``jdb-max-unavailable`` at most from it (the former counts
    if both are there). Percentages are of all Pods, rounded up. One that makes no sense is set aside."""
    running = job.count(TaskStatus.RUNNING)
    minimum, maximum = job.annotations.get(JDB_MIN_AVAILABLE), job.annotations.get(JDB_MAX_UNAVAILABLE)
    if minimum is not None:
        keep = _number(session, job, JDB_MIN_AVAILABLE, minimum)
        return DEFAULT if keep is None or running < keep else running - keep
    if maximum is not None:
        away = _number(session, job, JDB_MAX_UNAVAILABLE, maximum)
        already = job.size - job.count(*FINISHED_STATUSES) - running
        return DEFAULT if away is None else max(away - already, 0)
    return DEFAULT


def _number(session: Session, job: Job, key: str, text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None:
        problem = f"not a number or a percentage: {text!r:.66}"
        session.malformed_field(Malformed("PodGroup", job.namespace, job.name, f"metadata.annotations[{key}]", problem))
        return None
    number = int(match[1])
    return -(-number * job.size // 100) if match[2] else number
