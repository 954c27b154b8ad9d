"""Turns requests (what happened to a job) into pending actions, at once or after a delay."""

from scheduler.api import batch
from scheduler.api.batch import Action, JobEvent
from scheduler.api.times import format_duration
from scheduler.controllers.job.events import PolicyRequest
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.phases import TARGETED
from scheduler.controllers.job.pods import PENDING, RUNNING, SUCCEEDED, Member, restarts
from scheduler.controllers.job.policies import first_policy
from scheduler.controllers.job.state import PendingAction, ReconcileState

Members = dict[str, Member]


def take_requests(
    state: ReconcileState, job: batch.Job, parsed_spec: ParsedSpec, members: Members, group_uid: str, now: float
) -> list[str]:
    """Turns requests, and delays that are over, into pending actions. Returns the messages about new delays.
    ``group_uid``: of the PodGroup, "" if there is none."""
    messages = []
    requests, state.requests = state.requests, []
    for request in requests:
        if request.pod:
            state.delays.superseded(request)
        if _is_past(request, job, parsed_spec, members, group_uid) or not _holds(request, parsed_spec, members):
            continue
        task = parsed_spec.tasks.get(request.task)
        policy = first_policy(request.event, request.exit_code, task.policies if task else (), parsed_spec.policies)
        if policy is None or policy.action is Action.SYNC_JOB:
            continue
        if policy.timeout is None:
            state.add(PendingAction(policy.action, request))
        elif state.delays.add(policy.action, request, request.since + policy.timeout):
            messages.append(f"Execute action {policy.action} after {format_duration(policy.timeout)}")
    for delayed in state.delays.take_due(now):
        state.add(PendingAction(delayed.action, delayed.request))
    state.pending_actions = [
        pending
        for pending in state.pending_actions
        if pending.request is None or not _is_past(pending.request, job, parsed_spec, members, group_uid)
    ]
    # An eviction is often the cause of what happens to other Pods at the same time.
    state.pending_actions.sort(key=lambda pending: not pending.is_no_failure)
    return messages


def next_pending_action(state: ReconcileState) -> PendingAction | None:
    """The action to carry out now. One that concerns the whole job goes first, because it makes the others obsolete."""
    whole = (pending for pending in state.pending_actions if pending.action not in TARGETED)
    return next(whole, state.pending_actions[0] if state.pending_actions else None)


def _is_past(request: PolicyRequest, job: batch.Job, parsed_spec: ParsedSpec, members: Members, group_uid: str) -> bool:
    """Whether the request concerns something that an action has handled since, or that no longer belongs to the job."""
    if request.job_uid != job.metadata.uid:
        return True
    if request.group_uid:
        return request.group_uid != group_uid
    if request.version is not None and request.version < job.status.version:
        return True
    if request.pod and request.pod not in parsed_spec.slots:
        return True
    member = members.get(request.pod)
    here = member is not None and member.pod.metadata.uid == request.pod_uid
    if request.event is JobEvent.POD_PENDING:
        return member is None or not here or member.deleting or member.phase != PENDING
    return False


def _holds(request: PolicyRequest, parsed_spec: ParsedSpec, members: Members) -> bool:
    """Whether a request about a task is true: all its Pods succeeded, or its containers were restarted too often."""
    task = parsed_spec.tasks.get(request.task)
    if request.event is JobEvent.TASK_COMPLETED:
        there = [m for m in members.values() if m.task == request.task and not (m.out_of_sync or m.deleting)]
        done = sum(m.phase == SUCCEEDED for m in there)
        return task is not None and 0 < task.replicas <= done
    if request.event is JobEvent.TASK_FAILED:
        if task is None or task.max_restarts < 0:
            return False
        alive = [m for m in members.values() if m.task == request.task and m.phase in (RUNNING, PENDING)]
        return sum(restarts(m.pod) for m in alive) >= task.max_restarts
    return True
