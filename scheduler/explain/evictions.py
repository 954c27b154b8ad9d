"""Why preempt and reclaim evict no Pod for a job: which candidates there are, and which plugins protect them."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.actions.eviction.feasibility import Shortfalls, freed_amounts
from scheduler.actions.eviction.solver import NEVER
from scheduler.actions.eviction_actions import PREEMPT, RECLAIM
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import format_amount
from scheduler.api.task import Task
from scheduler.explain.traced_session import TracedSession
from scheduler.framework.extension import (
    KEEPS_DESERVED,
    PREEMPTIVE,
    ExtensionPoint,
    Protection,
    ReclaimContext,
)
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.nodes import compared_resources


def evictions(session: TracedSession, job: Job, task: Task) -> Iterator[Gate]:
    """One gate for each of preempt and reclaim that is configured. ``task``: a task of the job that no node accepts."""
    for kind, action in ((GateKind.PREEMPT, "preempt"), (GateKind.RECLAIM, "reclaim")):
        if session.configuration.has_action(action):
            why = why_no_eviction(session, job, [task]) or (
                _preempt(session, job, task) if kind is GateKind.PREEMPT else _reclaim(session, job, task)
            )
            yield Gate(kind, why)


def why_no_eviction(session: TracedSession, job: Job, tasks: Sequence[Task]) -> str:
    """Why no Pod is evicted for the tasks, independent of the candidates; "": there is no such reason."""
    if not session.job_starving(job):
        return "it does not starve: it has what its gang needs, or its plugins count it so"
    never = next((task for task in tasks if task.cls.spec.preemption_policy == NEVER), None)
    return "" if never is None else f"{never.name} has preemptionPolicy {NEVER}"


def why_no_reclaim(session: TracedSession, job: Job, tasks: Sequence[Task]) -> str:
    """Why the queue of the job may not reclaim from other queues for the tasks; "": there is no such reason."""
    queue = session.queues[job.queue]
    refusal = session.overused(queue)
    if refusal is not None:
        return refusal.message
    what = tasks[0].name if len(tasks) == 1 else f"{len(tasks)} Pods more"
    for tier in session.functions(PREEMPTIVE):
        for function in tier:
            if not function(queue, tasks):
                plugin = session.plugin_of(function)
                return f"{plugin}: with {what} queue {queue.name} would have more than it deserves"
    return ""


def _preempt(session: TracedSession, job: Job, task: Task) -> str:
    if not PREEMPT.serves(job):
        return "it asks for a network topology: single nodes are of no use to it"
    scope = PREEMPT.may_give(session, job) & session.eviction_candidates.present
    return _victims(session, task, PREEMPT.approval, scope, f"of other jobs in queue {job.queue}")


def _reclaim(session: TracedSession, job: Job, task: Task) -> str:
    why = why_no_reclaim(session, job, [task])
    scope = RECLAIM.may_give(session, job) & session.eviction_candidates.present
    losing = least_protected(session, job, [task])
    return why or _victims(session, task, RECLAIM.approval, scope, "of other queues that can be reclaimed from", losing)


def least_protected(session: TracedSession, job: Job, tasks: Sequence[Task], *, gang: bool = False) -> ReclaimContext:
    """Returns the context in which queues keep the least when their tasks are evicted for tasks of a job."""
    request = np.sum([task.cls.request for task in tasks], axis=0)
    shortfalls = session.once(Shortfalls)
    lacking = np.logical_or.reduce([shortfalls.of(task.cls.request).lacking() for task in tasks])
    classes = tuple(dict.fromkeys(task.cls for task in tasks))
    return ReclaimContext(job, classes, request, lacking, Protection.ABOVE, gang)


def keepers(session: TracedSession, losing: ReclaimContext, victim: Task) -> list[str]:
    """Returns the plugins that protect a task because its queue has no more than it deserves."""
    functions = session.all_functions(KEEPS_DESERVED)
    return [session.plugin_of(function) for function in functions if not function(losing, [victim])]


def _victims(
    session: TracedSession,
    task: Task,
    point: ExtensionPoint,
    scope: Mask,
    which: str,
    losing: ReclaimContext | None = None,
) -> str:
    """``losing``: what other queues keep; None: the victims are in the queue of the preemptor."""
    all_candidates = session.eviction_candidates
    candidates = np.flatnonzero(scope).tolist()
    if not candidates:
        return f"there is no Pod {which} that may be evicted"
    protected: Counter[str] = Counter()
    evictable = np.zeros(len(scope), dtype=bool)
    for i in candidates:
        victim = all_candidates.tasks[i]
        keeping = keepers(session, losing, victim) if losing is not None else []
        if not keeping and session.ask(point, task, [victim]):
            evictable[i] = True
            continue
        protecting = dict.fromkeys(keeping + _protecting_plugins(session, point, task, victim))
        for plugin in protecting or ["a veto"]:
            protected[plugin] += 1
    text = count_text(len(candidates), which, int(evictable.sum()), protected)
    return f"{text}; {_best_node(session, task, evictable)}" if evictable.any() else text


def count_text(candidates: int, which: str, evictable: int, protected: Counter[str]) -> str:
    """How many candidates may be evicted, and how many each plugin or rule protects."""
    numbers = ", ".join(f"{protector} spares {number}" for protector, number in sorted(protected.items()) if number)
    return f"of {candidates} Pods {which}, {evictable} may be evicted" + (f" ({numbers})" if numbers else "")


def _protecting_plugins(session: TracedSession, point: ExtensionPoint, task: Task, victim: Task) -> list[str]:
    """The plugins that protect a candidate by their own answer."""
    answers = {
        session.plugin_of(function): function(task, [victim]) for tier in session.functions(point) for function in tier
    }
    return [plugin for plugin, answer in answers.items() if answer is not None and not answer]


def _best_node(session: TracedSession, task: Task, evictable: Mask) -> str:
    """What the node with the smallest shortage would still lack if all ``evictable`` Pods were evicted."""
    dims = np.array(compared_resources(task.cls), dtype=np.intp)
    if not len(dims) or not len(session.nodes):
        return "none of them is in its way"
    request = task.cls.request[dims][:, np.newaxis]
    short = np.maximum(request - session.nodes.future_idle()[dims] - freed_amounts(session, evictable, dims), 0)
    weighed = np.where(request > 0, short / np.maximum(request, 1), short).sum(axis=0)
    row = int(weighed.argmin())
    if not weighed[row]:
        return "what they hold would do for one Pod, but not for its gang, or other conditions are in the way"
    names = session.dimensions.names
    lacks = ", ".join(
        f"{format_amount(names[d], amount)} {names[d]}" for d, amount in zip(dims, short[:, row], strict=True) if amount
    )
    return f"on node {session.nodes.names[row]}, where most would be free, {lacks} would still be missing"
