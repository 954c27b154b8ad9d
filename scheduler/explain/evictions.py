"""Why nobody makes room for a job where the configuration has preempt or reclaim: who could go, who spares whom."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.actions.eviction.eligibility import NEVER, reclaimable_candidates
from scheduler.actions.eviction.feasibility import freed_amounts
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.resource import format_amount
from scheduler.api.task import Task
from scheduler.explain.witness import Witness
from scheduler.framework.extension import PREEMPTABLE, PREEMPTIVE, RECLAIMABLE, ExtensionPoint
from scheduler.framework.remedies.gates import Gate, Held
from scheduler.framework.remedies.nodes import compared


def evictions(session: Witness, job: Job, task: Task) -> Iterator[Gate]:
    """``task``: one of the job that finds no node."""
    for held, action in ((Held.PREEMPT, "preempt"), (Held.RECLAIM, "reclaim")):
        if session.configuration.has_action(action):
            why = not_at_all(session, job, [task]) or (
                _preempt(session, job, task) if held is Held.PREEMPT else _reclaim(session, job, task)
            )
            yield Gate(held, why)


def not_at_all(session: Witness, job: Job, tasks: Sequence[Task]) -> str:
    """Why nobody is evicted for tasks, whoever that would be; "": no reason."""
    if not session.job_starving(job):
        return "it does not starve: it has what its gang needs, or its plugins count it so"
    never = next((task for task in tasks if task.cls.spec.preemption_policy == NEVER), None)
    return "" if never is None else f"{never.name} has preemptionPolicy {NEVER}"


def not_from_others(session: Witness, job: Job, tasks: Sequence[Task]) -> str:
    """Why the queue of a job takes nothing from other queues for tasks; "": no reason."""
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


def _preempt(session: Witness, job: Job, task: Task) -> str:
    if job.has_topology:
        return "it asks for a network topology: single nodes are of no use to it"
    all_candidates = session.eviction_candidates
    scope = (
        all_candidates.preemptable
        & all_candidates.present
        & all_candidates.of_queues(job.queue.__eq__)
        & ~all_candidates.own(job.key)
    )
    return _victims(session, task, PREEMPTABLE, scope, f"of other jobs in queue {job.queue}")


def _reclaim(session: Witness, job: Job, task: Task) -> str:
    why = not_from_others(session, job, [task])
    scope = reclaimable_candidates(session, session.queues[job.queue]) & session.eviction_candidates.present
    return why or _victims(session, task, RECLAIMABLE, scope, "of other queues that can be reclaimed from")


def _victims(session: Witness, task: Task, point: ExtensionPoint, scope: Mask, whose: str) -> str:
    all_candidates = session.eviction_candidates
    candidates = np.flatnonzero(scope).tolist()
    if not candidates:
        return f"there is no Pod {whose} that may be evicted"
    spared: Counter[str] = Counter()
    going = np.zeros(len(scope), dtype=bool)
    for i in candidates:
        victim = all_candidates.tasks[i]
        if session.ask(point, task, [victim]):
            going[i] = True
            continue
        for plugin in _sparing(session, point, task, victim) or ["a veto"]:
            spared[plugin] += 1
    text = counted(len(candidates), whose, int(going.sum()), spared)
    return f"{text}; {_best_node(session, task, going)}" if going.any() else text


def counted(candidates: int, whose: str, going: int, spared: Counter[str]) -> str:
    """How many may go, and who spares how many."""
    numbers = ", ".join(f"{who} spares {number}" for who, number in sorted(spared.items()) if number)
    return f"of {candidates} Pods {whose}, {going} may be evicted" + (f" ({numbers})" if numbers else "")


def _sparing(session: Witness, point: ExtensionPoint, task: Task, victim: Task) -> list[str]:
    """The plugins that spare a victim, even alone."""
    answers = {
        session.plugin_of(function): function(task, [victim]) for tier in session.functions(point) for function in tier
    }
    return [plugin for plugin, answer in answers.items() if answer is not None and not answer]


def _best_node(session: Witness, task: Task, going: Mask) -> str:
    """What would still be missing on the node where least would, if all those went."""
    dims = np.array(compared(task.cls), dtype=np.intp)
    if not len(dims) or not len(session.nodes):
        return "none of them is in its way"
    request = task.cls.request[dims][:, np.newaxis]
    short = np.maximum(request - session.nodes.future_idle()[dims] - freed_amounts(session, going, dims), 0)
    weighed = np.where(request > 0, short / np.maximum(request, 1), short).sum(axis=0)
    row = int(weighed.argmin())
    if not weighed[row]:
        return "what they hold would do for one Pod, but not for its gang, or other conditions are in the way"
    names = session.dimensions.names
    lacks = ", ".join(
        f"{format_amount(names[d], amount)} {names[d]}" for d, amount in zip(dims, short[:, row], strict=True) if amount
    )
    return f"on node {session.nodes.names[row]}, where most would be free, {lacks} would still be missing"
