"""Finds the Pods of a job that were evicted while no controller ran.

The status of a job says how many Pods of each task it had, and how many of them had ended or were being evicted.
Controllers that start compare it with the Pods that exist. Pods that the controllers delete themselves are not in the
status any more when that happens.

Of a Pod that is gone nothing is left in the API, so two things cannot be known, and in doubt a Pod was evicted: the job
must not go on without it. A Pod that ended after the status was written, and was deleted, counts as evicted. Where the
status says that some of the Pods that are gone had ended, it does not say which; that matters only to a policy that
restarts a partition.
"""

from collections.abc import Iterator, Mapping, Sequence

from scheduler.api import batch
from scheduler.api.batch import JobEvent
from scheduler.api.objects import ENDED_PHASES
from scheduler.controllers.job.events import PolicyRequest
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.pods import Member


def losses(job: batch.Job, parsed_spec: ParsedSpec, members: Mapping[str, Member], now: float) -> list[PolicyRequest]:
    """Requests about Pods that were evicted and are gone. A Pod that had ended when the status was written was not
    evicted."""
    return [
        PolicyRequest(
            event=JobEvent.POD_EVICTED,
            job_uid=job.metadata.uid,
            task=task,
            pod=name,
            partition=parsed_spec.slots[name].partition,
            version=job.status.version,
            since=now,
        )
        for task, state in (job.status.task_status_count or {}).items()
        for name in _lost(task, state.phase or {}, parsed_spec, members, job.status.version)
    ]


def _lost(
    task: str, known: Mapping[str, int], parsed_spec: ParsedSpec, members: Mapping[str, Member], version: int
) -> Iterator[str]:
    """The names of the Pods of a task that count as evicted. ``known``: phase -> their number in the status."""
    there = [m for m in members.values() if m.task == task and m.wanted and m.version >= version]
    active = sum(not _has_ended(member) for member in there)
    active_before = sum(number for phase, number in known.items() if phase not in ENDED_PHASES)
    gone = sum(known.values()) - len(there)
    lost = min(gone, active_before - active)
    if lost <= 0:
        return
    missing = (name for name, slot in parsed_spec.slots.items() if slot.task.name == task and name not in members)
    names = [name for name, _ in zip(missing, range(gone), strict=False)]
    partitions = [parsed_spec.slots[name].partition for name in names]
    if not any(partitions):
        yield from names[:lost]
        return
    over = _partitions_over(there, parsed_spec)
    ended = gone - lost
    for name, partition in zip(names, partitions, strict=True):
        if partition in over and ended > 0:
            ended -= 1
        else:
            yield name


def _partitions_over(there: Sequence[Member], parsed_spec: ParsedSpec) -> set[str]:
    """The partitions whose Pods have all ended, as far as they exist."""
    has_ended: dict[str, bool] = {}
    for member in there:
        partition = parsed_spec.slots[member.name].partition
        has_ended[partition] = has_ended.get(partition, True) and _has_ended(member)
    return {partition for partition, over in has_ended.items() if over}


def _has_ended(member: Member) -> bool:
    return member.phase in ENDED_PHASES and not member.evicted
