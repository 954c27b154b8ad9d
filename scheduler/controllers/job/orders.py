"""From what happened to what is to be done: requests become orders, at once or after a while."""

from scheduler.api import batch
from scheduler.api.batch import Action, JobEvent
from scheduler.api.duration import format_duration
from scheduler.controllers.job.blueprint import Blueprint
from scheduler.controllers.job.census import PENDING, RUNNING, SUCCEEDED, Member, restarts
from scheduler.controllers.job.events import Request
from scheduler.controllers.job.memory import Memory, Order
from scheduler.controllers.job.phases import TARGETED
from scheduler.controllers.job.policies import first_policy

Members = dict[str, Member]


def take_requests(
    memory: Memory, job: batch.Job, blueprint: Blueprint, members: Members, group_uid: str, now: float
) -> list[str]:
    """Turn what happened since the last look, and delays that are over, into orders. What is to be told of new delays.
    ``group_uid``: of the PodGroup, "" if there is none."""
    told = []
    requests, memory.requests = memory.requests, []
    for request in requests:
        if request.pod:
            memory.delays.overtaken(request)
        if _is_past(request, job, blueprint, members, group_uid) or not _holds(request, blueprint, members):
            continue
        task = blueprint.tasks.get(request.task)
        policy = first_policy(request.event, request.exit_code, task.policies if task else (), blueprint.policies)
        if policy is None or policy.action is Action.SYNC_JOB:
            continue
        if policy.timeout is None:
            memory.add(Order(policy.action, request))
        elif memory.delays.add(policy.action, request, request.since + policy.timeout):
            told.append(f"Execute action {policy.action} after {format_duration(policy.timeout)}")
    for delayed in memory.delays.take_due(now):
        memory.add(Order(delayed.action, delayed.request))
    memory.orders = [
        order
        for order in memory.orders
        if order.request is None or not _is_past(order.request, job, blueprint, members, group_uid)
    ]
    return told


def next_order(memory: Memory) -> Order | None:
    """The order to carry out now. One that concerns the whole job goes first: it makes the others needless."""
    whole = (order for order in memory.orders if order.action not in TARGETED)
    return next(whole, memory.orders[0] if memory.orders else None)


def _is_past(request: Request, job: batch.Job, blueprint: Blueprint, members: Members, group_uid: str) -> bool:
    """Whether it is about something that an action has dealt with since, or that is not the job's any more."""
    if request.job_uid != job.metadata.uid:
        return True
    if request.group_uid:
        return request.group_uid != group_uid
    if request.version is not None and request.version < job.status.version:
        return True
    if request.pod and request.pod not in blueprint.slots:
        return True
    member = members.get(request.pod)
    here = member is not None and member.pod.metadata.uid == request.pod_uid
    if request.event is JobEvent.POD_PENDING:
        return member is None or not here or member.deleting or member.phase != PENDING
    return False


def _holds(request: Request, blueprint: Blueprint, members: Members) -> bool:
    """Whether what is said of a task is so: every one of its Pods succeeded, or its containers were restarted too
    often."""
    task = blueprint.tasks.get(request.task)
    if request.event is JobEvent.TASK_COMPLETED:
        done = sum(m.task == request.task and m.phase == SUCCEEDED and not m.out_of_sync for m in members.values())
        return task is not None and 0 < task.replicas <= done
    if request.event is JobEvent.TASK_FAILED:
        if task is None or task.max_restarts < 0:
            return False
        alive = [m for m in members.values() if m.task == request.task and m.phase in (RUNNING, PENDING)]
        return sum(restarts(m.pod) for m in alive) >= task.max_restarts
    return True
