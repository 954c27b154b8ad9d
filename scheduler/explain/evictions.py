"""Why nobody makes room for a job where the configuration has preempt or reclaim: who could go, who spares whom."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from scheduler.actions.eviction import NEVER, of_other_queues
from scheduler.actions.openings import freed
from scheduler.api.job import Job
from scheduler.api.resource import format_amount
from scheduler.api.task import Task
from scheduler.explain.explanation import Gate, Held
from scheduler.explain.nodes import compared, open_rows
from scheduler.explain.target import Goal
from scheduler.explain.witness import Witness
from scheduler.framework.extension import PREEMPTABLE, PREEMPTIVE, RECLAIMABLE, ExtensionPoint
from scheduler.framework.tenants import Mask


def evictions(session: Witness, job: Job, goal: Goal) -> Iterator[Gate]:
    """Nothing where its Pods wait for no node."""
    pending = [task for task in goal.wanted(job, session) if not task.gated]
    task = next((t for t in pending if t.cls.id in job.fit_errors or not len(open_rows(session, job, t.cls))), None)
    if task is None:
        return
    for held, action in ((Held.PREEMPT, "preempt"), (Held.RECLAIM, "reclaim")):
        if session.configuration.has_action(action):
            why = _beforehand(session, job, task) or (
                _preempt(session, job, task) if held is Held.PREEMPT else _reclaim(session, job, task)
            )
            if why:
                yield Gate(held, why)


def _beforehand(session: Witness, job: Job, task: Task) -> str:
    if not session.job_starving(job):
        return "it does not starve: it has what its gang needs, or its plugins count it so"
    if task.cls.spec.preemption_policy == NEVER:
        return f"{task.name} has preemptionPolicy {NEVER}"
    return ""


def _preempt(session: Witness, job: Job, task: Task) -> str:
    tenants = session.tenants
    scope = tenants.preemptable & tenants.present & tenants.of_queues(job.queue.__eq__) & ~tenants.own(job.key)
    return _victims(session, task, PREEMPTABLE, scope, f"of other jobs in queue {job.queue}")


def _reclaim(session: Witness, job: Job, task: Task) -> str:
    queue = session.queues[job.queue]
    refusal = session.overused(queue)
    if refusal is not None:
        return refusal.message
    for tier in session.functions(PREEMPTIVE):
        for function in tier:
            if not function(queue, (task,)):
                plugin = session.plugin_of(function)
                return f"{plugin}: with {task.name} queue {queue.name} would have more than it deserves"
    scope = of_other_queues(session, queue) & session.tenants.present
    return _victims(session, task, RECLAIMABLE, scope, "of other queues that can be reclaimed from")


def _victims(session: Witness, task: Task, point: ExtensionPoint, scope: Mask, whose: str) -> str:
    tenants = session.tenants
    candidates = np.flatnonzero(scope).tolist()
    if not candidates:
        return f"there is no Pod {whose} that may be evicted"
    spared: Counter[str] = Counter()
    going = np.zeros(len(scope), dtype=bool)
    for i in candidates:
        victim = tenants.tasks[i]
        if session.ask(point, task, [victim]):
            going[i] = True
            continue
        for plugin in _sparing(session, point, task, victim) or ["a veto"]:
            spared[plugin] += 1
    numbers = ", ".join(f"{plugin} spares {number}" for plugin, number in sorted(spared.items()))
    text = f"of {len(candidates)} Pods {whose}, {int(going.sum())} may be evicted"
    text += f" ({numbers})" if numbers else ""
    return f"{text}; {_best_node(session, task, going)}" if going.any() else text


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
    short = np.maximum(request - session.nodes.future_idle()[dims] - freed(session, going, dims), 0)
    weighed = np.where(request > 0, short / np.maximum(request, 1), short).sum(axis=0)
    row = int(weighed.argmin())
    if not weighed[row]:
        return "what they hold would do for one Pod, but not for its gang, or other conditions are in the way"
    names = session.dimensions.names
    lacks = ", ".join(
        f"{format_amount(names[d], amount)} {names[d]}" for d, amount in zip(dims, short[:, row], strict=True) if amount
    )
    return f"on node {session.nodes.names[row]}, where most would be free, {lacks} would still be missing"
