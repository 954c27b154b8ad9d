"""Changes to the waiting job: its scheduling gates, minimum, network topology, queue and priority."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from scheduler.api.job import Job
from scheduler.api.kinds import POD, POD_GROUP, PRIORITY_CLASS, VCJOB
from scheduler.api.task import READY_STATUSES, TaskStatus
from scheduler.explain.changes.new_nodes import add_nodes
from scheduler.explain.changes.other_jobs import delete_others
from scheduler.explain.changes.queues import raise_limits
from scheduler.explain.changes.workloads import vcjob_of
from scheduler.explain.queues import queue_position
from scheduler.framework.remedies.adjustments import (
    Adjustment,
    ChangeKind,
    Edit,
    Plan,
    Raw,
    Step,
    indivisible,
    join_names,
)
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import GateKind
from scheduler.framework.remedies.registry import remedies_of

_MAX_CHILDREN: Final = 3
"""The number of child queues that are tried."""


def remove_scheduling_gates(evidence: Evidence) -> Iterator[Plan]:
    """Removes the scheduling gates of as many Pods as needed."""
    gated = [task for task in evidence.wanted if task.gated]
    if not gated:
        return

    def at(amount: int) -> Step:
        names = [task.name for task in gated[:amount]]
        text = f"remove the scheduling gates of {len(names)} Pod{'s' * (len(names) > 1)}: {join_names(names)}"
        return Step(text, tuple(Edit(POD, evidence.job.namespace, name, _without_gates) for name in names))

    yield (Adjustment(ChangeKind.GATES, len(gated), len(gated), at),)


def _without_gates(pod: Raw) -> Raw:
    pod["spec"]["schedulingGates"] = []
    return pod


def lower_minimum(evidence: Evidence) -> Iterator[Plan]:
    """Lowers the minimum of the gang or of a role that has fewer Pods than its minimum."""
    job = evidence.job
    there = job.ready_count + job.count(TaskStatus.PIPELINED, TaskStatus.PENDING)
    adjustments = []
    if 0 < there < job.min_member:
        change = partial(_with_minimum, job, there)
        adjustments.append(Adjustment(ChangeKind.MINIMUM, job.min_member - there, job.min_member - 1, change))
    counts = job.role_counts(*READY_STATUSES, TaskStatus.PIPELINED, TaskStatus.PENDING)
    for role, minimum in sorted(job.role_minimum.items()):
        if there and counts.get(role, 0) < minimum and job.enforces_role_minimum:
            change = partial(_with_role_minimum, job, role, counts.get(role, 0))
            adjustments.append(Adjustment(ChangeKind.MINIMUM, minimum - counts.get(role, 0), minimum, change, role))
    if adjustments:
        yield tuple(adjustments)


def _with_minimum(job: Job, there: int, amount: int) -> Step:
    minimum = job.min_member - amount
    text = f"lower minMember of PodGroup {job.key} from {job.min_member} to {minimum} (it has {there} Pods)"

    def lowered(group: Raw) -> Raw:
        group["spec"]["minMember"] = minimum
        return group

    return Step(text, (Edit(POD_GROUP, job.namespace, job.name, lowered),))


def _with_role_minimum(job: Job, role: str, there: int, amount: int) -> Step:
    before = job.role_minimum[role]
    text = (
        f"lower minTaskMember of task {role} of PodGroup {job.key} from {before} to {before - amount} (it has {there})"
    )

    def lowered(group: Raw) -> Raw:
        group["spec"]["minTaskMember"] = {**group["spec"]["minTaskMember"], role: before - amount}
        return group

    return Step(text, (Edit(POD_GROUP, job.namespace, job.name, lowered),))


def raise_highest_tier(evidence: Evidence) -> Iterator[Plan]:
    """Raises the highest tier of the network topology that the job allows."""
    job, topology = evidence.job, evidence.job.topology
    if topology is None or topology.highest_tier_allowed is None or not evidence.shortages("HyperNode"):
        return
    allowed, top = topology.highest_tier_allowed, evidence.session.hyper_nodes.top.tier

    def at(amount: int) -> Step:
        text = f"raise highestTierAllowed of PodGroup {job.key} from {allowed} to {allowed + amount}"
        return Step(text, (Edit(POD_GROUP, job.namespace, job.name, partial(_with_tier, tier=allowed + amount)),))

    if top > allowed:
        yield (Adjustment(ChangeKind.TOPOLOGY, 1, top - allowed, at),)


def _with_tier(group: Raw, tier: int) -> Raw:
    group["spec"]["networkTopology"] = {**(group["spec"].get("networkTopology") or {}), "highestTierAllowed": tier}
    return group


def move_to_child_queue(evidence: Evidence) -> Iterator[Plan]:
    """Moves the job to a child of its queue, where its own queue accepts no jobs."""
    job, queues = evidence.job, evidence.session.queues
    if not evidence.has_gate(GateKind.VALIDITY, GateKind.ENQUEUE):
        return
    children = [name for name, queue in sorted(queues.items()) if queue.parent == job.queue]
    for name in children[:_MAX_CHILDREN]:
        edit = Edit(POD_GROUP, job.namespace, job.name, partial(_with_queue, queue=name))
        step = Step(f"put PodGroup {job.key} into queue {name}, below {job.queue}", (edit,))
        yield (indivisible(ChangeKind.QUEUE_OF_JOB, step, name),)


def _with_queue(group: Raw, queue: str) -> Raw:
    group["spec"]["queue"] = queue
    return group


_HIGHEST: Final = 1_000_000_000
"""The highest priority of users; higher ones are reserved for the system."""
_FEW: Final = 2
"""Up to this many jobs before it in the queue, other changes serve them too."""
_EVICTING: Final = ("preempt", "gangpreempt")


def raise_priority(evidence: Evidence) -> Iterator[Plan]:
    """Raises the job to the priority of other jobs of its queue, or one above: values in between have the same
    effect."""
    adjustment = _priority(evidence)
    if adjustment is not None and any(map(evidence.session.configuration.has_action, _EVICTING)):
        yield (adjustment,)


def raise_priority_and_add(evidence: Evidence) -> Iterator[Plan]:
    """Raises the priority together with another plan, for a job behind many others, which would take what the plan
    adds."""
    adjustment, position = _priority(evidence), queue_position(evidence.session, evidence.job)
    if adjustment is None or position is None or len(position.before) <= _FEW:
        return
    quotas = [plans for kind, plans in remedies_of(evidence.session) if kind is ChangeKind.CARD_QUOTA]
    for added in (*quotas, raise_limits, add_nodes, delete_others):
        for plan in added(evidence):
            yield (adjustment, *(replace(other, shared=0) for other in plan))


def _priority(evidence: Evidence) -> Adjustment | None:
    session, job = evidence.session, evidence.job
    if "priority" not in evidence.plugins():
        return None
    others = {other.priority for other in session.jobs.values() if other.queue == job.queue and other is not job}
    steps = sorted({p for q in others for p in (q, q + 1) if job.priority < p <= _HIGHEST})
    if not steps:
        return None
    estimate = next((i for i, p in enumerate(steps, start=1) if p - 1 in others), len(steps))
    return Adjustment(ChangeKind.PRIORITY, estimate, len(steps), partial(_with_priority, evidence, steps))


def _with_priority(evidence: Evidence, steps: list[int], amount: int) -> Step:
    job, value = evidence.job, steps[amount - 1]
    classes = evidence.objects.structs(PRIORITY_CLASS)
    known = next((c.metadata.name for c in classes if c.value == value), None)
    name = known or evidence.unused_name(PRIORITY_CLASS, f"priority-{value}")
    vcjob = vcjob_of(evidence, job)
    kind, owner = (POD_GROUP, job.name) if vcjob is None else (VCJOB, vcjob)
    edits = [Edit(kind, job.namespace, owner, partial(_with_class, name))]
    if known is None:
        edits.append(Edit(PRIORITY_CLASS, "", name, partial(_with_value, value), creates=True))
    made = "" if known else ", to be created"
    what = "job" if kind is VCJOB else kind.name
    text = f"raise the priority of {what} {job.namespace}/{owner} from {job.priority} to {value}"
    return Step(f"{text} (PriorityClass {name}{made})", tuple(edits))


def _with_class(name: str, raw: Raw) -> Raw:
    raw.setdefault("spec", {})["priorityClassName"] = name
    return raw


def _with_value(value: int, blank: Raw) -> Raw:
    return {**blank, "value": value}
