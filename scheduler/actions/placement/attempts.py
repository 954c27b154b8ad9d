"""Attempts to place a job in HyperNodes: which HyperNodes are worth an attempt, and why all attempts failed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduler.api.hypernode import HyperNode, sums
from scheduler.api.job import Job
from scheduler.api.node import Column, Rows
from scheduler.api.reasons import FitErrors, Shortage
from scheduler.api.resource import Vector, format_amount
from scheduler.api.sub_job import SubJob
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.framework.columns import UNBOUNDED, Counts
from scheduler.framework.session import Session

_FREE = "free amounts of HyperNodes, for explanations"


@dataclass(slots=True)
class _FailedAttempt:
    """One failed attempt."""

    hyper_node: HyperNode
    placed: int
    """An upper bound of the tasks that found a node there."""
    fit_errors: dict[int, FitErrors]
    transaction: dict[str, tuple[TaskStatus, str]]


class HyperNodeAttempts:
    """The attempts of one search. The job keeps the fit errors of the attempt that placed the most tasks."""

    def __init__(self, session: Session, job: Job, sub_job: SubJob | None = None) -> None:
        """``sub_job``: the sub-job whose tasks are placed; None: all tasks of the job."""
        self._session = session
        self._job = job
        self._sub_job = sub_job
        self._errors, self._given = job.fit_errors, job.transaction
        self._closest: _FailedAttempt | None = None

    def with_room(self, hyper_nodes: Sequence[HyperNode], tasks: Sequence[Task], need: int) -> list[HyperNode]:
        """Returns the HyperNodes that have amounts for ``need`` of the tasks, now or once terminating tasks end."""
        filled = [hn for hn in hyper_nodes if len(hn.rows)]
        if len(filled) < 2:
            return filled
        room = np.zeros(len(filled))
        for cls, number in Counter(task.cls for task in tasks).items():
            at_nodes = np.minimum(_room(self._session, cls), number)
            room += np.minimum(sums(at_nodes[np.newaxis], filled)[0], number)
        best = int(room.argmax())
        if room[best] < need:
            self.start()
            self.record_failure(filled[best], int(room[best]))
        return [hn for hn, enough in zip(filled, (room >= need).tolist(), strict=True) if enough]

    def start(self) -> None:
        """Starts an attempt: discards what earlier attempts recorded on the job."""
        self._job.fit_errors, self._job.transaction = dict(self._errors), dict(self._given)

    def record_failure(self, hyper_node: HyperNode, placed: int) -> None:
        """Records that the attempt failed and was discarded."""
        if self._closest is None or placed > self._closest.placed:
            self._closest = _FailedAttempt(hyper_node, placed, self._job.fit_errors, self._job.transaction)

    def explain_failure(
        self, tasks: Sequence[Task], hyper_nodes: Sequence[HyperNode], limit: int | None, need: int
    ) -> None:
        """Records on the job why no HyperNode holds its tasks.

        ``need``: how many of the tasks have to be placed together. ``limit``: the highest allowed tier; None: the
        search was not limited, and the fit errors say enough. ``hyper_nodes``: empty if plugins excluded all.
        """
        job, closest = self._job, self._closest
        if closest is not None:
            job.fit_errors, job.transaction = closest.fit_errors, closest.transaction
        if limit is None:
            return
        short = _shortages(self._session, self._requested(tasks), hyper_nodes, limit)
        if job.refusals and not short:
            return  # a plugin refused the job, and there is room
        if len(tasks) == 1:
            text = f"no HyperNode up to tier {limit} has room for the Pod that waits"
        else:
            text = f"no HyperNode up to tier {limit} has room for the {len(tasks)} Pods that wait"
        around = self._covering_hyper_node()
        if around is not None and around.tier > limit:
            text += f": the others are in HyperNode {around.name} of tier {around.tier} already"
        elif short:
            text += f" ({'; '.join(map(_most_free, short))})"
        elif closest is not None:
            hn = closest.hyper_node
            text += f": {need} have to find a node together, {closest.placed} would in HyperNode {hn.name}"
        for cls in dict.fromkeys(task.cls for task in tasks):
            known = job.fit_errors.get(cls.id) or FitErrors(len(self._session.nodes))
            if not known.note:
                job.fit_errors[cls.id] = replace(known, note=text, note_shortages=tuple(short))

    def _requested(self, tasks: Sequence[Task]) -> Vector:
        """Returns the sum of the tasks' requests, or the job's minResources where these are more and the whole job is
        placed."""
        asked: Vector = self._session.dimensions.zeros()
        for cls, number in Counter(task.cls for task in tasks).items():
            asked += cls.request * number
        announced = self._job.min_resources
        return asked if announced is None or self._job.has_sub_groups else np.maximum(asked, announced)

    def _covering_hyper_node(self) -> HyperNode | None:
        """Returns the smallest HyperNode that holds all tasks that have a node."""
        index = self._session.nodes.index
        placed = (task for status in ALLOCATED_STATUSES for task in self._job.of(status).values())
        mates = self._sub_job.tasks if self._sub_job is not None else None
        rows = [index[task.node] for task in placed if task.node in index and (mates is None or task.uid in mates)]
        return self._session.hyper_nodes.covering(np.array(rows)) if rows else None


def _room(session: Session, cls: TaskClass) -> Counts:
    """Returns how many tasks of a class each node has room for; shape (nodes,)."""
    nodes = session.nodes
    room: Counts = np.full(len(nodes), UNBOUNDED, dtype=np.int64)
    for d in np.flatnonzero(cls.request > 0).tolist():
        free = nodes.idle[d] + np.maximum(nodes.releasing[d] - nodes.pipelined[d], 0.0)
        np.minimum(room, (free // cls.request[d]).astype(np.int64), out=room)
    return np.maximum(room, 0, out=room)


# --- numbers in messages ---
def _shortages(session: Session, asked: Vector, hyper_nodes: Sequence[HyperNode], limit: int) -> list[Shortage]:
    """Returns a shortage for each resource that every HyperNode has too little of, with the amount of the HyperNode
    that has the most."""
    dims = np.flatnonzero(asked)
    if hyper_nodes:
        candidates, free = list(hyper_nodes), _free(session, dims, hyper_nodes)
    else:
        candidates, free = _free_up_to(session, dims, limit)
    if not candidates:
        return []
    most = free.argmax(axis=1)
    result = []
    for d, at, available in zip(dims.tolist(), most.tolist(), free.max(axis=1).tolist(), strict=True):
        if asked[d] > available:
            name, hn = session.dimensions.names[d], candidates[at]
            total = float(session.nodes.allocatable[d, hn.rows].sum())
            result.append(Shortage(name, float(asked[d]), total - available, total, "HyperNode", hn.name))
    return result


def _free(session: Session, dims: Rows, hyper_nodes: Sequence[HyperNode]) -> Column:
    """Returns the amounts that are free in each HyperNode once terminating tasks end; shape (dims, HyperNodes)."""
    nodes = session.nodes
    return sums(nodes.idle[dims] + nodes.releasing[dims] - nodes.pipelined[dims], hyper_nodes)


def _free_up_to(session: Session, dims: Rows, limit: int) -> tuple[list[HyperNode], Column]:
    """Returns all HyperNodes up to a tier and their free amounts; cached until the session places a task."""
    seen, kept = session.shared.get(_FREE, (-1, {}))
    if seen != len(session.nodes.log):
        kept = {}
        session.shared[_FREE] = (len(session.nodes.log), kept)
    key = (limit, dims.tobytes())
    if key not in kept:
        found = [hn for hn in session.hyper_nodes.ordered if hn.tier <= limit]
        kept[key] = (found, _free(session, dims, found))
    result: tuple[list[HyperNode], Column] = kept[key]
    return result


def _most_free(shortage: Shortage) -> str:
    asked, free = (format_amount(shortage.resource, amount) for amount in (shortage.asked, shortage.free))
    return f"{shortage.resource}: asked {asked}, most free {free}, in HyperNode {shortage.name}"
