"""Decides the restarts of a job: pure functions of its Pods, their faults, its policy, and its latest restart.

A restart is recorded first, and its Pods are deleted only once the record has been read back. The Pods to delete always
follow from the record and the existing Pods, so a scheduler may be killed at any moment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.api.job import Job
from scheduler.api.names import BACKUP_NEW_POD, NEED_VOLCANO_OPE, POD_STATUS
from scheduler.api.task import ALLOCATED_STATUSES, FINISHED_STATUSES, Task, TaskStatus
from scheduler.plugins.ascend.rescheduling.policy import RestartPolicy, RestartScope, RestartStrategy, SubHealth
from scheduler.plugins.ascend.rescheduling.state import Entry, Extent, Restart, owner_of

NODE_UNHEALTHY: Final = "NodeUnhealthy"
CARD_UNHEALTHY: Final = "CardUnhealthy"
POD_FAILED: Final = "pod-failed"
SOFTWARE: Final = "SoftwareFault"
RELATION: Final = "RelationFault"
SUB_HEALTH: Final = "SubHealthFault"
"""Kinds of faults."""
MAX_REASONS: Final = 10
"""Number of faulty Pods that the history of a job names for one restart."""
MAX_EXTENTS: Final = 10
"""The number of latest restarts of a job whose extent (number of Pods) is kept."""
MAX_NAMES: Final = 3
"""Number of Pods that are named for a restart of some Pods."""
BLOCK_PATIENCE: Final = 6.0
JOB_PATIENCE: Final = 12.0
"""Seconds for which the replacement of a single Pod waits for a node until the other Pods of its logical super pod, and
until all Pods of the job, restart too."""
REPEAT: Final = 5.0
"""Seconds after which a deletion without grace period is repeated for a Pod that still exists."""
_RUNNING: Final = frozenset({"Running", "Unknown"})
"""Phases of PodGroups whose Pods have been started together."""
_WORKER: Final = "Worker"
REPLICA_TYPE: Final = "replica-type"


class Fault(NamedTuple):
    """Why a Pod does not work."""

    kind: str
    detail: str
    """The reason, for users: ``chip Ascend910-3 is unhealthy``."""


class Deletion(NamedTuple):
    task: Task
    grace_period: int | None
    """The grace period of the deletion, as in ``decisions.Evict``."""


class Next(NamedTuple):
    restart: Restart | None
    retries: int


def next_restart(
    job: Job, faults: Mapping[str, Fault], policy: RestartPolicy, last: Restart | None, retries: int, now: float
) -> Next:
    """Returns the restart of a job that is to be recorded, and the retries that remain.

    ``faults``: uid of a Pod -> its fault. ``last``: the recorded restart; it is returned if there is nothing new.
    """
    live = {task.uid: task for task in job.tasks()}
    listed = {entry.uid for entry in last.pods} if last is not None else set()
    new = {uid: fault for uid, fault in faults.items() if uid in live and uid not in listed}
    if retries <= 0:
        new = {uid: fault for uid, fault in new.items() if fault.kind != POD_FAILED}
    if new and job.phase in _RUNNING:
        restart = _restart(job, live, new, policy, last, now)
        failed = all(fault.kind == POD_FAILED for fault in new.values())
        return Next(restart, retries - 1 if failed else retries)
    if last is None or not last.pods:
        return Next(last, retries)
    if policy.scope is RestartScope.POD and not last.external and not listed & live.keys():
        grown = _grown(job, live, last, now)
        if grown is not None:
            return Next(grown, retries)
    return Next(replace(last, pods=()) if _has_resumed(live.values(), last) else last, retries)


def deletions(
    tasks: Iterable[Task], restart: Restart, now: float, grace_over_time: float, is_reachable: Callable[[str], bool]
) -> list[Deletion]:
    """Returns those of the Pods of a job that a recorded restart deletes now. ``is_reachable``: whether a node has a
    kubelet that stops its Pods. Where it has none, a grace period would never end."""
    if restart.external:
        return []
    listed = {entry.uid for entry in restart.pods}
    age = now - restart.time
    result = []
    for task in tasks:
        if task.uid not in listed or task.status is TaskStatus.BINDING:
            continue
        force = restart.force or age > grace_over_time or not (task.node and is_reachable(task.node))
        if task.status is TaskStatus.RELEASING:
            if force and age > REPEAT:
                result.append(Deletion(task, 0))
        else:
            result.append(Deletion(task, 0 if force or task.status in FINISHED_STATUSES else None))
    return result


def marks(job: Job, restart: Restart) -> list[tuple[Task, str]]:
    """Returns the Pods of a recorded restart whose annotation ``POD_STATUS`` is to be written now, and its value."""
    if not restart.external:
        return []
    kinds = {entry.uid: entry.fault for entry in restart.pods}
    marked = ((task, f"Unhealthy-{kinds[task.uid]}") for task in job.tasks() if task.uid in kinds)
    return [(task, value) for task, value in marked if task.fault_marks.get(POD_STATUS) != value]


def remaining(job: Job, restart: Restart) -> int:
    """Returns the number of Pods of a restart that still exist."""
    listed = {entry.uid for entry in restart.pods}
    return sum(1 for task in job.tasks() if task.uid in listed)


def matters(fault: Fault, task: Task, policy: RestartPolicy) -> bool:
    """Whether a fault of its node concerns a Pod: hardware that works with restrictions does not, unless the job says
    so; for ``hotSwitch``, once ClusterD requests the deletion."""
    if fault.kind != SUB_HEALTH:
        return True
    if policy.sub_health is SubHealth.HOT_SWITCH:
        return task.fault_marks.get(NEED_VOLCANO_OPE) == "delete"
    return policy.sub_health is not SubHealth.IGNORE


def has_backup(task: Task, tasks: Iterable[Task]) -> bool:
    """Whether a Pod has a backup on a node, which replaces it once it is deleted. ``tasks``: the Pods of the job."""
    name = task.fault_marks.get(BACKUP_NEW_POD)
    return name is not None and any(each.name == name and each.status in ALLOCATED_STATUSES for each in tasks)


def is_forced(policy: RestartPolicy, faults: Iterable[Fault]) -> bool:
    """Whether the Pods are deleted without a grace period."""
    if all(fault.kind == SUB_HEALTH for fault in faults):
        return policy.sub_health in (SubHealth.FORCE_EXIT, SubHealth.HOT_SWITCH)
    return policy.strategy is RestartStrategy.FORCE


def _restart(
    job: Job,
    live: Mapping[str, Task],
    faults: Mapping[str, Fault],
    policy: RestartPolicy,
    last: Restart | None,
    now: float,
) -> Restart:
    whole = policy.scope is RestartScope.JOB and not policy.strategy.external
    if not policy.strategy.external and policy.scope in (RestartScope.POD, RestartScope.PROCESS):
        whole = any(_is_master(live[uid]) for uid in faults)
    if all(fault.kind == SUB_HEALTH and has_backup(live[uid], live.values()) for uid, fault in faults.items()):
        whole = False
    victims = [task for task in live.values() if task.node] if whole else [live[uid] for uid in faults]
    entries = [_entry(task, faults.get(task.uid)) for task in victims]
    kept = _unfinished(last, entries, live)
    reasons = [_entry(live[uid], fault, uid="") for uid, fault in faults.items()]
    force = is_forced(policy, faults.values())
    if last is not None and any(entry.uid in live for entry in kept):
        whole, force = whole or last.whole, force or last.force
    return Restart(
        uid=owner_of(job),
        number=1 if last is None else last.number + 1,
        time=int(now),
        force=force,
        whole=whole,
        external=policy.strategy.external,
        pods=(*kept, *sorted(entries, key=_name)),
        reasons=tuple(sorted(reasons, key=_name)[:MAX_REASONS]),
        extents=_extents(live, victims, last),
    )


def _unfinished(last: Restart | None, entries: Iterable[Entry], live: Mapping[str, Task]) -> list[Entry]:
    """Returns the Pods of the last restart that still exist, or have no replacement on a node and are not in
    ``entries`` under the same name or rank."""
    names = {entry.name for entry in entries} | {task.name for task in live.values() if task.node}
    ranks = {entry.rank for entry in entries if entry.rank} | {task.rank for task in live.values() if task.node}
    known = {entry.uid for entry in entries}
    return [
        entry
        for entry in (last.pods if last is not None else ())
        if entry.uid not in known and (entry.uid in live or (entry.name not in names and entry.rank not in ranks))
    ]


def _grown(job: Job, live: Mapping[str, Task], last: Restart, now: float) -> Restart | None:
    """Returns the restart of more Pods, if the replacements of single Pods have waited too long; None if they have
    not."""
    names = {entry.name for entry in last.pods}
    waiting = [
        task
        for task in live.values()
        if task.status is TaskStatus.PENDING and (task.name in names or task.creation >= last.time)
    ]
    if last.whole or not waiting:
        return None
    waited = now - min(task.creation for task in waiting)
    blocks = {entry.block for entry in last.pods if entry.block}
    placed = [task for task in live.values() if task.node and task.status is not TaskStatus.RELEASING]
    if waited >= JOB_PATIENCE:
        victims, whole = placed, True
    elif waited >= BLOCK_PATIENCE and blocks:
        victims, whole = [task for task in placed if task.super_pod_rank in blocks], False
    else:
        return None
    if not victims:
        return None
    return replace(
        last,
        uid=owner_of(job),
        number=last.number + 1,
        time=int(now),
        whole=whole,
        pods=(*last.pods, *(_entry(task, None) for task in sorted(victims, key=_name))),
        extents=_extents(live, victims, last),
        gone=0,
    )


def _extents(live: Mapping[str, Task], victims: Sequence[Task], last: Restart | None) -> tuple[Extent, ...]:
    """Returns the extents of the latest restarts, with that of the next one. ``victims``: the Pods that it concerns."""
    number, before = (1, ()) if last is None else (last.number + 1, last.extents)
    whole = len(victims) >= sum(1 for task in live.values() if task.node)
    names = () if whole else tuple(sorted(task.name for task in victims)[:MAX_NAMES])
    return (Extent(number, len(victims), whole, names), *before)[:MAX_EXTENTS]


def _has_resumed(live: Iterable[Task], last: Restart) -> bool:
    """Whether every Pod of the restart has a replacement on a node."""
    listed = {entry.uid for entry in last.pods}
    placed = [task for task in live if task.node and task.uid not in listed]
    names, ranks = {task.name for task in placed}, {task.rank for task in placed if task.rank}
    there = {task.uid for task in live}
    return all(
        entry.uid not in there and (not entry.rank or entry.name in names or entry.rank in ranks) for entry in last.pods
    )


def _is_master(task: Task) -> bool:
    """Whether the job cannot go on without this Pod."""
    return task.rank == "0" and task.labels.get(REPLICA_TYPE, "").lower() != _WORKER.lower()


def _name(each: Task | Entry) -> str:
    return each.name


def _entry(task: Task, fault: Fault | None, uid: str | None = None) -> Entry:
    return Entry(
        task.uid if uid is None else uid,
        task.name,
        task.node,
        task.rank,
        "" if fault is None else fault.kind,
        task.super_pod_rank,
    )
