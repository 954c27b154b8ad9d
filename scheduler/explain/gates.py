"""The gates that hold a job, read from a closed session, in the order in which a job passes them.

The messages are those of the plugins that refused; this module assigns each to its kind of gate.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from scheduler.api.job import Job
from scheduler.api.messages import listed
from scheduler.api.queue import Queue, not_open_message
from scheduler.api.reasons import FitErrors
from scheduler.api.task import Task, TaskStatus
from scheduler.explain.evictions import evictions, gang_evictions
from scheduler.explain.target import Goal, missing_roles
from scheduler.explain.traced_session import TracedSession
from scheduler.framework.extension import (
    ALLOCATABLE,
    ALLOCATABLE_NOW,
    JOB_ENQUEUEABLE,
    JOB_VALID,
    OVERUSED,
    ExtensionPoint,
)
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.nodes import accepting_rows
from scheduler.framework.remedies.registry import job_details_of
from scheduler.framework.statement import AllocationError, Statement

_KIND_AT: Final = {
    JOB_ENQUEUEABLE: GateKind.ENQUEUE,
    JOB_VALID: GateKind.VALIDITY,
    OVERUSED: GateKind.OVERUSED,
    ALLOCATABLE: GateKind.QUOTA,
    ALLOCATABLE_NOW: GateKind.QUOTA,
}
QUEUE_PLUGINS: Final = frozenset({"proportion", "capacity", "capacity-card"})
"""The plugins that manage queues. A closed queue accepts jobs unless one of them is configured."""
_SHOWN: Final = 5


def gates(session: TracedSession, job: Job, goal: Goal) -> list[Gate]:
    """Everything that holds the job, in the order of ``GateKind``."""
    _ask_remaining_plugins(session, job)
    limits = list(_quota_gates(session, job, goal))
    validity = list(_validity_gates(session, job))
    known = {gate.message for gate in validity}
    found = [*_queue_gates(session, job), *(gate for gate in _refusal_gates(session, job) if gate.message not in known)]
    found += [
        *limits,
        *validity,
        *_gates_without_reason(session, job),
        *job_details_of(session, job),
        *_scheduling_gate_gates(job, goal),
    ]
    if job.queue in session.queues and not job.waiting_for_queue:
        found += [*_node_gates(session, job), *_gang_gates(job, goal), *_pipelined_gates(session, job)]
        task = _unplaced_task(session, job, goal)
        if task is not None:
            found += [*evictions(session, job, task), *gang_evictions(session, job)]
    return sorted_gates(found)


def sorted_gates(found: Iterable[Gate]) -> list[Gate]:
    """The distinct gates, in the order of ``GateKind``."""
    order = list(GateKind)
    return sorted(dict.fromkeys(found), key=lambda gate: order.index(gate.kind))


def _unplaced_task(session: TracedSession, job: Job, goal: Goal) -> Task | None:
    """A task that no node accepts."""
    pending = (task for task in goal.wanted(job, session) if not task.gated)
    return next(
        (t for t in pending if t.cls.id in job.fit_errors or not len(accepting_rows(session, job, t.cls))), None
    )


def _ask_remaining_plugins(session: TracedSession, job: Job) -> None:
    """Calls the enqueue functions that the session skipped because another plugin of their tier had refused the job."""
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


def _quota_gates(session: TracedSession, job: Job, goal: Goal) -> Iterator[Gate]:
    """The quota limits that the gang as a whole exceeds. A session that cannot complete a gang discards its
    allocations, so its books do not show a limit that refuses the second Pod or a later one. The gang is therefore
    allocated once more, in a statement that is discarded."""
    queue = session.queues.get(job.queue)
    if queue is None or not queue.open or job.waiting_for_queue or ALLOCATABLE in session.refusers:
        return
    classes: dict[int, list[Task]] = {}
    for task in goal.wanted(job, session):
        if not task.gated:
            classes.setdefault(task.cls.id, []).append(task)
    before, statement = dict(job.transaction), Statement(session)
    try:
        for tasks in classes.values():
            gate = _quota_gate(session, queue, job, tasks, statement)
            if gate is not None:
                yield gate
                return
    finally:
        statement.discard()
        job.transaction.clear()
        job.transaction.update(before)


def _quota_gate(session: TracedSession, queue: Queue, job: Job, tasks: list[Task], statement: Statement) -> Gate | None:
    """Allocates tasks of one class as far as quotas and nodes allow; returns the quota that refuses the rest. None: no
    quota refuses them, or the plugin recorded its refusal on the job, where ``_refusal_gates`` reads it."""
    cls, known = tasks[0].cls, dict(job.fit_errors)
    functions = [function for tier in session.functions(ALLOCATABLE) for function in tier]
    while tasks:
        quotas = [(int(function(queue, job, cls)), session.plugin_of(function)) for function in functions]
        noted = job.fit_errors.get(cls.id)
        job.fit_errors.clear()
        job.fit_errors.update(known)
        room, plugin = min(quotas, default=(len(tasks), ""))
        if room <= 0:
            if noted is None or not noted.note or noted is known.get(cls.id):
                return None
            return Gate(GateKind.QUOTA, f"{tasks[0].name}: {noted.note}", plugin, noted.note_shortages)
        rows = session.view(cls, job).choose(min(room, len(tasks)))
        try:
            if rows:
                statement.allocate(job, tasks[: len(rows)], rows)
        except AllocationError:
            rows = []
        if not rows and room < len(tasks):
            message = f"queue {queue.name} may be given {room} more of these Pods, and {len(tasks)} are needed"
            return Gate(GateKind.QUOTA, message, plugin)
        if not rows:
            return None
        tasks = tasks[len(rows) :]
    return None


def _validity_gates(session: TracedSession, job: Job) -> Iterator[Gate]:
    """The refusals of the JOB_VALID functions. The session does not call them for a job that is not admitted."""
    for tier in session.functions(JOB_VALID):
        for function in tier:
            plugin = session.plugin_of(function)
            if job.waiting_for_queue and plugin == "gang":
                continue  # its Pods may be created once it is admitted
            refusal = function(job)
            if refusal is not None:
                yield Gate(GateKind.VALIDITY, refusal.message, plugin, refusal.shortages)


def _queue_gates(session: TracedSession, job: Job) -> Iterator[Gate]:
    queue = session.queues.get(job.queue)
    if queue is None:
        yield Gate(GateKind.QUEUE, f"queue {job.queue} does not exist")
    elif not queue.open:
        yield from (
            Gate(GateKind.QUEUE, not_open_message(queue), p.name) for p in session.plugins if p.name in QUEUE_PLUGINS
        )


def _refusal_gates(session: TracedSession, job: Job) -> Iterator[Gate]:
    """The refusals that plugins recorded on the job."""
    queue = session.queues.get(job.queue)
    for refusal in job.refusals:
        source = session.source_of(refusal)
        if source is None:
            continue  # reported with the nodes or the quota it belongs to
        kind = _KIND_AT[source.point]
        if queue is not None and not queue.open and refusal.message == not_open_message(queue):
            kind = GateKind.QUEUE
        yield Gate(kind, refusal.message, source.plugin, refusal.shortages)


def _gates_without_reason(session: TracedSession, job: Job) -> Iterator[Gate]:
    """The plugins that refused without a reason."""
    explained = {
        (source.point, source.plugin) for refusal in job.refusals if (source := session.source_of(refusal)) is not None
    }
    points: dict[ExtensionPoint, str] = {JOB_ENQUEUEABLE: "does not let it into its queue"}
    if not any(errors.note for errors in job.fit_errors.values()):
        points[ALLOCATABLE] = "gives its queue nothing more"
    for point, words in points.items():
        if point is JOB_ENQUEUEABLE and not job.waiting_for_queue:
            continue
        for plugin in dict.fromkeys(session.refusers.get(point, ())):
            if (point, plugin) not in explained:
                yield Gate(_KIND_AT[point], f"plugin {plugin} {words}, and does not say why", plugin)


def _scheduling_gate_gates(job: Job, goal: Goal) -> Iterator[Gate]:
    gated = [task for task in job.of(TaskStatus.PENDING).values() if task.gated]
    if not gated:
        return
    free = job.count(TaskStatus.PENDING) - len(gated) + job.ready_count + job.waiting_count
    if goal.pod and any(task.key == goal.pod for task in gated):
        yield Gate(GateKind.GATES, f"Pod {goal.pod} has scheduling gates")
    elif free < goal.needed(job):
        leaves = f"which leaves {free} of the {goal.needed(job)} needed"
        yield Gate(GateKind.GATES, f"{len(gated)} of {job.size} Pods have scheduling gates, {leaves}")


def _node_gates(session: TracedSession, job: Job) -> Iterator[Gate]:
    """Why Pods found no node: a quota that a plugin noted for their class, or the nodes' own reasons."""
    for cls, errors in job.fit_errors.items():
        task = next((t for t in job.of(TaskStatus.PENDING).values() if t.cls.id == cls and not _had_node(job, t)), None)
        if task is None:
            continue
        if errors.note:
            plugins = session.refusers.get(ALLOCATABLE, []) or session.refusers.get(ALLOCATABLE_NOW, [])
            kind = _kind_of_note(session, job, errors)
            plugin = plugins[-1] if plugins and kind is not GateKind.NODES else ""
            yield Gate(kind, f"{task.name}: {errors.note}", plugin, errors.note_shortages)
        if errors.reasons or not errors.note:
            without_note = replace(errors, note="")
            yield Gate(GateKind.NODES, f"{task.name}: {without_note.message()}", shortages=tuple(errors.shortages))


def _kind_of_note(session: TracedSession, job: Job, errors: FitErrors) -> GateKind:
    if any(shortage.kind in ("Node", "HyperNode") for shortage in errors.note_shortages):
        return GateKind.NODES
    queue = session.queues.get(job.queue)
    if queue is not None and not queue.open and not errors.note_shortages:
        return GateKind.QUEUE
    return GateKind.QUOTA if errors.note_shortages or ALLOCATABLE in session.refusers else GateKind.NODES


def _gang_gates(job: Job, goal: Goal) -> Iterator[Gate]:
    needed = goal.needed(job)
    have = job.ready_count + job.waiting_count
    if have >= needed and not missing_roles(job):
        return
    there = have + job.count(TaskStatus.PENDING)
    if there < needed:
        yield Gate(GateKind.GANG, f"there are {there} Pods, and {needed} are needed")
    could = placeable(job)
    if goal.pod or needed > 1 or missing_roles(job):
        roles = "".join(f", {number} more of task {role}" for role, number in sorted(missing_roles(job).items()))
        yield Gate(GateKind.GANG, f"{job.ready_count} of {needed} Pods have a node, {could} more find one{roles}")


def placeable(job: Job) -> int:
    """The number of Pods that found a node and lost it because the gang was incomplete."""
    return sum(_had_node(job, task) for task in job.of(TaskStatus.PENDING).values())


def _had_node(job: Job, task: Task) -> bool:
    """Whether a pending task was allocated in the session and then discarded."""
    return job.transaction.get(task.uid, (None,))[0] is TaskStatus.ALLOCATED


def _pipelined_gates(session: TracedSession, job: Job) -> Iterator[Gate]:
    """The pipelined tasks, each with the Pods that still terminate on its node."""
    leaving: dict[str, list[str]] = {}
    for other in session.jobs.values():
        for task in other.of(TaskStatus.RELEASING).values():
            leaving.setdefault(task.node, []).append(task.key)
    for task in job.of(TaskStatus.PIPELINED).values():
        node = session.nodes.names[job.placed[task.uid]]
        yield Gate(
            GateKind.PIPELINED,
            f"{task.name} is pipelined to node {node}{_terminating_text(sorted(leaving.get(node, ())))}",
        )


def _terminating_text(pods: list[str]) -> str:
    if not pods:
        return ", once what terminates there is gone"
    return f" and waits for {listed(pods, _SHOWN)} to terminate there"
