"""Reports cycles: metrics, a line in the log, and an Event for each field that a plugin ignored.

Measures also how long bound Pods take to run.
"""

import asyncio
import math
import time
from collections.abc import Collection, Container

import structlog

from scheduler.actions.eviction_actions import GangPreempt, Preempt
from scheduler.api.decisions import EventRecord, ObjectRef
from scheduler.api.kinds import POD, QUEUE, Kind
from scheduler.api.names import (
    EVENT_CARD_QUOTA_RESOLVED,
    EVENT_NORMAL,
    EVENT_PLUGIN_ERROR,
    EVENT_WARNING,
    REASON_NOT_ENOUGH_RESOURCES,
)
from scheduler.api.objects import KubeObject, Pod
from scheduler.api.reasons import Malformed, first_fields
from scheduler.api.task import TaskStatus
from scheduler.cache import ClusterCache
from scheduler.cluster.kube.scheduler.unserved_pods import UnservedPods
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.framework.charged_namespaces import amounts_without_queue, cards_without_queue, charged_pods
from scheduler.framework.cycle import Outcome, SessionObserver
from scheduler.framework.failures import PluginError
from scheduler.observability.metrics import Metrics
from scheduler.plugins.deviceshare.ledger import DEVICE_USAGE

_PREEMPTIONS = frozenset({Preempt.name, GangPreempt.name})
log = structlog.get_logger(__name__)


class CycleReport(SessionObserver):
    """The reports of one scheduler."""

    def __init__(self, metrics: Metrics, recorder: EventRecorder, period: float = 0.0) -> None:
        """``period``: least number of seconds between two sessions whose figures are computed."""
        self._metrics = metrics
        self._recorder = recorder
        self._period = period
        self._figures_at = -math.inf
        """Time of the last session whose figures were computed."""
        self._figures_wait = False
        self._bound: dict[str, float] = {}
        """Key of a job -> when a session bound Pods of it, since then."""
        self._reported: frozenset[Malformed] = frozenset()
        self._problems: tuple[str, ...] = ()

    @property
    def figures_wait(self) -> bool:
        """Whether the figures of the last session were left to a later one."""
        return self._figures_wait

    async def ended(self, outcome: Outcome) -> None:
        """Reports the cycle, and updates its figures on another thread: no decision waits for them. An error of the
        figures is reported, and has no other effect."""
        self.report(outcome)
        try:
            await asyncio.to_thread(self.update_figures, outcome, outcome.session.snapshot.now)
        except PluginError as error:
            self._metrics.cycle_errors.inc()
            self._plugin_failed(error, "figures of the cycle failed", "metrics of queues and jobs are not up to date")
        except Exception:
            self._metrics.cycle_errors.inc()
            log.exception("figures of the cycle failed")

    def update_figures(self, outcome: Outcome, now: float) -> None:
        """Updates the figures of a session before the next one changes its jobs; on any thread. ``now``: its time.

        They sum over all jobs, so early sessions leave them to the session at the end of the period."""
        self._bound.update((bind.task.job, now) for bind in outcome.decisions.binds)
        self._figures_wait = self._figures_at <= now < self._figures_at + self._period
        if self._figures_wait:
            return
        self._figures_at = now
        session, figures, metrics = outcome.session, outcome.session.figures(), self._metrics
        usage, used = session.usage_by_queue(), session.cards_in_use()
        held = metrics.session.update(
            session.jobs,
            session.queues,
            session.dimensions,
            self._bound,
            figures,
            usage,
            active=session.active_jobs,
            settled=session.settled_jobs,
            touched=session.touched,
            charged=session.once(charged_pods),
            without_queue=(amounts_without_queue(session), cards_without_queue(used)),
        )
        self._bound = {}
        metrics.cluster.update(*held, session.nodes, session.dimensions)
        metrics.waiting.update(session.active_jobs)
        metrics.chips.update(figures)
        metrics.shares.update(session, figures, usage)
        metrics.card_totals.update(figures, usage)
        metrics.card_users.update(used, figures)
        metrics.devices.update(session.shared.get(DEVICE_USAGE, ()))

    def report(self, outcome: Outcome) -> None:
        """Reports a cycle whose decisions are being carried out."""
        self._report_problems(outcome)
        self._update_metrics(outcome)
        decisions = outcome.decisions
        if decisions:
            pods = sum(len(update.tasks) for update in decisions.pods)
            log.info(
                "cycle",
                binds=len(decisions.binds),
                evictions=len(decisions.evictions),
                statuses=len(decisions.pod_groups) + pods + len(decisions.queues),
                events=len(decisions.events),
                milliseconds=round(outcome.seconds * 1000, 1),
            )

    def plugin_failed(self, error: PluginError) -> None:
        """Reports that code of a plugin or action raised an exception, so that the cycle decided nothing: in the log,
        and in a Warning Event on the object in question, if there is one."""
        self._plugin_failed(error, "cycle failed; nothing was decided", "nothing is scheduled while this lasts")

    def _plugin_failed(self, error: PluginError, failed: str, consequence: str) -> None:
        named = {"owner": error.owner, "point": error.point, "about": error.subject}
        log.error(failed, **named, problem=error.problem, exc_info=error)
        if error.about is not None:
            message = f"{error}; {consequence}"
            self._recorder.record(EventRecord(error.about, EVENT_WARNING, EVENT_PLUGIN_ERROR, message))

    def _report_problems(self, outcome: Outcome) -> None:
        """Reports malformed fields and wrong arguments once, not in every cycle."""
        malformed = frozenset(outcome.malformed)
        new = sorted(malformed - self._reported, key=lambda p: (p.kind, p.namespace, p.name, p.field))
        for problem in first_fields(new) if new else ():
            self._recorder.malformed(problem)
        self._report_resolved(malformed, outcome.session.queues)
        self._reported = malformed
        problems = tuple(outcome.session.problems)
        if problems != self._problems:
            for text in problems:
                log.warning("a plugin or action has a problem", problem=text)
        self._problems = problems

    def _report_resolved(self, malformed: Collection[Malformed], queues: Container[str]) -> None:
        """Records a Normal Event for each problem of a queue that says so when it ends, unless another problem of the
        field has begun."""
        ended = [problem for problem in self._reported if problem.resolved and problem not in malformed]
        present = {(problem.kind, problem.name, problem.field) for problem in malformed} if ended else ()
        for problem in sorted(ended, key=lambda it: (it.name, it.field)):
            if problem.name in queues and (problem.kind, problem.name, problem.field) not in present:
                ref = ObjectRef(QUEUE.api_version, QUEUE.name, "", problem.name)
                self._recorder.record(EventRecord(ref, EVENT_NORMAL, EVENT_CARD_QUOTA_RESOLVED, problem.resolved))

    def _update_metrics(self, outcome: Outcome) -> None:
        decisions, metrics, jobs = outcome.decisions, self._metrics, outcome.session.jobs
        active = outcome.session.active_jobs.values()
        metrics.cycle(
            seconds=outcome.seconds,
            opening=outcome.open_seconds,
            actions=outcome.action_seconds,
            plugins=outcome.session.open_seconds,
        )
        durations = outcome.session.search_durations
        metrics.stages.observe_all("Predicate", durations.filters)
        metrics.stages.observe_all("Scoring", durations.scores)
        metrics.schedule_attempts.labels("scheduled").inc(len(decisions.binds))
        metrics.schedule_attempts.labels("unschedulable").inc(sum(len(update.tasks) for update in decisions.pods))
        metrics.unscheduled_jobs.set(sum(1 for job in active if job.fit_errors or job.refusals))
        unready = (job.key for job in active for c in job.new_conditions if c.reason == REASON_NOT_ENOUGH_RESOURCES)
        metrics.attempts.count(decisions.preemption_attempts, unready, jobs)
        preempted = sum(eviction.reason in _PREEMPTIONS for eviction in decisions.evictions)
        if preempted:
            metrics.victims.set(preempted)
        for action, number in decisions.eviction_transactions.items():
            metrics.eviction_transactions.labels(action).inc(number)
        now = time.time()
        metrics.waits.decided(decisions, jobs, now)
        for bind in decisions.binds:
            metrics.assumed(now - bind.task.creation)
        for key in {bind.task.job for bind in decisions.binds}:
            if (job := jobs.get(key)) is not None:
                metrics.job_bound(now - job.creation)


class WatchedPods:
    """Passes watched Pods on to the cache, and Pods of other schedulers to ``UnservedPods``. Measures how long Pods
    take to arrive, and to run after they are bound."""

    def __init__(self, cache: ClusterCache, metrics: Metrics, unserved: UnservedPods) -> None:
        self._cache = cache
        self._metrics = metrics
        self._unserved = unserved

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        if not isinstance(obj, Pod):
            self._cache.upsert(kind, obj)
            return
        namespace, name = obj.metadata.namespace, obj.metadata.name
        before = self._cache.find_task(namespace, name)
        self._cache.upsert(kind, obj)
        if before is None:
            task = self._cache.find_task(namespace, name)
            if task is None or not task.ours:
                self._unserved.observe(obj)
            elif not obj.spec.node_name:
                self._metrics.watched(time.time() - task.creation)
        elif obj.status.phase == TaskStatus.RUNNING.value and before.ours and before.status is TaskStatus.BOUND:
            self._metrics.waits.runs(before, time.time())

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self._cache.delete(kind, namespace, name)
        if kind is POD:
            self._unserved.delete(namespace, name)
