"""Whether jobs would run if they were submitted now: admission, quota, nodes, and whether they would ever fit.

Each job is submitted to a cluster in memory, in order, and sees the jobs before it. Traced sessions decide, as for
``explain``, so the reasons are those of the scheduler. A job that waits is submitted to the cluster without its
workloads, too: if it waits there, the end of other jobs does not help.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from enum import Enum
from functools import reduce
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.api import kinds
from scheduler.api.job import INQUEUE, Job
from scheduler.api.kinds import POD_GROUP, QUEUE, VCJOB
from scheduler.api.names import CARD_ALTERNATIVE, CARD_GANGS
from scheduler.api.resource import PODS_INDEX, Vector
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.simulation import MAX_CYCLES
from scheduler.cluster.memory.submission import as_submitted, exists, submit
from scheduler.explain.explaining import explain
from scheduler.explain.explanation import Explanation, NotFoundError, Outlook
from scheduler.explain.queues import queue_amounts
from scheduler.explain.submitted import Submitted
from scheduler.explain.target import asks_for_no_pods, find_target
from scheduler.explain.traced_session import TracedSession
from scheduler.framework.cycle import open_plugins
from scheduler.framework.figures import UsageByQueue
from scheduler.framework.remedies.gates import GateKind
from scheduler.framework.statement import AllocationError, Statement

_RUNNING: Final = (Outlook.PLACED, Outlook.STARTS)
_WHOLE: Final = (kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.BATCH_JOB)
"""Kinds without a minimum: they run when all their Pods have a node."""
_LIFTED: Final = frozenset({GateKind.GATES, GateKind.OWNER, GateKind.GANG, GateKind.PIPELINED})
"""Gates that do not say whether an empty cluster has room, unless amounts are short, as under a ResourceQuota."""


class Verdict(Enum):
    """What happens to a job that is submitted now."""

    RUNS = "runs"
    """It gets its nodes now, perhaps from Pods that are evicted for it."""
    WAITS = "waits"
    """It gets its nodes when other jobs have ended."""
    NEVER = "never"
    """It does not get its nodes even on an empty cluster: the job, its queue or the nodes have to change."""


class AskedAmounts(msgspec.Struct, frozen=True):
    """What a job asks for of one resource or card, and what its queue, or a queue above it, has. In the units of
    vectors."""

    queue: str
    resource: str
    asked: float
    used: float
    """Without the job."""
    inqueue: float
    """What other admitted jobs of the queue still need for their minimum; known for cards."""
    limit: float | None
    """The capability or card quota; None: no limit."""
    deserved: float | None = None
    borrows: bool = False
    """Whether queues borrow the idle quota of others."""

    @property
    def within(self) -> bool:
        """Whether the limit of the queue itself is kept."""
        return self.excess <= 0

    @property
    def excess(self) -> float:
        """The amount beyond the limit; negative or 0 within it."""
        return float("-inf") if self.limit is None else self.asked + self.used + self.inqueue - self.limit


class RunAnswer(msgspec.Struct):
    """The answer about one job."""

    kind: str
    """The kind as submitted, such as ``CronJob``."""
    namespace: str
    name: str
    verdict: Verdict
    state: str
    """The verdict in one sentence."""
    refusal: str = ""
    """The words with which admission refuses the object."""
    admitted: bool = False
    """Whether it is admitted to its queue now."""
    pods: int = 0
    """The Pods that it asks for; of tasks that wait for other tasks, none."""
    needed: int = 0
    """Pods that must have a node at the same time."""
    find_node: int = 0
    """Pods for which there is a node now, whatever the quota is."""
    placed: int = 0
    """Pods that get a node."""
    amounts: list[AskedAmounts] = msgspec.field(default_factory=list)
    evictions: int = 0
    """The number of Pods that are evicted for it."""
    evicted: tuple[str, ...] = ()
    """Keys of these Pods."""
    fits_empty: bool | None = None
    """Whether it would run on an empty cluster, with the quotas as they are. None: not known."""
    now: Explanation | None = None
    empty: Explanation | None = None
    """The explanation on the empty cluster, if it waits now."""


def can_run(simulation: Simulation, beside: Sequence[Manifest], jobs: Sequence[Submitted]) -> list[RunAnswer]:
    """The answers about jobs, which are submitted to the simulation. ``beside``: objects that are created before them.
    Raises ManifestError if one of these is invalid, or if a Job of Kubernetes has the name of a vcjob."""
    server = simulation.cluster.server
    known = [manifest for manifest in beside if manifest.kind is not None]  # of the others nothing depends
    new = [each for each in known if not exists(server, each)]
    for manifest in known:
        if exists(server, manifest):
            submit(simulation.cluster, manifest)
    simulation.change([as_submitted(manifest) for manifest in new])
    for _ in range(MAX_CYCLES):  # waiting jobs that find nodes now are before the new ones
        if not simulation.cycle():
            break
    return [_answer(simulation, job) for job in jobs]


def _answer(simulation: Simulation, job: Submitted) -> RunAnswer:
    """Raises ManifestError."""
    answer = RunAnswer(job.kind_name, job.namespace, job.submitted_name, Verdict.NEVER, "")
    if job.kind is kinds.BATCH_JOB and simulation.cluster.server.find(VCJOB, job.namespace, job.name) is not None:
        where = f"namespace {job.namespace}"
        raise ManifestError(f"{job.kind_name} {job.name}: a vcjob in {where} has this name: ask with another name")
    before = _opened(simulation.branch(), "").usage_by_queue()
    try:
        _submit(simulation, job)
        counted = _counted(simulation, job, before)
        evictions = len(simulation.evictions)
        found = _explained(simulation, job)
    except (ManifestError, NotFoundError) as error:  # also of Pods from a malformed template
        return replace(answer, refusal=str(error), state="it is refused")
    end = simulation.snapshot().jobs.get(found.group)
    answer.now, answer.state, answer.amounts = found, found.state, counted.amounts
    answer.amounts += _short(found, {(its.queue, its.resource) for its in counted.amounts})
    answer.admitted = end is not None and not end.waiting_for_queue
    answer.pods = counted.pods if end is None or not end.size else end.size
    answer.placed = 0 if end is None else end.ready_count
    answer.find_node = max(counted.find_node, answer.placed)
    answer.needed = answer.pods if job.kind in _WHOLE else max(found.needed, 1)
    answer.evicted = tuple(dict.fromkeys(each.task.key for each in simulation.evictions[evictions:]))
    answer.evictions = len(answer.evicted)
    if found.outlook in _RUNNING:
        answer.verdict, answer.fits_empty = Verdict.RUNS, True
    elif found.outlook is Outlook.WAITS:
        _judge_waiting(simulation, job, answer)
    return answer


def _submit(simulation: Simulation, job: Submitted) -> None:
    """Raises ManifestError."""
    cluster = simulation.cluster
    if job.checked is not None and job.checked.kind is not None:
        cluster.admitted(job.checked.kind, job.checked.raw)
    for manifest in job.manifests:
        submit(cluster, manifest)


def _explained(simulation: Simulation, job: Submitted) -> Explanation:
    """The explanation of a submitted job, once nothing changes any more."""
    found = explain(simulation, job.word, job.namespace, job.name, search=False)
    if job.kind in _WHOLE and found.outlook in _RUNNING:
        again = explain(simulation, job.word, job.namespace, job.name, search=False)
        return again if again.outlook is Outlook.WAITS else found
    return found


def _judge_waiting(simulation: Simulation, job: Submitted, answer: RunAnswer) -> None:
    """Completes the answer about a job that waits."""
    answer.verdict = Verdict.WAITS
    server, last = simulation.cluster.server, job.manifests[-1]
    raw = server.find(job.kind, job.namespace, job.name) or last.raw
    if answer.now is None or asks_for_no_pods(raw):
        return
    if answer.now.pipelined:
        answer.fits_empty = True
        return
    empty = simulation.without_workloads()
    try:
        _submit(empty, job)
        found = answer.empty = _explained(empty, job)
    except (ManifestError, NotFoundError):
        return
    if found.outlook in _RUNNING:
        answer.fits_empty = True
    elif any(gate.kind not in _LIFTED or gate.shortages for gate in found.gates):
        answer.verdict, answer.fits_empty = Verdict.NEVER, False


# --- what it asks for, and what there is ---
class _Counted(msgspec.Struct):
    pods: int = 0
    find_node: int = 0
    amounts: list[AskedAmounts] = msgspec.field(default_factory=list)


def _counted(simulation: Simulation, job: Submitted, before: UsageByQueue) -> _Counted:
    """Counts the Pods of a submitted job, which may be admitted or not, before any session. ``before``: the usage of
    queues without it."""
    trial = simulation.branch()
    trial.run_controllers()
    try:
        key = find_target(trial.cluster, job.word, job.namespace, job.name).job
    except NotFoundError:
        return _Counted()
    waiting = trial.snapshot().jobs.get(key)
    if waiting is not None and not waiting.size:  # its Pods are created when it is admitted
        body: dict[str, object] = {"status": {"phase": INQUEUE}}
        if CARD_GANGS in waiting.annotations:
            body["metadata"] = {"annotations": {CARD_ALTERNATIVE: _chosen(simulation, key)}}
        trial.cluster.server.patch(POD_GROUP, waiting.namespace, waiting.name, body)
        trial.run_controllers()
    session = _opened(trial, key)
    its = session.jobs.get(key)
    if its is None:
        return _Counted()
    return _Counted(its.size, its.ready_count + _places(session, its), list(_amounts(session, its, before)))


def _chosen(simulation: Simulation, key: str) -> str | None:
    """The alternative that the next session chooses for a job; None: it is admitted with none."""
    trial = simulation.branch()
    trial.cycle()
    job = trial.snapshot().jobs.get(key)
    return None if job is None else job.annotations.get(CARD_ALTERNATIVE)


def _opened(simulation: Simulation, about: str) -> TracedSession:
    session = TracedSession(simulation.snapshot(), simulation.configuration, about=about)
    open_plugins(session)
    return session


def _places(session: TracedSession, job: Job) -> int:
    """The number of pending Pods for which there is a node now, whatever the quota is."""
    before, statement, found = dict(job.transaction), Statement(session), 0
    classes: dict[TaskClass, list[Task]] = {}
    for task in job.of(TaskStatus.PENDING).values():
        if not task.gated:
            classes.setdefault(task.cls, []).append(task)
    try:
        for cls, tasks in classes.items():
            done = 0
            while done < len(tasks) and (rows := session.view(cls, job).choose(len(tasks) - done)):
                found += len(rows)
                try:
                    statement.allocate(job, tasks[done : done + len(rows)], rows)
                except AllocationError:  # a quota refuses: there are nodes nevertheless
                    break
                done += len(rows)
        return found
    finally:
        statement.discard()
        job.transaction.clear()
        job.transaction.update(before)


def _amounts(session: TracedSession, job: Job, before: UsageByQueue) -> Iterator[AskedAmounts]:
    """The amounts of the resources and cards that the job asks for and that its queue, or one above it, limits."""
    asked = _requests(session, job)
    for its in queue_amounts(session, job):
        if its.requested is None:
            amount = asked.get(its.resource, 0.0)
            if amount > 0 and (its.capability is not None or its.deserved is not None):
                yield AskedAmounts(its.queue, its.resource, amount, its.limited, 0.0, its.capability, its.deserved)
            continue
        usage = before.get(its.queue, {}).get(its.resource)
        used, inqueue, requested = (0.0, 0.0, 0.0) if usage is None else (usage.used, usage.inqueue, usage.requested)
        if its.requested > requested:
            yield AskedAmounts(
                its.queue, its.resource, its.requested - requested, used, inqueue, its.capability,
                borrows=its.borrowed is not None,
            )  # fmt: skip


def _short(found: Explanation, known: Container[tuple[str, str]]) -> list[AskedAmounts]:
    """The amounts that a queue refuses to a job, such as the cards that a PodGroup announces before its Pods exist.
    ``known``: queues and resources that are counted already."""
    all_short = (each for gate in found.gates for each in gate.shortages if each.kind == QUEUE.name)
    short = {(each.name, each.resource): each for each in all_short if (each.name, each.resource) not in known}
    return [
        AskedAmounts(queue, resource, each.asked, each.used, 0.0, each.limit)
        for (queue, resource), each in short.items()
    ]


def _requests(session: TracedSession, job: Job) -> Mapping[str, float]:
    """Resource -> what the Pods of the job request, as far as it counts against the limits of its queue."""
    total: Vector = job.pending if job.min_resources is None else np.maximum(job.pending, job.min_resources)
    found = dict(zip(session.dimensions.names, total.tolist(), strict=False))
    partly = {name for one in session.figures() for name in one.counted.get(job.queue, ())}
    if partly:  # of Pods with extended resources, such as cards, these resources are not counted
        plain = [task.cls.request for task in job.of(TaskStatus.PENDING).values() if not _has_devices(task.cls)]
        counted = reduce(np.add, plain, session.dimensions.zeros())
        found |= {name: float(counted[session.dimensions.names.index(name)]) for name in partly}
    return found


def _has_devices(cls: TaskClass) -> bool:
    return bool(np.any(cls.request[PODS_INDEX + 1 :] > 0))
