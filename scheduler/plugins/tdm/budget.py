"""The disruption budget of a job, in annotations of its PodGroup: how many of its Pods may be evicted at once."""

import re
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE
from scheduler.api.reasons import Malformed
from scheduler.api.task import FINISHED_STATUSES, TaskStatus
from scheduler.framework.session import Session

DEFAULT: Final = 1
"""The number of victims without a budget."""
_NUMBER: Final = re.compile(r"([0-9]{1,9})(%?)")


def max_victims(session: Session, job: Job) -> int:
    """Returns the number of victims that leaves ``jdb-min-available`` Pods running or, without this annotation, makes
    at most ``jdb-max-unavailable`` Pods unavailable. Percentages are of all Pods, rounded up. An invalid value is
    reported and replaced by the default."""
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
