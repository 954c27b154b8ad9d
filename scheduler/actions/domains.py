"""Finding the HyperNodes for jobs that must not spread over all tiers, and for jobs of several sub-groups.

Plugins name the HyperNodes that may take a job, in gradients: those of the lowest tier first (``Session.gradients``).
In the first gradient in which the job can be placed at all, it goes where its sub-jobs fit best; each sub-job looks for
its own HyperNode below that one in the same way (Volcano's allocateForJob and allocateForSubJob). To try is to place
and to take back. How good a HyperNode is for a sub-job does not depend on what comes of the try: the best are tried
first, equals by name, and the first that will do is taken.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.actions.placing import Ground, PendingTasks, Placer
from scheduler.actions.subjobs import SubJobOrder
from scheduler.actions.tries import Tries
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.subjob import SubJob
from scheduler.api.task import Task
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

COMPARED = 8
"""In how many HyperNodes of one gradient a job of sub-groups is placed to find the best, if there are more."""
Work = dict[str, PendingTasks]
"""Key of a sub-job -> its tasks still to be placed."""


@dataclass(slots=True)
class Solution:
    """What was placed, and is not committed yet."""

    statement: Statement
    score: float
    """How good the HyperNodes are that took it."""
    left: Work
    """What may still be placed later."""


class DomainSearch:
    """Places jobs in one session."""

    def __init__(self, session: Session, placer: Placer) -> None:
        self._session = session
        self._placer = placer

    def place(self, queue: Queue, job: Job, work: Work) -> Solution | None:
        """Place tasks of a job until it is ready, or would be once terminating tasks are gone; None: no HyperNode that
        is allowed can hold it."""
        session, top = self._session, self._session.hyper_nodes.top
        gradients = session.gradients(job, top)
        if job.grouped:
            return self._best(queue, job, work, gradients)
        allowed = {hn.index for gradient in gradients for hn in gradient}
        ((key, pending),) = work.items()
        sub_job = job.sub_jobs[key]
        gradients = [
            [hn for hn in gradient if any(around.index in allowed for around in hn.lineage)]
            for gradient in session.gradients(sub_job, top)
        ]
        return self._sub_job(queue, job, sub_job, pending, gradients)

    # --- jobs of sub-groups ---
    def _best(self, queue: Queue, job: Job, work: Work, gradients: Sequence[Sequence[HyperNode]]) -> Solution | None:
        """The best solution of the first gradient that has any."""
        session, tasks = self._session, _tasks(work.values())
        tries = Tries(session, job)
        need = max(session.job_missing(job) - job.waiting_count, 1)
        for gradient in gradients:
            candidates = tries.hopeful(gradient, tasks, need)
            if len(candidates) > COMPARED:
                candidates = self._promising(job, work, candidates)
            scores: dict[HyperNode, float] = {}
            for hn in candidates:
                solution = self._within(queue, job, work, hn, tries)
                if solution is None:
                    continue
                if len(candidates) == 1:
                    return solution
                solution.statement.discard()
                scores[hn] = solution.score
                if len(scores) == COMPARED:
                    break
            if scores:
                best = min(scores, key=lambda hn: (-scores[hn], hn.index))
                return self._within(queue, job, work, best, tries)
        tries.give_up(tasks, [hn for gradient in gradients for hn in gradient], job.tier_limit, need)
        return None

    def _promising(self, job: Job, work: Work, hyper_nodes: Sequence[HyperNode]) -> list[HyperNode]:
        """The HyperNodes in the order of how good they are for the sub-jobs, each taken alone."""
        scores = sum(self._session.hyper_node_scores(job.sub_jobs[key], hyper_nodes) for key in work)
        return [hyper_nodes[i] for i in np.argsort(-np.asarray(scores), kind="stable").tolist()]

    def _within(self, queue: Queue, job: Job, work: Work, hyper_node: HyperNode, tries: Tries) -> Solution | None:
        """Place sub-jobs one after the other, each in a HyperNode below the one given, until the job is ready."""
        session = self._session
        before = _placed(job)
        tries.begin()
        order = SubJobOrder(session, job)
        turns = [(order.key(job.sub_jobs[key]), key) for key in work]
        heapq.heapify(turns)
        left = {key: pending.copy() for key, pending in work.items()}
        result = Solution(session.statement(), 0.0, left)
        while turns:
            _, key = heapq.heappop(turns)
            sub_job = job.sub_jobs[key]
            gradients = session.gradients(sub_job, hyper_node)
            solution = self._sub_job(queue, job, sub_job, left.pop(key), gradients)
            if solution is None:
                continue
            result.statement.merge(solution.statement)
            result.score += solution.score
            for again, pending in solution.left.items():
                left[again] = pending
                heapq.heappush(turns, (order.key(sub_job), again))
            if session.job_ready(job):
                break
        if result.statement and (session.job_ready(job) or session.job_pipelined(job)):
            return result
        placed = _placed(job) - before
        result.statement.discard()
        tries.failed(hyper_node, placed)
        return None

    # --- one sub-job ---
    def _sub_job(
        self, queue: Queue, job: Job, sub_job: SubJob, pending: PendingTasks, gradients: Sequence[Sequence[HyperNode]]
    ) -> Solution | None:
        """Place tasks of a sub-job until it is ready, in the best HyperNode of the first gradient that has any."""
        session, tasks = self._session, pending.rest()
        tries = Tries(session, job, sub_job)
        redeemed = self._redeem(queue, job, sub_job, pending.copy(), gradients)
        if redeemed is not None:
            return redeemed
        waiting = sub_job.waiting_count if job.grouped else job.waiting_count
        need = max(session.sub_job_missing(job, sub_job) - waiting, 1)
        for gradient in gradients:
            candidates = tries.hopeful(gradient, tasks, need)
            while candidates:
                scores = session.hyper_node_scores(sub_job, candidates)
                at = int(scores.argmax())
                hn = candidates.pop(at)
                tries.begin()
                solution = self._attempt(queue, job, sub_job, pending.copy(), hn, tries)
                if solution is not None:
                    solution.score = float(scores[at])
                    return solution
        limit = job.tier_limit if sub_job.tier_limit is None else sub_job.tier_limit
        tries.give_up(tasks, [hn for gradient in gradients for hn in gradient], limit, need)
        return None

    def _attempt(
        self, queue: Queue, job: Job, sub_job: SubJob, pending: PendingTasks, hyper_node: HyperNode, tries: Tries
    ) -> Solution | None:
        """Place tasks of a sub-job on the nodes of one HyperNode."""
        session = self._session
        before = _placed(job)
        statement = session.statement()
        self._placer.place(Ground(queue, job, sub_job, hyper_node), pending, statement)
        if statement and (session.sub_job_ready(job, sub_job) or session.sub_job_pipelined(job, sub_job)):
            return Solution(statement, 0.0, {sub_job.key: pending} if pending else {})
        placed = _placed(job) - before
        statement.discard()
        tries.failed(hyper_node, placed)
        return None

    def _redeem(
        self, queue: Queue, job: Job, sub_job: SubJob, pending: PendingTasks, gradients: Sequence[Sequence[HyperNode]]
    ) -> Solution | None:
        """Place tasks for which nodes were nominated there, if all have one, and one HyperNode that is allowed holds
        them."""
        index = self._session.nodes.index
        rows = [index[task.nominated] for task in pending.rest() if task.nominated in index]
        if len(rows) < len(pending.rest()):
            return None
        distinct = np.unique(np.array(rows, dtype=np.intp))
        hyper_node = next((hn for gradient in gradients for hn in gradient if hn.holds(distinct)), None)
        if hyper_node is None:
            return None
        statement = self._session.statement()
        if self._placer.redeem(Ground(queue, job, sub_job, hyper_node), pending, statement):
            if self._session.sub_job_pipelined(job, sub_job):
                return Solution(statement, 0.0, {})
            statement.discard()
        return None


def _tasks(work: Iterable[PendingTasks]) -> list[Task]:
    return [task for pending in work for task in pending.rest()]


def _placed(job: Job) -> int:
    return job.ready_count + job.waiting_count
