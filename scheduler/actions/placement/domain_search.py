"""Finds HyperNodes for jobs with a network topology constraint and for jobs with several sub-groups.

Plugins return the HyperNodes that may hold a job in gradients, the lowest tier first (``Session.gradients``). The first
gradient in which the job can be placed decides: there the job gets the HyperNode in which its sub-jobs score best, and
each sub-job gets a HyperNode below that one in the same way (Volcano's allocateForJob and allocateForSubJob). An
attempt places tasks and discards the statement. The score of a HyperNode for a sub-job does not depend on the attempt,
so HyperNodes are tried in the order of their scores, equals by name, and the first that holds the sub-job is chosen.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.actions.order import SubJobOrder
from scheduler.actions.placement.attempts import HyperNodeAttempts
from scheduler.actions.placement.placer import PendingTasks, PlacementScope, Placer
from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.sub_job import SubJob
from scheduler.framework.session import Session
from scheduler.framework.statement import Statement

MAX_COMPARED = 8
"""The number of HyperNodes of one gradient that are tried for a job with sub-groups, to find the best."""
PendingBySubJob = dict[str, PendingTasks]
"""The tasks that remain to be placed, by the key of their sub-job."""


@dataclass(slots=True)
class DomainPlacement:
    """Tasks that are placed in a statement that is not committed yet."""

    statement: Statement
    score: float
    """The sum of the scores of the HyperNodes used."""
    remaining: PendingBySubJob
    """Tasks that may be placed later."""


class DomainSearch:
    """Places one job."""

    def __init__(self, session: Session, placer: Placer, queue: Queue, job: Job) -> None:
        self._session = session
        self._placer = placer
        self._queue = queue
        self._job = job

    def place(self, work: PendingBySubJob) -> DomainPlacement | None:
        """Places tasks of the job until it is ready, or is ready once terminating tasks end. Returns None if no allowed
        HyperNode can hold it."""
        session, job, top = self._session, self._job, self._session.hyper_nodes.top
        gradients = session.gradients(job, top)
        if job.has_sub_groups:
            return self._best(work, gradients)
        allowed = {hn.index for gradient in gradients for hn in gradient}
        ((key, pending),) = work.items()
        sub_job = job.sub_jobs[key]
        gradients = [
            [hn for hn in gradient if any(around.index in allowed for around in hn.path_to_root)]
            for gradient in session.gradients(sub_job, top)
        ]
        return self._place_sub_job(sub_job, pending, gradients)

    # --- jobs with sub-groups ---
    def _best(self, work: PendingBySubJob, gradients: Sequence[Sequence[HyperNode]]) -> DomainPlacement | None:
        """Returns the best placement of the first gradient that has one."""
        session, job = self._session, self._job
        tasks = [task for pending in work.values() for task in pending.remaining()]
        attempts = HyperNodeAttempts(session, job)
        need = max(session.job_missing(job) - job.waiting_count, 1)
        for gradient in gradients:
            candidates = attempts.with_room(gradient, tasks, need)
            if len(candidates) > MAX_COMPARED:
                candidates = self._by_score(work, candidates)
            scores: dict[HyperNode, float] = {}
            for hn in candidates:
                placement = self._place_within(work, hn, attempts)
                if placement is None:
                    continue
                if len(candidates) == 1:
                    return placement
                placement.statement.discard()
                scores[hn] = placement.score
                if len(scores) == MAX_COMPARED:
                    break
            if scores:
                best = min(scores, key=lambda hn: (-scores[hn], hn.index))
                return self._place_within(work, best, attempts)
        attempts.explain_failure(tasks, [hn for gradient in gradients for hn in gradient], job.tier_limit, need)
        return None

    def _by_score(self, work: PendingBySubJob, hyper_nodes: Sequence[HyperNode]) -> list[HyperNode]:
        """Returns the HyperNodes by the sum of their scores for each sub-job, the highest first."""
        scores = sum(self._session.hyper_node_scores(self._job.sub_jobs[key], hyper_nodes) for key in work)
        return [hyper_nodes[i] for i in np.argsort(-np.asarray(scores), kind="stable").tolist()]

    def _place_within(
        self, work: PendingBySubJob, hyper_node: HyperNode, attempts: HyperNodeAttempts
    ) -> DomainPlacement | None:
        """Places sub-jobs one by one, each in a HyperNode below the given one, until the job is ready."""
        session, job = self._session, self._job
        before = _placed(job)
        attempts.start()
        order = SubJobOrder(session, job)
        turns = [(order.key(job.sub_jobs[key]), key) for key in work]
        heapq.heapify(turns)
        remaining = {key: pending.copy() for key, pending in work.items()}
        result = DomainPlacement(session.statement(), 0.0, remaining)
        while turns:
            _, key = heapq.heappop(turns)
            sub_job = job.sub_jobs[key]
            gradients = session.gradients(sub_job, hyper_node)
            placement = self._place_sub_job(sub_job, remaining.pop(key), gradients)
            if placement is None:
                continue
            result.statement.merge(placement.statement)
            result.score += placement.score
            for again, pending in placement.remaining.items():
                remaining[again] = pending
                heapq.heappush(turns, (order.key(sub_job), again))
            if session.job_ready(job):
                break
        if result.statement and (session.job_ready(job) or session.job_pipelined(job)):
            return result
        placed = _placed(job) - before
        result.statement.discard()
        attempts.record_failure(hyper_node, placed)
        return None

    # --- one sub-job ---
    def _place_sub_job(
        self, sub_job: SubJob, pending: PendingTasks, gradients: Sequence[Sequence[HyperNode]]
    ) -> DomainPlacement | None:
        """Places tasks of a sub-job until it is ready, in the best HyperNode of the first gradient that can hold it."""
        session, job, tasks = self._session, self._job, pending.remaining()
        attempts = HyperNodeAttempts(session, job, sub_job)
        nominated = self._place_on_nominated(sub_job, pending.copy(), gradients)
        if nominated is not None:
            return nominated
        waiting = sub_job.waiting_count if job.has_sub_groups else job.waiting_count
        need = max(session.sub_job_missing(job, sub_job) - waiting, 1)
        for gradient in gradients:
            candidates = attempts.with_room(gradient, tasks, need)
            while candidates:
                scores = session.hyper_node_scores(sub_job, candidates)
                at = int(scores.argmax())
                hn = candidates.pop(at)
                attempts.start()
                placement = self._attempt(sub_job, pending.copy(), hn, attempts)
                if placement is not None:
                    placement.score = float(scores[at])
                    return placement
        limit = job.tier_limit if sub_job.tier_limit is None else sub_job.tier_limit
        attempts.explain_failure(tasks, [hn for gradient in gradients for hn in gradient], limit, need)
        return None

    def _attempt(
        self, sub_job: SubJob, pending: PendingTasks, hyper_node: HyperNode, attempts: HyperNodeAttempts
    ) -> DomainPlacement | None:
        """Places tasks of a sub-job on the nodes of one HyperNode."""
        session, job = self._session, self._job
        before = _placed(job)
        statement = session.statement()
        self._placer.place(PlacementScope(self._queue, job, sub_job, hyper_node), pending, statement)
        if statement and (session.sub_job_ready(job, sub_job) or session.sub_job_pipelined(job, sub_job)):
            return DomainPlacement(statement, 0.0, {sub_job.key: pending} if pending else {})
        placed = _placed(job) - before
        statement.discard()
        attempts.record_failure(hyper_node, placed)
        return None

    def _place_on_nominated(
        self, sub_job: SubJob, pending: PendingTasks, gradients: Sequence[Sequence[HyperNode]]
    ) -> DomainPlacement | None:
        """Places tasks on their nominated nodes, if all tasks have one and one allowed HyperNode holds these nodes."""
        index, tasks = self._session.nodes.index, pending.remaining()
        if not all(task.nominated in index for task in tasks):
            return None
        distinct = np.unique(np.array([index[task.nominated] for task in tasks], dtype=np.intp))
        hyper_node = next((hn for gradient in gradients for hn in gradient if hn.holds(distinct)), None)
        if hyper_node is None:
            return None
        statement, scope = self._session.statement(), PlacementScope(self._queue, self._job, sub_job, hyper_node)
        if self._placer.place_on_nominated(scope, pending, statement):
            if self._session.sub_job_pipelined(self._job, sub_job):
                return DomainPlacement(statement, 0.0, {})
            statement.discard()
        return None


def _placed(job: Job) -> int:
    return job.ready_count + job.waiting_count
