"""Finds the Pods of a job that were evicted while no controller ran.

The status of a job says how many Pods of each task it had, and how many of them were being evicted. Controllers that
start compare it with the Pods that exist. Pods that the controllers delete themselves are not in the status any more
when that happens.
"""

from collections.abc import Iterable, Mapping

from scheduler.api import batch
from scheduler.api.batch import JobEvent
from scheduler.api.objects import ENDED_PHASES
from scheduler.controllers.job.events import Request
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.pods import Member


def losses(job: batch.Job, parsed_spec: ParsedSpec, members: Mapping[str, Member], now: float) -> list[Request]:
    """Requests about Pods that were evicted and are gone, for the first names that are missing in each task. A Pod that
    had ended when the status was written was not evicted."""
    found = []
    for task, state in (job.status.task_status_count or {}).items():
        there = (m for m in members.values() if m.task == task and m.wanted and m.version >= job.status.version)
        lost = _lost(state.phase or {}, there)
        if lost <= 0:
            continue
        missing = (name for name, slot in parsed_spec.slots.items() if slot.task.name == task and name not in members)
        found += [
            Request(
                event=JobEvent.POD_EVICTED,
                job_uid=job.metadata.uid,
                task=task,
                pod=name,
                partition=parsed_spec.slots[name].partition,
                version=job.status.version,
                since=now,
            )
            for name, _ in zip(missing, range(lost), strict=False)
        ]
    return found


def _lost(known: Mapping[str, int], members: Iterable[Member]) -> int:
    """How many Pods of a task were evicted. ``known``: phase -> their number in the status."""
    phases = [member.phase if not member.evicted else "" for member in members]
    ended = sum(phase in ENDED_PHASES for phase in phases)
    active_before = sum(number for phase, number in known.items() if phase not in ENDED_PHASES)
    return min(sum(known.values()) - len(phases), active_before - (len(phases) - ended))
