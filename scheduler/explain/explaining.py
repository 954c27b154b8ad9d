"""Builds an explanation: traces sessions until nothing changes, reads their end state, then searches for changes."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from scheduler.api.job import Job
from scheduler.api.kinds import JOB_FLOW, POD, POD_GROUP
from scheduler.api.names import TASK_ANNOTATIONS
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.index import group_of, node_of
from scheduler.cluster.memory.simulation import MAX_CYCLES
from scheduler.explain.alternatives import alternatives_of
from scheduler.explain.explanation import Explanation, Outlook, Ranking
from scheduler.explain.gates import gates, placeable, sorted_gates
from scheduler.explain.nodes import groups, rank, resized_pods
from scheduler.explain.queues import queue_amounts, queue_position
from scheduler.explain.search import smallest_changes
from scheduler.explain.target import Goal, Target, asks_for_no_pods, ended, find_target, gets_nodes_afterwards, goal_of
from scheduler.explain.traced_session import TracedSession
from scheduler.explain.unconsidered import (
    ordered_tasks,
    other_scheduler,
    refused_pods,
    scheduler_of,
    time_out,
    why_without_pods,
)
from scheduler.framework.cycle import open_plugins
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details_of

Raw = dict[str, Any]
_AFTERWARDS: Final = "it gets its nodes when Pods that terminate are gone"
_ENDING: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.RELEASING})


def explain(simulation: Simulation, kind: str, namespace: str, name: str, *, search: bool = True) -> Explanation:
    """Explains a Pod, PodGroup or workload. Runs the simulation until nothing changes any more.

    ``kind``: as in ``find_target``. ``search``: whether to search for changes that would let it run. Raises
    NotFoundError.
    """
    lost = _lost(simulation, kind, namespace, name)
    if lost is not None:
        return lost
    simulation.run_controllers()
    target = _target(simulation, kind, namespace, name)
    jobs = simulation.snapshot().jobs
    job = jobs.get(target.job)
    result = Explanation(kind, namespace, name, Outlook.WAITS, "", group=target.job)
    if target.name != name:
        result.subject = (target.kind.name, target.name)
    reason = _without_scheduling(simulation, target, job)
    if reason is not None:
        result.outlook, result.state, result.gates = reason
        if result.outlook is Outlook.WAITS and gets_nodes_afterwards(simulation, kind, namespace, name):
            result.pipelined = True
            result.state = f"{result.state}; {_AFTERWARDS}"
        result.state = "; ".join(filter(None, (result.state, target.others)))
        return result
    assert job is not None
    _describe(result, job)
    raw = simulation.cluster.server.find(target.kind, target.namespace, target.name)
    tasks = "" if target.pod or raw is None else ordered_tasks(simulation.cluster, raw)
    action = "" if target.pod or raw is None else time_out(simulation.cluster, raw)
    others = "; ".join(filter(None, (tasks, target.others)))
    held = _placed_task(job, target)
    goal = goal_of(simulation.cluster, target, job)
    if held is not None and (target.pod or goal.met_initially(job)):
        result.outlook, result.state = Outlook.PLACED, _placed_state(job, goal, held if target.pod else None)
        result.alternatives = alternatives_of(job, None)
        result.state = "; ".join(filter(None, (result.state, others)))
        result.ranking = _ranking_if_unplaced(simulation, target, held)
        return result
    run = _run_sessions(simulation, target, goal)
    _report(result, simulation, run, goal, target)
    waits = result.outlook is Outlook.WAITS and not result.pipelined
    if waits and gets_nodes_afterwards(simulation, kind, namespace, name):
        result.pipelined = True
        result.state = f"{result.state.partition(',')[0]}; {_AFTERWARDS}"
    if result.outlook is not Outlook.WAITS:
        action = ""
    result.state = "; ".join(filter(None, (result.state, action, others)))
    if result.outlook is Outlook.WAITS and search:
        result.searched = True
        result.changes, result.remedy_errors = smallest_changes(simulation, goal, target.pod)
    return result


def _lost(simulation: Simulation, kind: str, namespace: str, name: str) -> Explanation | None:
    """The explanation of a Pod whose node was deleted; None of others."""
    raw = simulation.cluster.server.find(POD, namespace, name) if kind == "pod" else None
    if raw is None or not simulation.cluster.is_lost(raw):
        return None
    state = f"its node {node_of(raw)} does not exist any more, so the Pod is deleted"
    return Explanation(kind, namespace, name, Outlook.ENDED, state, group=group_of(raw))


def _target(simulation: Simulation, kind: str, namespace: str, name: str) -> Target:
    """The target; of several that wait, the first that still waits when nothing changes any more. Raises
    NotFoundError."""
    target = find_target(simulation.cluster, kind, namespace, name)
    if len(target.waiting) < 2:
        return target
    later = simulation.branch()
    later.run()
    still = find_target(later.cluster, kind, namespace, name).waiting
    choice = next((each for each in target.waiting if each in still), "")
    return find_target(simulation.cluster, kind, namespace, name, choice)


# --- reasons outside scheduling ---
def _without_scheduling(
    simulation: Simulation, target: Target, job: Job | None
) -> tuple[Outlook, str, list[Gate]] | None:
    """The outlook, state and gates of an object that no session can place; None: sessions decide about it."""
    cluster = simulation.cluster
    raw = cluster.get(target.kind.api_version, target.kind.name, target.namespace, target.name) or {}
    phase = ended(raw)
    if phase:
        return Outlook.ENDED, f"it is {phase}", []
    if (raw.get("metadata") or {}).get("deletionTimestamp"):
        return Outlook.ENDED, "it terminates", []
    other = _other_scheduler(simulation, target, raw)
    if other and (job is None or not job.by_status or target.pod):
        return Outlook.LEFT_ALONE, other_scheduler(other, simulation.scheduler_names), []
    if (job is None or not job.size) and asks_for_no_pods(raw):
        return Outlook.WAITS, asks_for_no_pods(raw), [Gate(GateKind.OWNER, asks_for_no_pods(raw))]
    if job is None:
        state = ((raw.get("status") or {}).get("state") or {}).get("phase", "")
        message = "has no PodGroup, so there is nothing to schedule"
        if target.kind is JOB_FLOW:
            message = "has no job, so there is nothing to schedule"
        if state:
            message = f"it is {state} and {message}"
        namespace, _, group = target.job.partition("/")
        if group and cluster.server.find(POD_GROUP, namespace, group) is None:
            message = f"its PodGroup {target.job} does not exist"
        return Outlook.WAITS, message, [Gate(GateKind.OWNER, message)]
    refused = list(refused_pods(cluster.server, target.job))
    if not job.size and not job.waiting_for_queue and not refused:
        namespace, _, group = target.job.partition("/")
        why = why_without_pods(cluster.server, cluster.server.find(POD_GROUP, namespace, group) or {"metadata": {}})
        message = f"it is admitted to its queue and has no Pods: {why or 'its owner has not created them'}"
        return Outlook.WAITS, message, [Gate(GateKind.OWNER, message)]
    return None


def _other_scheduler(simulation: Simulation, target: Target, raw: Raw) -> str:
    """The name of another scheduler that is responsible for waiting Pods, or ""."""
    pods = [raw] if target.pod else simulation.cluster.server.by_index(POD, group_of, target.job) or target.pods
    names = {scheduler_of(pod) for pod in pods if not pod["spec"].get("nodeName")}
    return next(iter(sorted(names - set(simulation.scheduler_names))), "")


# --- placed Pods ---
def _placed_task(job: Job, target: Target) -> Task | None:
    """The target Pod if it has a node; for a gang, any of its Pods that has one."""
    for status in READY_STATUSES:
        for task in job.of(status).values():
            if target.pod in ("", task.key):
                return task
    return None


def _placed_state(job: Job, goal: Goal, task: Task | None) -> str:
    if task is not None:
        return f"it has node {task.node}" if task.node else "it has done its work"
    return f"{job.ready_count} Pods have a node, {goal.needed(job)} are needed at once"


def _ranking_if_unplaced(simulation: Simulation, target: Target, task: Task) -> Ranking | None:
    """The ranking of nodes that the placed Pod would get if it were pending now."""
    if not task.node or task.status in _ENDING:
        return None
    trial = simulation.fork()
    raw = trial.cluster.server.find(POD, task.namespace, task.name)
    if raw is None:
        return None
    spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
    meta = raw["metadata"]
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in TASK_ANNOTATIONS}
    pending = {**raw, "metadata": {**meta, "annotations": annotations}, "spec": spec, "status": {"phase": "Pending"}}
    trial.cluster.server.update(POD, task.namespace, task.name, pending)
    session = TracedSession(trial.snapshot(), trial.configuration, about=target.job)
    open_plugins(session)
    job = session.jobs[target.job]
    pending_task = job.of(TaskStatus.PENDING).get(task.uid)
    return None if pending_task is None else rank(session, job, pending_task, chosen=task.node)


# --- waiting Pods ---
@dataclass(slots=True)
class _Run:
    """The result of running sessions until nothing changes."""

    first: TracedSession
    """The first session."""
    last: TracedSession
    """The last session; nothing changes after it."""
    reached: int
    """The number of the session, from 1, that reached the goal; 0: none did."""
    ranking: Ranking | None
    """The nodes that one of its Pods was placed from."""


def _run_sessions(simulation: Simulation, target: Target, goal: Goal) -> _Run:
    sessions: list[TracedSession] = []
    """The first and the last."""
    reached, ranking = 0, None
    traced_session = partial(TracedSession, about=target.job, pod=target.pod)
    for number in range(1, MAX_CYCLES + 1):
        changed = simulation.cycle(traced_session)
        session = simulation.last.session if simulation.last is not None else None
        assert isinstance(session, TracedSession)
        sessions = [*sessions[:1], session]
        if goal.reached(session) and not reached:
            reached = number
            ranking = next(iter(session.rankings.values()), None)
        elif not goal.reached(session):
            reached = 0
        if not changed:
            break
    return _Run(sessions[0], sessions[-1], reached, ranking)


def _report(result: Explanation, simulation: Simulation, run: _Run, goal: Goal, target: Target) -> None:
    session = run.last
    job = session.jobs.get(target.job)
    result.problems = run.first.problems
    if run.reached:
        result.outlook = Outlook.STARTS
        result.ranking = run.ranking
        gets = "it is admitted to its queue"
        if job is None or job.size:
            gets = "it gets its node" if target.pod else "it gets its nodes"
        more = run.reached - 1
        result.state = f"{gets} in the session after {more} more" if more else f"{gets} in the next session"
        before = run.first.jobs.get(target.job)
        if run.reached > 1 and before is not None:
            result.gates = gates(run.first, before, goal)
            result.queue_position = queue_position(run.first, before)
        result.alternatives = alternatives_of(job, None) if job is not None else ()
        return
    if job is None:
        result.state = "its PodGroup is gone before it gets a node"
        return
    _describe(result, job)
    missing = session.job_missing(job)
    goal = replace(goal, required=job.ready_count + missing if missing else 0)
    result.needed = max(job.min_member, goal.required)
    result.placeable = placeable(job)
    result.queue_position = queue_position(session, job)
    result.gates = sorted_gates([*refused_pods(simulation.cluster.server, target.job), *gates(session, job, goal)])
    result.queues = queue_amounts(session, job)
    result.alternatives = alternatives_of(job, session)
    what = "it has no node" if target.pod else f"{job.ready_count} of the {goal.needed(job)} Pods needed have a node"
    result.pipelined = _is_pipelined(session, job, goal)
    result.state = f"{what}, and as things are that does not change"
    if result.pipelined:
        gets = "one" if target.pod else "the others" if job.ready_count else "them"
        result.state = f"{what}; it gets {gets} when Pods that terminate are gone"
    evidence = Evidence(simulation.cluster.server, session, job, goal, result.gates)
    with evidence.unplaced_tasks() as unplaced:
        if unplaced:
            result.nodes = groups(session, job, unplaced[0].cls)
            result.resizing = resized_pods(simulation.cluster.server, result.nodes)
            reasons = {reason for nodes in result.nodes for reason in nodes.reasons}
            result.gates = sorted_gates([*result.gates, *pod_details_of(session, unplaced[0], job, reasons)])
    wanted = evidence.wanted
    if wanted and not unplaced:
        result.ranking = rank(session, job, wanted[0])


def _is_pipelined(session: TracedSession, job: Job, goal: Goal) -> bool:
    """Whether the Pods that the goal lacks have places that terminating Pods still hold."""
    pipelined = job.of(TaskStatus.PIPELINED).values()
    if goal.pod:
        return any(task.key == goal.pod for task in pipelined)
    enough = job.ready_count + len(pipelined) >= goal.needed(job)
    return bool(pipelined) and enough and session.job_pipelined(job)


def _describe(result: Explanation, job: Job) -> None:
    result.queue, result.priority, result.phase = job.queue, job.priority, job.phase or "Pending"
    result.needed, result.size, result.placed = job.min_member, job.size, job.ready_count
