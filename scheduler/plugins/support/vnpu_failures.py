"""Virtual NPUs that the device plugin could not create: the Pod is replaced, and its job avoids the chip for a while.

The kubelet rejects such a Pod, which has not run (``vnpu_failure``). The failure is recorded in an annotation of the
PodGroup first, and the Pod is deleted once the record has been read back, so a scheduler that starts at any moment
knows which chips to avoid. The owner of the Pod creates another one. Each further failure on a chip doubles the time
for which the job avoids the chip, so a job whose virtual NPU cannot be created anywhere is tried less and less often.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api.decisions import Evict, ObjectWrite, group_ref
from scheduler.api.job import Job
from scheduler.api.json_texts import VNPU_FAILURES_FORMAT, JsonTextError, VnpuFailure
from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import EVENT_VNPU_FAILED, EVENT_WARNING, NPU_CORE, VNPU_FAILURES
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.kept_values import job_values
from scheduler.framework.plugin_session import PluginSession

PAUSE: Final = 600
"""Seconds for which a job avoids a chip after the first failure there."""
MAX_PAUSE: Final = 86_400
MAX_FAILURES: Final = 256
"""Chips that are recorded per job; the oldest failures are dropped."""
ANY_CHIP: Final = -1
"""The chip of a Pod whose chip is not known: the job avoids the node."""
_REASON: Final = "chipDyCutErr"
"""Why the Pod is deleted, in the words of MindCluster's scheduler plugin."""
AvoidedChips = tuple[tuple[str, int], ...]
"""Names of nodes and chips on them, which may be ``ANY_CHIP``; sorted."""


class _Reading(NamedTuple):
    failed: tuple[Task, ...]
    """The Pods whose virtual NPU could not be created."""
    recorded: tuple[VnpuFailure, ...]
    problem: str
    """What is wrong with the annotation, or ""."""


def _reading(job: Job) -> _Reading | None:
    """Reads a job; None: it has no such Pods, and no record."""
    failed = tuple(task for task in job.of(TaskStatus.FAILED).values() if task.vnpu_failure)
    text = job.annotations.get(VNPU_FAILURES, "")
    if not failed and not text:
        return None
    try:
        return _Reading(failed, tuple(VNPU_FAILURES_FORMAT.decode(text)) if text else (), "")
    except JsonTextError as error:
        return _Reading(failed, (), str(error))


class VnpuFailures:
    """The failures of the jobs of one session."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._known: Mapping[str, _Reading] = job_values(session.snapshot, ("vnpu failures",), _reading)

    def open(self) -> None:
        """Records new failures, and registers the deletion of Pods whose failure is recorded."""
        session = self._session
        for key, reading in self._known.items():
            job = session.jobs.get(key)
            if job is None:
                continue
            if reading.problem:
                field = f"metadata.annotations[{VNPU_FAILURES}]"
                session.malformed_field(
                    Malformed("PodGroup", job.namespace, job.name, field, reading.problem, "counts as empty")
                )
            recorded = {uid for each in reading.recorded for uid in each.pods}
            new = [task for task in _replaced(job, reading.failed) if task.uid not in recorded]
            if new:
                text = msgspec.json.encode(_with(reading.recorded, reading.failed, new, int(session.now))).decode()
                body = {"metadata": {"annotations": {VNPU_FAILURES: text}}}
                session.write(ObjectWrite(POD_GROUP, job.namespace, job.name, body, uid=job.uid))
        session.add_deletions(self._deletions)

    def avoided(self, job: Job) -> AvoidedChips:
        """Returns the chips of which a job gets no part now."""
        reading, now = self._known.get(job.key), self._session.now
        if reading is None:
            return ()
        return tuple(sorted((each.node, each.chip) for each in reading.recorded if now < each.time + pause_after(each)))

    def _deletions(self) -> Iterator[Evict]:
        session = self._session
        for key, reading in self._known.items():
            job = session.jobs.get(key)
            entries = {uid: each for each in reading.recorded for uid in each.pods}
            for task in _replaced(job, reading.failed) if job is not None else ():
                entry = entries.get(task.uid)
                if job is not None and entry is not None:
                    session.event(group_ref(job), EVENT_WARNING, EVENT_VNPU_FAILED, _text(task, entry))
                    yield Evict(task, f"{_REASON} ({task.vnpu_failure[:200]})", 0)


def pause_after(failure: VnpuFailure) -> int:
    """Returns for how many seconds a job avoids a chip after its last failure there."""
    return min(PAUSE << min(failure.times - 1, 10), MAX_PAUSE)


def chips_of(task: Task) -> list[int]:
    """Returns the chips that the annotation of a Pod with AI cores names; ``ANY_CHIP`` if it names none."""
    numbers = task.annotations.get(NPU_CORE, "").partition("-")[0].split(",")
    chips = [int(each) for each in numbers if each.isascii() and each.isdecimal() and len(each) < 3]
    return chips if chips and len(chips) == len(numbers) else [ANY_CHIP]


def _replaced(job: Job, failed: Iterable[Task]) -> Iterator[Task]:
    """Yields the Pods that are deleted: not a Pod without an owner, which nothing would replace."""
    return (task for task in failed if task.node and task.uid != job.owner_uid)


def _with(recorded: Iterable[VnpuFailure], failed: Iterable[Task], new: Iterable[Task], now: int) -> list[VnpuFailure]:
    """Returns the record with new failures, the latest last. Failures that are long past are dropped, and so are the
    uids of Pods that do not exist. ``failed``: all failed Pods of the job."""
    there = {task.uid for task in failed}
    entries = {
        (each.node, each.chip): msgspec.structs.replace(each, pods=tuple(uid for uid in each.pods if uid in there))
        for each in recorded
        if now < each.time + 2 * pause_after(each)
    }
    added: set[tuple[str, int]] = set()
    for task in new:
        for chip in chips_of(task):
            place = task.node, chip
            last = entries.pop(place, VnpuFailure(task.node, chip, now, 0))
            times = last.times if place in added else last.times + 1  # Pods that fail together are one failure
            entries[place] = VnpuFailure(task.node, chip, now, times, (*last.pods, task.uid))
            added.add(place)
    return list(entries.values())[-MAX_FAILURES:]


def _text(task: Task, failure: VnpuFailure) -> str:
    where = f"node {failure.node}" if failure.chip == ANY_CHIP else f"chip {failure.chip} of node {failure.node}"
    return (
        f"Pod {task.name}: its virtual NPU {task.annotations.get(NPU_CORE, '')} could not be created on node "
        f"{failure.node} ({task.vnpu_failure[:200]}); the Pod is deleted, and the job gets no part of {where} for "
        f"{pause_after(failure) // 60} minutes"
    )
