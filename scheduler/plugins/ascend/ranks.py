"""The ranks of the Pods of a job, which frameworks read from the annotation ``hccl/rankIndex``.

A Pod keeps the rank in its annotation. Another Pod has the rank that a Pod of its name had before the job restarted, or
the ordinal of its StatefulSet or vcjob task, unless another Pod with chips has this rank. Otherwise it has the lowest
rank that a Pod had before the restart and none has now, or the lowest rank that no Pod of the job has, in the order of
the names. Pods without chips have ranks too; rank tables leave them out, so they may share the ordinal of a Pod with
chips.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import HCCL_RANK_INDEX, TASK_INDEX
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass, TaskStatus

STATEFUL_SET_POD: Final = "statefulset.kubernetes.io/pod-name"
_ENDING: Final = frozenset({TaskStatus.FAILED, TaskStatus.RELEASING})
NO_RANKS: Final[Mapping[str, str]] = {}
_DIGITS: Final = re.compile(r"([0-9]+)")


def ranks_of(
    job: Job, has_chips: Callable[[TaskClass], bool], before: Mapping[str, str] = NO_RANKS
) -> Mapping[str, str]:
    """Returns uid -> rank of each Pod of the job. Failed and terminating Pods have none: their replacements do.
    ``has_chips``: whether Pods of a class request chips. ``before``: name -> rank of the Pods that a restart deleted.
    """
    tasks = [task for status, group in job.by_status.items() if status not in _ENDING for task in group.values()]
    known = {task.uid: task.rank for task in tasks if is_number(task.rank)}
    held = {known[task.uid] for task in tasks if task.uid in known and has_chips(task.cls)}
    ordinals = {task.uid: before.get(task.name) or _ordinal(task) for task in tasks if task.uid not in known}
    distinct = {*ordinals.values()}
    if "" not in distinct and len(distinct) == len(ordinals) and held.isdisjoint(distinct):
        return known | ordinals  # without a conflict, the order of the names does not matter
    others = _by_name(task for task in tasks if task.uid not in known)
    for task in others:
        ordinal, asks = ordinals[task.uid], has_chips(task.cls)
        if ordinal and not (asks and ordinal in held):
            known[task.uid] = ordinal
            if asks:
                held.add(ordinal)
    used = set(known.values())
    lost = sorted({*before.values()} - used, key=int) if before else []
    free = chain(lost, (rank for rank in map(str, count()) if rank not in used and rank not in lost))
    for task in others:
        if task.uid not in known:
            known[task.uid] = next(free)
    return known


def malformed_ranks(job: Job) -> Iterator[Malformed]:
    """Yields the annotations of Pods without a node that are no ranks. They are replaced with the binding."""
    for task in job.tasks():
        if task.rank and not task.node and not is_number(task.rank):
            field, problem = f"metadata.annotations[{HCCL_RANK_INDEX}]", f"{task.rank[:32]!r} is not a rank"
            yield Malformed("Pod", task.namespace, task.name, field, problem)


def _ordinal(task: Task) -> str:
    """Returns the ordinal of the Pod in its StatefulSet or vcjob task, or ""."""
    labels = task.labels
    ordinal = labels[STATEFUL_SET_POD].rpartition("-")[2] if STATEFUL_SET_POD in labels else ""
    if is_number(ordinal):
        return ordinal
    index = task.variable_index or labels.get(TASK_INDEX, "")
    return index if is_number(index) else ""


def is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) < 10 and (text[0] != "0" or text == "0")


def _by_name(tasks: Iterable[Task]) -> list[Task]:
    """Orders Pods by name, the numbers in the names by value."""

    def key(task: Task) -> list[tuple[int, str]]:
        # Numbers and other parts alternate, so parts at one place compare with parts of their kind.
        return [(int(part[:18]), "") if part.isdecimal() else (0, part) for part in _DIGITS.split(task.name)]

    return sorted(tasks, key=key)
