"""The ranks of the Pods of a job, which frameworks read from the annotation ``hccl/rankIndex``.

A Pod keeps the rank in its annotation. Another Pod has the ordinal of its StatefulSet or vcjob task, and otherwise the
lowest rank that no Pod of the job has, in the order of the names. Pods without chips have ranks too.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import TASK_INDEX
from scheduler.api.task import Task, TaskStatus

STATEFUL_SET_POD: Final = "statefulset.kubernetes.io/pod-name"
_ENDING: Final = frozenset({TaskStatus.FAILED, TaskStatus.RELEASING})
_DIGITS: Final = re.compile(r"([0-9]+)")


def ranks_of(job: Job) -> Mapping[str, str]:
    """uid -> rank of each Pod of the job. Failed and terminating Pods have none: their replacements do."""
    tasks = [task for status, group in job.by_status.items() if status not in _ENDING for task in group.values()]
    known = {task.uid: rank for task in tasks if (rank := _own_rank(task))}
    used = set(known.values())
    free = (rank for rank in map(str, count()) if rank not in used)
    for task in _by_name(task for task in tasks if task.uid not in known):
        known[task.uid] = next(free)
    return known


def _own_rank(task: Task) -> str:
    """The rank that the Pod itself determines, or ""."""
    if task.rank:
        return task.rank
    labels = task.labels
    ordinal = labels[STATEFUL_SET_POD].rpartition("-")[2] if STATEFUL_SET_POD in labels else ""
    if _is_number(ordinal):
        return ordinal
    index = labels.get(TASK_INDEX, "")
    return index if _is_number(index) else ""


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 10 and (text[0] != "0" or text == "0")


def _by_name(tasks: Iterable[Task]) -> list[Task]:
    """Orders Pods by name, the numbers in the names by value."""

    def key(task: Task) -> list[tuple[int, str]]:
        # Numbers and other parts alternate, so parts at one place compare with parts of the same kind.
        return [(int(part[:18]), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(task.name)]

    return sorted(tasks, key=key)
