"""Why preempt and reclaim evict no Pod for a job: which candidates there are, and which plugins protect them. For a
gang, why gangpreempt and gangreclaim do not, and how many of its Pods would fit without the candidates."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.actions.eviction.bundles import BundlesByJob
from scheduler.actions.eviction.feasibility import Shortfalls, freed_amounts
from scheduler.actions.eviction.gang_room import Demand, parts_to_place
from scheduler.actions.eviction.solver import NEVER
from scheduler.actions.eviction_actions import PREEMPT, RECLAIM, less_important_jobs, permissive_jobs
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import format_amount
from scheduler.api.task import Task
from scheduler.explain.traced_session import TracedSession
from scheduler.framework.arguments import Arguments
from scheduler.framework.combining import Function
from scheduler.framework.extension import (
    KEEPS_DESERVED,
    PREEMPTIVE,
    UNIFIED_EVICTABLE,
    EvictionContext,
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
    scope, which = _candidates(session, job, across_queues=False)
    return _victims(session, task, PREEMPT.approval, scope, which)


def _reclaim(session: TracedSession, job: Job, task: Task) -> str:
    why = why_no_reclaim(session, job, [task])
    scope, which = _candidates(session, job, across_queues=True)
    losing = least_protected(session, job, [task])
    return why or _victims(session, task, RECLAIM.approval, scope, which, losing)


def _candidates(session: TracedSession, job: Job, *, across_queues: bool) -> tuple[Mask, str]:
    """The tasks that the actions may evict for a job, and the words for them."""
    policy, which = PREEMPT, f"of other jobs in queue {job.queue}"
    if across_queues:
        policy, which = RECLAIM, "of other queues that can be reclaimed from"
    return policy.may_give(session, job) & session.eviction_candidates.present, which


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


_GANG_ACTIONS = ((GateKind.GANG_PREEMPT, "gangpreempt", False), (GateKind.GANG_RECLAIM, "gangreclaim", True))


def gang_evictions(session: TracedSession, job: Job) -> Iterator[Gate]:
    """One gate for each of gangpreempt and gangreclaim that is configured. The job must wait for nodes."""
    tasks = [task for _, part in parts_to_place(session, job) for task in part]
    for kind, action, across in _GANG_ACTIONS:
        if session.configuration.has_action(action) and tasks:
            why = why_no_eviction(session, job, tasks) or (why_no_reclaim(session, job, tasks) if across else "")
            yield Gate(kind, why or _gang_victims(session, job, tasks, action, across_queues=across))


def _gang_victims(session: TracedSession, job: Job, tasks: Sequence[Task], action: str, *, across_queues: bool) -> str:
    scope, which = _candidates(session, job, across_queues=across_queues)
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
