"""What holds a job, read from a session that has closed over it: the gates, in the order of the road to a node.

The words are those of whoever refused; here they are put under the gate they belong to.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from scheduler.api.job import Job
from scheduler.api.queue import Queue, not_open_message
from scheduler.api.reasons import FitErrors
from scheduler.api.task import Task, TaskStatus
from scheduler.explain.evictions import evictions
from scheduler.explain.gang_evictions import gang_evictions
from scheduler.explain.target import Goal, lacking_roles
from scheduler.explain.witness import Witness
from scheduler.framework.extension import (
    ALLOCATABLE,
    ALLOCATABLE_NOW,
    JOB_ENQUEUEABLE,
    JOB_VALID,
    OVERUSED,
    ExtensionPoint,
)
from scheduler.framework.remedies.gates import Gate, Held
from scheduler.framework.remedies.nodes import open_rows
from scheduler.framework.remedies.registry import job_details_of
from scheduler.framework.statement import AllocationError, Statement

_HELD_AT: Final = {
    JOB_ENQUEUEABLE: Held.ENQUEUE,
    JOB_VALID: Held.VALIDITY,
    OVERUSED: Held.OVERUSED,
    ALLOCATABLE: Held.QUOTA,
    ALLOCATABLE_NOW: Held.QUOTA,
}
GUARDING: Final = frozenset({"proportion", "capacity", "capacity-card"})
"""The plugins that keep queues: only where one of them is configured a closed queue takes nothing."""
_SHOWN: Final = 5


def gates(session: Witness, job: Job, goal: Goal) -> list[Gate]:
    """All that holds the job, in the order of ``Held``."""
    _ask_the_rest(session, job)
    limits = list(_limits(session, job, goal))
    forbidden = list(_forbidden(session, job))
    known = {gate.message for gate in forbidden}
    found = [*_queue(session, job), *(gate for gate in _refusals(session, job) if gate.message not in known)]
    found += [*limits, *forbidden, *_silent(session, job), *job_details_of(session, job), *_scheduling_gates(job, goal)]
    if job.queue in session.queues and not job.waiting_for_queue:
        found += [*_places(session, job), *_gang(job, goal), *_pipelined(session, job)]
        task = _homeless(session, job, goal)
        if task is not None:
            found += [*evictions(session, job, task), *gang_evictions(session, job)]
    return in_order(found)


def in_order(found: Iterable[Gate]) -> list[Gate]:
    """Each once, in the order of ``Held``."""
    order = list(Held)
    return sorted(dict.fromkeys(found), key=lambda gate: order.index(gate.held))


def _homeless(session: Witness, job: Job, goal: Goal) -> Task | None:
    """A Pod that waits for want of a node."""
    pending = (task for task in goal.wanted(job, session) if not task.gated)
    return next((t for t in pending if t.cls.id in job.fit_errors or not len(open_rows(session, job, t.cls))), None)


def _ask_the_rest(session: Witness, job: Job) -> None:
    """Ask the plugins whether they would let the job in that were not asked, since one of their tier had refused."""
    if not job.waiting_for_queue or job.queue not in session.queues:
        return
    refused = set(session.refusers.get(JOB_ENQUEUEABLE, ()))
    for tier in session.functions(JOB_ENQUEUEABLE):
        plugins = [session.plugin_of(function) for function in tier]
        first = next((i for i, plugin in enumerate(plugins) if plugin in refused), None)
        if first is not None:
            for plugin, function in zip(plugins[first:], tier[first:], strict=True):
                if plugin not in refused:
                    function(job)
            return


def _limits(session: Witness, job: Job, goal: Goal) -> Iterator[Gate]:
    """What the queue may not have of the whole gang. A session that gives a gang up takes its Pods back, so the books
    at its end say nothing of a limit that holds the second Pod or a later one: the plugins are asked once more."""
    queue = session.queues.get(job.queue)
    if queue is None or not queue.open or job.waiting_for_queue or ALLOCATABLE in session.refusers:
        return
    classes: dict[int, list[Task]] = {}
    for task in goal.wanted(job, session):
        if not task.gated:
            classes.setdefault(task.cls.id, []).append(task)
    given, statement = dict(job.transaction), Statement(session)
    try:
        for tasks in classes.values():
            gate = _limit(session, queue, job, tasks, statement)
            if gate is not None:
                yield gate
                return
    finally:
        statement.discard()
        job.transaction.clear()
        job.transaction.update(given)


def _limit(session: Witness, queue: Queue, job: Job, tasks: list[Task], statement: Statement) -> Gate | None:
    """What the queue may not have of tasks of one class, which are placed as far as that and the nodes allow. A plugin
    may note a refusal on the job instead of its class: that one is among the job's refusals."""
    cls, known = tasks[0].cls, dict(job.fit_errors)
    functions = [function for tier in session.functions(ALLOCATABLE) for function in tier]
    while tasks:
        rooms = [(int(function(queue, job, cls)), session.plugin_of(function)) for function in functions]
        noted = job.fit_errors.get(cls.id)
        job.fit_errors.clear()
        job.fit_errors.update(known)
        room, plugin = min(rooms, default=(len(tasks), ""))
        if room <= 0:
            if noted is None or not noted.note or noted is known.get(cls.id):
                return None
            return Gate(Held.QUOTA, f"{tasks[0].name}: {noted.note}", plugin, noted.note_shortages)
        rows = session.view(cls, job).choose(min(room, len(tasks)))
        try:
            if rows:
                statement.allocate(job, tasks[: len(rows)], rows)
        except AllocationError:
            rows = []
        if not rows and room < len(tasks):
            message = f"queue {queue.name} may be given {room} more of these Pods, and {len(tasks)} are needed"
            return Gate(Held.QUOTA, message, plugin)
        if not rows:
            return None
        tasks = tasks[len(rows) :]
    return None


def _forbidden(session: Witness, job: Job) -> Iterator[Gate]:
    """What plugins have against the job as it is. A job that is not let in was not asked about in the session."""
    for tier in session.functions(JOB_VALID):
        for function in tier:
            plugin = session.plugin_of(function)
            if job.waiting_for_queue and plugin == "gang":
                continue  # its Pods may come when it is let in
            refusal = function(job)
            if refusal is not None:
                yield Gate(Held.VALIDITY, refusal.message, plugin, refusal.shortages)


def _queue(session: Witness, job: Job) -> Iterator[Gate]:
    queue = session.queues.get(job.queue)
    if queue is None:
        yield Gate(Held.QUEUE, f"queue {job.queue} does not exist")
    elif not queue.open:
        yield from (Gate(Held.QUEUE, not_open_message(queue), p.name) for p in session.plugins if p.name in GUARDING)


def _refusals(session: Witness, job: Job) -> Iterator[Gate]:
    """What plugins refused with words."""
    queue = session.queues.get(job.queue)
    for refusal in job.refusals:
        author = session.author_of(refusal)
        if author is None:
            continue  # it is told of where it comes from
        held = _HELD_AT[author.point]
        if queue is not None and not queue.open and refusal.message == not_open_message(queue):
            held = Held.QUEUE
        yield Gate(held, refusal.message, author.plugin, refusal.shortages)


def _silent(session: Witness, job: Job) -> Iterator[Gate]:
    """Plugins that said no, and nothing else."""
    spoken = {
        (author.point, author.plugin) for refusal in job.refusals if (author := session.author_of(refusal)) is not None
    }
    questions: dict[ExtensionPoint, str] = {JOB_ENQUEUEABLE: "does not let it into its queue"}
    if not any(errors.note for errors in job.fit_errors.values()):
        questions[ALLOCATABLE] = "gives its queue nothing more"
    for point, words in questions.items():
        if point is JOB_ENQUEUEABLE and not job.waiting_for_queue:
            continue
        for plugin in dict.fromkeys(session.refusers.get(point, ())):
            if (point, plugin) not in spoken:
                yield Gate(_HELD_AT[point], f"plugin {plugin} {words}, and does not say why", plugin)


def _scheduling_gates(job: Job, goal: Goal) -> Iterator[Gate]:
    gated = [task for task in job.of(TaskStatus.PENDING).values() if task.gated]
    if not gated:
        return
    free = job.count(TaskStatus.PENDING) - len(gated) + job.ready_count + job.waiting_count
    if goal.pod and any(task.key == goal.pod for task in gated):
        yield Gate(Held.GATES, f"Pod {goal.pod} has scheduling gates")
    elif free < goal.least(job):
        leaves = f"which leaves {free} of the {goal.least(job)} needed"
        yield Gate(Held.GATES, f"{len(gated)} of {job.size} Pods have scheduling gates, {leaves}")


def _places(session: Witness, job: Job) -> Iterator[Gate]:
    """Why Pods found no node: a quota that a plugin noted on a class, or the nodes themselves."""
    for cls, errors in job.fit_errors.items():
        task = next((t for t in job.of(TaskStatus.PENDING).values() if t.cls.id == cls and not _found(job, t)), None)
        if task is None:
            continue
        if errors.note:
            plugins = session.refusers.get(ALLOCATABLE, []) or session.refusers.get(ALLOCATABLE_NOW, [])
            held = _held_by_note(session, job, errors)
            plugin = plugins[-1] if plugins and held is not Held.NODES else ""
            yield Gate(held, f"{task.name}: {errors.note}", plugin, errors.note_shortages)
        if errors.reasons or not errors.note:
            without_note = replace(errors, note="")
            yield Gate(Held.NODES, f"{task.name}: {without_note.message()}", shortages=tuple(errors.shortages))


def _held_by_note(session: Witness, job: Job, errors: FitErrors) -> Held:
    if any(shortage.kind in ("Node", "HyperNode") for shortage in errors.note_shortages):
        return Held.NODES
    queue = session.queues.get(job.queue)
    if queue is not None and not queue.open and not errors.note_shortages:
        return Held.QUEUE
    return Held.QUOTA if errors.note_shortages or ALLOCATABLE in session.refusers else Held.NODES


def _gang(job: Job, goal: Goal) -> Iterator[Gate]:
    needed = goal.least(job)
    have = job.ready_count + job.waiting_count
    if have >= needed and not lacking_roles(job):
        return
    there = have + job.count(TaskStatus.PENDING)
    if there < needed:
        yield Gate(Held.GANG, f"there are {there} Pods, and {needed} are needed")
    could = placeable(job)
    if goal.pod or needed > 1 or lacking_roles(job):
        roles = "".join(f", {number} more of task {role}" for role, number in sorted(lacking_roles(job).items()))
        yield Gate(Held.GANG, f"{job.ready_count} of {needed} Pods have a node, {could} more find one{roles}")


def placeable(job: Job) -> int:
    """Pods that were given a node and had to give it back because their gang did not come about."""
    return sum(_found(job, task) for task in job.of(TaskStatus.PENDING).values())


def _found(job: Job, task: Task) -> bool:
    """Whether a task was given a node in the session, and had to give it back."""
    return job.transaction.get(task.uid, (None,))[0] is TaskStatus.ALLOCATED


def _pipelined(session: Witness, job: Job) -> Iterator[Gate]:
    """Promised places, each with who is still there."""
    leaving: dict[str, list[str]] = {}
    for other in session.jobs.values():
        for task in other.of(TaskStatus.RELEASING).values():
            leaving.setdefault(task.node, []).append(task.key)
    for task in job.of(TaskStatus.PIPELINED).values():
        node = session.nodes.names[job.placed[task.uid]]
        yield Gate(Held.PIPELINED, f"{task.name} is promised node {node}{_until(sorted(leaving.get(node, ())))}")


def _until(pods: list[str]) -> str:
    if not pods:
        return ", once what terminates there is gone"
    shown = ", ".join(pods[:_SHOWN]) + (f" and {len(pods) - _SHOWN} more" if len(pods) > _SHOWN else "")
    return f" and waits for {shown} to terminate there"
