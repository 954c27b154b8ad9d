"""Why gangpreempt and gangreclaim evict no Pod for a gang: which candidates there are, what protects them, and how many
Pods of the gang would fit without them."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.actions.eviction.bundles import BundlesByJob
from scheduler.actions.eviction.gang_room import Demand, parts_to_place
from scheduler.actions.eviction_actions import PREEMPT, RECLAIM, less_important_jobs, permissive_jobs
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.task import Task
from scheduler.explain.evictions import count_text, least_protected, why_no_eviction, why_no_reclaim
from scheduler.explain.traced_session import TracedSession
from scheduler.framework.arguments import Arguments
from scheduler.framework.combining import Function
from scheduler.framework.extension import KEEPS_DESERVED, UNIFIED_EVICTABLE, EvictionContext, ReclaimContext
from scheduler.framework.remedies.gates import Gate, GateKind

_ACTIONS = ((GateKind.GANG_PREEMPT, "gangpreempt", False), (GateKind.GANG_RECLAIM, "gangreclaim", True))


def gang_evictions(session: TracedSession, job: Job) -> Iterator[Gate]:
    """One gate for each of gangpreempt and gangreclaim that is configured. The job must wait for nodes."""
    tasks = [task for _, part in parts_to_place(session, job) for task in part]
    for kind, action, across in _ACTIONS:
        if session.configuration.has_action(action) and tasks:
            why = why_no_eviction(session, job, tasks) or (why_no_reclaim(session, job, tasks) if across else "")
            yield Gate(kind, why or _victims(session, job, tasks, action, across_queues=across))


def _victims(session: TracedSession, job: Job, tasks: Sequence[Task], action: str, *, across_queues: bool) -> str:
    if across_queues:
        scope, which = RECLAIM.may_give(session, job), "of other queues that can be reclaimed from"
    else:
        scope, which = PREEMPT.may_give(session, job), f"of other jobs in queue {job.queue}"
    scope = scope & session.eviction_candidates.present
    number = int(scope.sum())
    if not number:
        return f"there is no Pod {which} that may be evicted"
    protected: Counter[str] = Counter()
    evictable = scope
    if not across_queues:
        evictable = _restrict(evictable, less_important_jobs(session, job), protected, "their priority")
    evictable = _restrict(evictable, permissive_jobs(session, job), protected, "their PodGroup")
    evictable = _approved_by_plugins(session, job, tasks, evictable, protected, across_queues=across_queues)
    arguments = Arguments(session.configuration.action_arguments.get(action))
    if not arguments.boolean("allowWholeBundle", True):
        evictable = _restrict(evictable, _spare_tasks(session, evictable), protected, "allowWholeBundle: false")
    text = count_text(number, which, int(evictable.sum()), protected)
    if not evictable.any():
        return text
    room = Demand(session, job, tasks).slots_without(evictable).number
    if room < len(tasks):
        return f"{text}; without them there would be room for {room} of {len(tasks)} Pods"
    return f"{text}; what they hold would do, but other conditions are in the way"


def _restrict(evictable: Mask, allowed: Mask, protected: Counter[str], protector: str) -> Mask:
    """The candidates that meet one more condition. Counts the others in ``protected`` under ``protector``."""
    left: Mask = evictable & allowed
    protected[protector] += int(evictable.sum() - left.sum())
    return left


def _approved_by_plugins(
    session: TracedSession,
    job: Job,
    tasks: Sequence[Task],
    evictable: Mask,
    protected: Counter[str],
    *,
    across_queues: bool,
) -> Mask:
    """The candidates that every plugin allows to evict."""
    context = EvictionContext(job, np.sum([task.cls.request for task in tasks], axis=0), across_queues)
    all_candidates = session.eviction_candidates
    answers: list[tuple[Function, EvictionContext | ReclaimContext]]
    answers = [(function, context) for function in session.all_functions(UNIFIED_EVICTABLE)]
    if across_queues:
        losing = least_protected(session, job, tasks, gang=True)
        answers += [(function, losing) for function in session.all_functions(KEEPS_DESERVED)]
    for function, asked in answers:
        candidates = [all_candidates.tasks[i] for i in np.flatnonzero(evictable).tolist()]
        left = {task.uid for task in function(asked, candidates)}
        allowed = np.fromiter(
            (task.uid in left for task in all_candidates.tasks), dtype=bool, count=len(all_candidates.tasks)
        )
        evictable = _restrict(evictable, allowed, protected, session.plugin_of(function))
    return evictable


def _spare_tasks(session: TracedSession, evictable: Mask) -> Mask:
    """The candidates that their gangs can run without."""
    bundles = BundlesByJob(session, evictable)
    spare = {task.uid for job in bundles.jobs for bundle in bundles.of(job).spare for task in bundle.tasks}
    tasks = session.eviction_candidates.tasks
    return np.fromiter((task.uid in spare for task in tasks), dtype=bool, count=len(tasks))
