"""Places a gang in other task orders if its own order fails.

Tasks are placed one by one, each on the node with the highest score. So whether tasks of different sizes fit together
depends on their order: 3, 3, 5 and 5 cores fill two nodes of eight cores, but not if both tasks of three are placed on
the first node. Before a gang is refused, its tasks are placed in a few other orders: the largest first, then repeatedly
the tasks that found no node first (squeaky wheel optimization).
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler.actions.placement.placer import PendingTasks, PlacementScope, Placer
from scheduler.api.job import Job
from scheduler.api.resource import PODS_INDEX
from scheduler.api.task import READY_STATUSES, Task, TaskClass
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

ORDERS: Final = 4
"""The number of orders that are tried in addition to task order."""


def place_in_other_orders(
    session: Session, placer: Placer, scope: PlacementScope, pending: PendingTasks, statement: Statement
) -> tuple[Statement, PendingTasks] | None:
    """Discards a statement in which the gang is not ready, and places its tasks in other orders.

    ``pending``: the tasks as they were before the first attempt. Returns the new statement and the remaining tasks,
    or None if the gang is ready in no order; the job's fit errors are then those of task order.
    """
    job = scope.job
    statement.discard()
    tasks = pending.remaining()
    gang = _gang(job, tasks, session.job_missing(job))
    if not _may_fit(session, gang):
        return None
    members = {task.uid for task in gang}
    rest = [task for task in tasks if task.uid not in members]
    errors, transaction = dict(job.fit_errors), dict(job.transaction)
    tried = {_shape(gang)}
    order = _largest_first(session, gang)
    for _ in range(ORDERS):
        if _shape(order) in tried:
            break
        tried.add(_shape(order))
        job.fit_errors = {}
        left = PendingTasks([*order, *rest])
        attempt = session.statement()
        misfit = placer.place(scope, left, attempt)
        if session.job_ready(job) or session.job_pipelined(job):
            return attempt, left
        attempt.discard()
        if misfit is None:
            break
        order.sort(key=lambda task: task.cls is not misfit.cls)
    job.fit_errors, job.transaction = errors, transaction
    return None


def _may_fit(session: Session, gang: Sequence[Task]) -> bool:
    """Returns whether the tasks differ, and the sum of all nodes' idle amounts is sufficient for them."""
    if len({task.cls.id for task in gang}) < 2:
        return False
    wanted = np.sum([task.cls.request for task in gang], axis=0)
    idle = np.maximum(session.nodes.idle, 0).sum(axis=1)
    short = wanted > idle
    short[PODS_INDEX] = False
    return not short.any()


def _largest_first(session: Session, gang: Sequence[Task]) -> list[Task]:
    """Returns the tasks by dominant share of the cluster, the largest first; equals in task order."""
    total = session.total

    def size(cls: TaskClass) -> float:
        return float(np.divide(cls.request, total, out=np.zeros_like(total), where=total > 0).max())

    sizes = {task.cls.id: size(task.cls) for task in gang}
    return sorted(gang, key=lambda task: -sizes[task.cls.id])


def _gang(job: Job, tasks: Sequence[Task], missing: int) -> list[Task]:
    """Returns the first tasks that make the job ready: for each role as many as its minimum lacks, then any."""
    shortfall: dict[str, int] = {}
    if job.enforces_role_minimum:
        ready = job.role_counts(*READY_STATUSES)
        shortfall = {role: minimum - ready.get(role, 0) for role, minimum in job.role_minimum.items()}
    room = max(missing, sum(number for number in shortfall.values() if number > 0))
    free = room - sum(number for number in shortfall.values() if number > 0)
    chosen = []
    for task in tasks:
        if task.gated:
            continue
        if shortfall.get(task.role, 0) > 0:
            shortfall[task.role] -= 1
        elif free > 0:
            free -= 1
        else:
            continue
        chosen.append(task)
    return chosen


def _shape(order: Sequence[Task]) -> tuple[int, ...]:
    """Returns the sequence of task classes; orders with equal shapes have equal results."""
    return tuple(task.cls.id for task in order)
