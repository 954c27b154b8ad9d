"""The rank of a Pod among masters and workers: all masters come first, in the order of their indexes."""

from scheduler.api import batch
from scheduler.controllers.job.plugins.hosts import find_task


def rank(job: batch.Job, master: str, worker: str, task: batch.TaskSpec, index: int) -> int | None:
    """The rank of Pod ``index`` of a task, from 0; None if the task is neither."""
    if task.name == master:
        return index
    if task.name == worker:
        return replicas(job, master) + index
    return None


def replicas(job: batch.Job, name: str) -> int:
    """How many Pods a task is to have; 0 where there is no such task."""
    task = find_task(job, name)
    return max(task.replicas, 0) if task is not None else 0
