"""From a simulated cluster and a name to an explanation: look on while it is scheduled, then ask, then try changes."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from scheduler.api.job import Job
from scheduler.api.kinds import POD
from scheduler.api.names import TASK_ANNOTATIONS
from scheduler.api.task import READY_STATUSES, Task, TaskStatus
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.index import group_of
from scheduler.cluster.memory.simulation import MAX_CYCLES
from scheduler.explain.changes import Evidence
from scheduler.explain.explanation import Explanation, Outlook, Ranking
from scheduler.explain.gates import gates, in_order, placeable
from scheduler.explain.nodes import groups
from scheduler.explain.scores import rank
from scheduler.explain.search import smallest_changes
from scheduler.explain.target import Goal, Target, ended, find_target, goal_of
from scheduler.explain.turn import queue_numbers, turn
from scheduler.explain.witness import Witness
from scheduler.framework.opening import open_plugins
from scheduler.framework.remedies.gates import Gate, Held
from scheduler.framework.remedies.registry import pod_details_of

Raw = dict[str, Any]
_GONE: Final = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.RELEASING})


def explain(simulation: Simulation, kind: str, namespace: str, name: str, *, search: bool = True) -> Explanation:
    """``kind``: pod, podgroup or job. The simulation goes on until it has come to rest. ``search``: whether to look for
    changes that would let it run. Raises NotThereError."""
    simulation.run_controllers()
    target = find_target(simulation.cluster, kind, namespace, name)
    jobs = simulation.snapshot().jobs
    job = jobs.get(target.job)
    result = Explanation(kind, namespace, name, Outlook.WAITS, "", group=target.job)
    why = _out_of_question(simulation, target, job)
    if why is not None:
        result.outlook, result.state, result.gates = why
        return result
    assert job is not None
    _describe(result, job)
    held = _placed_task(job, target)
    goal = goal_of(target, job)
    if held is not None and (target.pod or goal.met(job)):
        result.outlook, result.state = Outlook.PLACED, _has(job, goal, held if target.pod else None)
        result.ranking = _as_if_unplaced(simulation, target, held)
        return result
    course = _follow(simulation, target, goal)
    _report(result, simulation, course, goal, target)
    if result.outlook is Outlook.WAITS and search:
        result.searched = True
        result.changes = smallest_changes(simulation, goal, target.pod)
    return result


# --- what is no question of scheduling ---
def _out_of_question(simulation: Simulation, target: Target, job: Job | None) -> tuple[Outlook, str, list[Gate]] | None:
    """Outlook, state and gates of what no session can help; None: it is a question of scheduling."""
    cluster = simulation.cluster
    raw = cluster.get(target.kind.api_version, target.kind.name, target.namespace, target.name) or {}
    phase = ended(raw)
    if phase:
        return Outlook.ENDED, f"it is {phase}", []
    if (raw.get("metadata") or {}).get("deletionTimestamp"):
        return Outlook.ENDED, "it terminates", []
    strange = _strangers(simulation, target, raw)
    if strange and (job is None or not job.by_status or target.pod):
        ours = ", ".join(simulation.scheduler_names)
        return Outlook.LEFT_ALONE, f"its schedulerName is {strange}, and this scheduler answers to {ours}", []
    if job is None:
        state = ((raw.get("status") or {}).get("state") or {}).get("phase", "")
        what = f"it is {state} and " if state else ""
        message = f"{what}has no PodGroup, so there is nothing to schedule"
        return Outlook.WAITS, message, [Gate(Held.OWNER, message)]
    if not job.size and not job.waiting_for_queue:
        message = "it has been let into its queue and has no Pods: whoever is to make them has not"
        return Outlook.WAITS, message, [Gate(Held.OWNER, message)]
    return None


def _strangers(simulation: Simulation, target: Target, raw: Raw) -> str:
    """The name of another scheduler that waiting Pods are left to, or ""."""
    pods = [raw] if target.pod else simulation.cluster.server.by_index(POD, group_of, target.job)
    names = {
        str(pod["spec"].get("schedulerName") or "default-scheduler") for pod in pods if not pod["spec"].get("nodeName")
    }
    return next(iter(sorted(names - set(simulation.scheduler_names))), "")


# --- what is placed ---
def _placed_task(job: Job, target: Target) -> Task | None:
    """The Pod asked about if it has a node; of a gang any Pod that has."""
    for status in READY_STATUSES:
        for task in job.of(status).values():
            if target.pod in ("", task.key):
                return task
    return None


def _has(job: Job, goal: Goal, task: Task | None) -> str:
    if task is not None:
        return f"it has node {task.node}" if task.node else "it has done its work"
    return f"{job.ready_count} Pods have a node, {goal.least(job)} are needed at once"


def _as_if_unplaced(simulation: Simulation, target: Target, task: Task) -> Ranking | None:
    """What the Pod would choose from today, were it to be placed today."""
    if not task.node or task.status in _GONE:
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
    session = Witness(trial.snapshot(), trial.configuration, about=target.job)
    open_plugins(session)
    job = session.jobs[target.job]
    again = job.of(TaskStatus.PENDING).get(task.uid)
    return None if again is None else rank(session, job, again, chosen=task.node)


# --- what waits ---
@dataclass(slots=True)
class _Course:
    """What became of it."""

    first: Witness
    """The session as things are."""
    last: Witness
    """The session after which nothing changes any more."""
    reached: int
    """In which session, from 1, it got its nodes; 0: in none."""
    ranking: Ranking | None
    """What a node of it was chosen from."""


def _follow(simulation: Simulation, target: Target, goal: Goal) -> _Course:
    sessions: list[Witness] = []
    """The first and the last."""
    reached, ranking = 0, None
    witness = partial(Witness, about=target.job, pod=target.pod)
    for number in range(1, MAX_CYCLES + 1):
        changed = simulation.cycle(witness)
        session = simulation.last.session if simulation.last is not None else None
        assert isinstance(session, Witness)
        sessions = [*sessions[:1], session]
        if goal.reached(session) and not reached:
            reached = number
            ranking = next(iter(session.rankings.values()), None)
        elif not goal.reached(session):
            reached = 0
        if not changed:
            break
    return _Course(sessions[0], sessions[-1], reached, ranking)


def _report(result: Explanation, simulation: Simulation, course: _Course, goal: Goal, target: Target) -> None:
    session = course.last
    job = session.jobs.get(target.job)
    if course.reached:
        result.outlook = Outlook.STARTS
        result.ranking = course.ranking
        when = "the next session" if course.reached == 1 else f"the session after {course.reached - 1} more"
        gets = f"gets its node{'s' * (not target.pod)}" if job is None or job.size else "is let into its queue"
        result.state = f"it {gets} in {when}"
        before = course.first.jobs.get(target.job)
        if course.reached > 1 and before is not None:
            result.gates = gates(course.first, before, goal)
            result.turn = turn(course.first, before)
        return
    if job is None:
        result.state = "its PodGroup is gone before it gets a node"
        return
    _describe(result, job)
    result.placeable = placeable(job)
    result.turn = turn(session, job)
    result.gates = gates(session, job, goal)
    result.queues = queue_numbers(session, job)
    what = "it has no node" if target.pod else f"{job.ready_count} of the {goal.least(job)} Pods needed have a node"
    result.state = f"{what}, and as things are that does not change"
    evidence = Evidence(simulation.cluster.server, session, job, goal, result.gates)
    with evidence.crowded() as left:
        if left:
            result.nodes = groups(session, job, left[0].cls)
            reasons = {reason for nodes in result.nodes for reason in nodes.reasons}
            result.gates = in_order([*result.gates, *pod_details_of(session, left[0], job, reasons)])
    wanted = evidence.wanted
    if wanted and not left:
        result.ranking = rank(session, job, wanted[0])


def _describe(result: Explanation, job: Job) -> None:
    result.queue, result.priority, result.phase = job.queue, job.priority, job.phase or "Pending"
    result.needed, result.size, result.placed = job.min_member, job.size, job.ready_count
