"""Why no gang gives way to a gang where the configuration has gangpreempt or gangreclaim: who could go, who spares
whom, and for how many Pods there would be room then."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.actions.eviction.bundles import BundlesByJob
from scheduler.actions.eviction.eligibility import allows_gang_eviction, reclaimable_candidates
from scheduler.actions.eviction.nomination import parts_to_place
from scheduler.actions.eviction.slots import Demand
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.task import Task
from scheduler.explain.evictions import counted, not_at_all, not_from_others
from scheduler.explain.witness import Witness
from scheduler.framework.arguments import Arguments
from scheduler.framework.extension import UNIFIED_EVICTABLE, EvictionContext
from scheduler.framework.remedies.gates import Gate, Held

_ACTIONS = ((Held.GANG_PREEMPT, "gangpreempt", False), (Held.GANG_RECLAIM, "gangreclaim", True))


def gang_evictions(session: Witness, job: Job) -> Iterator[Gate]:
    """To be asked where its Pods wait for nodes."""
    tasks = [task for _, part in parts_to_place(session, job) for task in part]
    for held, action, across in _ACTIONS:
        if session.configuration.has_action(action) and tasks:
            why = not_at_all(session, job, tasks) or (not_from_others(session, job, tasks) if across else "")
            yield Gate(held, why or _victims(session, job, tasks, action, across_queues=across))


def _victims(session: Witness, job: Job, tasks: Sequence[Task], action: str, *, across_queues: bool) -> str:
    all_candidates = session.eviction_candidates
    if across_queues:
        scope, whose = (
            reclaimable_candidates(session, session.queues[job.queue]),
            "of other queues that can be reclaimed from",
        )
    else:
        scope = all_candidates.preemptable & all_candidates.of_queues(job.queue.__eq__) & ~all_candidates.own(job.key)
        whose = f"of other jobs in queue {job.queue}"
    scope = scope & all_candidates.present
    number = int(scope.sum())
    if not number:
        return f"there is no Pod {whose} that may be evicted"
    spared: Counter[str] = Counter()
    going = scope
    if not across_queues:
        going = _less(going, all_candidates.per_job(_priority) < job.priority, spared, "their priority")
    going = _less(going, all_candidates.per_job(allows_gang_eviction).astype(bool), spared, "their PodGroup")
    going = _approved(session, job, tasks, going, spared, across_queues=across_queues)
    arguments = Arguments(session.configuration.action_arguments.get(action))
    if not arguments.boolean("allowWholeBundle", True):
        going = _less(going, _spare(session, going), spared, "allowWholeBundle: false")
    text = counted(number, whose, int(going.sum()), spared)
    if not going.any():
        return text
    room = Demand(session, job, tasks).slots_without(going).number
    if room < len(tasks):
        return f"{text}; without them there would be room for {room} of {len(tasks)} Pods"
    return f"{text}; what they hold would do, but other conditions are in the way"


def _less(going: Mask, may: Mask, spared: Counter[str], who: str) -> Mask:
    """Those who may go as well by one more condition; ``spared`` is told of the others."""
    left: Mask = going & may
    spared[who] += int(going.sum() - left.sum())
    return left


def _approved(
    session: Witness, job: Job, tasks: Sequence[Task], going: Mask, spared: Counter[str], *, across_queues: bool
) -> Mask:
    """What the plugins leave of the candidates, one after the other."""
    context = EvictionContext(job, np.sum([task.cls.request for task in tasks], axis=0), across_queues)
    all_candidates = session.eviction_candidates
    for tier in session.functions(UNIFIED_EVICTABLE):
        for function in tier:
            candidates = [all_candidates.tasks[i] for i in np.flatnonzero(going).tolist()]
            left = {task.uid for task in function(context, candidates)}
            may = np.fromiter(
                (task.uid in left for task in all_candidates.tasks), dtype=bool, count=len(all_candidates.tasks)
            )
            going = _less(going, may, spared, session.plugin_of(function))
    return going


def _spare(session: Witness, going: Mask) -> Mask:
    """Those without whom their gangs are whole."""
    bundles = BundlesByJob(session, going)
    spare = {task.uid for job in bundles.jobs for bundle in bundles.of(job).spare for task in bundle.tasks}
    tasks = session.eviction_candidates.tasks
    return np.fromiter((task.uid in spare for task in tasks), dtype=bool, count=len(tasks))


def _priority(job: Job) -> int:
    return job.priority
