"""Which PodGroups the scheduler has admitted, and with what: what their users write does not count.

A phase other than Pending counts if the scheduler has set it: it remembers what it admitted each PodGroup with, and
writes a signed record of that onto those that wait in their queue, for the scheduler that takes over. Records are read
once, when a scheduler begins to lead: an old one that a user puts back later does not count. An admission is for one
queue, and ends with the phase Pending.

PodGroups that announce no need are let in without asking any plugin and reserve nothing, so their phase counts.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scheduler.api.admission_record import AdmissionRecord, read_admission_record
from scheduler.api.decisions import PodGroupStatusUpdate
from scheduler.api.job import INQUEUE, PENDING, PENDING_PHASES, Job
from scheduler.api.names import ADMISSION_RECORD, CARD_REQUEST
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.scheduling import PodGroup
from scheduler.api.signing import SigningKey
from scheduler.api.task import READY_STATUSES, TaskStatus

_PLACED = (*READY_STATUSES, TaskStatus.RELEASING, TaskStatus.FAILED)
"""Statuses of Pods that have a node, or had one."""


class Admitted(NamedTuple):
    """That a PodGroup is known to be admitted."""

    key: str
    """``namespace/name``."""
    uid: str
    record: AdmissionRecord
    phase: str
    """The phase that the scheduler has set."""
    text: str | None
    """The annotation that the PodGroup carries; None: one that was written and not seen yet."""
    lost: bool
    """The PodGroup does not carry the record, as it should."""


class Admission:
    """What is known of the admission of one PodGroup; the fields are those of ``Admitted``."""

    __slots__ = ("lost", "phase", "record", "text")

    def __init__(self) -> None:
        self.record: AdmissionRecord | None = None
        """None: it is not admitted."""
        self.phase = ""
        self.text: str | None = ""
        self.lost = False

    def see(self, text: str) -> bool:
        """The PodGroup carries this record, or none (""). Returns whether the scheduler has to correct that."""
        if text == self.text or (self.text is None and not text):  # the latter was on its way before
            return False
        written, self.text = self.text is None, text
        if written:
            return False
        self.lost = self.record is not None
        return True

    def assume(self, update: PodGroupStatusUpdate) -> None:
        """The status is taken as written, and so is the record."""
        self.phase = update.phase
        if update.phase in PENDING_PHASES:
            self.record = None
        elif update.admission is not None:
            self.record, self.text, self.lost = update.admission, None, False
        if update.removes_record:
            self.text, self.lost = "", False

    def take(self, known: Admitted) -> None:
        """It is known to be admitted."""
        self.record, self.phase, self.text, self.lost = known.record, known.phase, known.text, known.lost

    def admitted(self, key: str, uid: str) -> Admitted | None:
        """What ``take`` takes; None: it is not admitted."""
        return Admitted(key, uid, self.record, self.phase, self.text, self.lost) if self.record is not None else None


def without_record(annotations: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """The annotations of a PodGroup but for the record of its admission, and that; "" if there is none."""
    text = annotations.get(ADMISSION_RECORD, "")
    return ({k: v for k, v in annotations.items() if k != ADMISSION_RECORD}, text) if text else (annotations, "")


def proven(group: PodGroup, queue: str, text: str | None, key: SigningKey, now: float) -> Admitted | None:
    """The admission of a PodGroup that is in ``queue`` and carries the record ``text``; None without proof of it.

    Before the key is in use no record can have been written: every phase is believed."""
    meta, spec, phase = group.metadata, group.spec, group.status.phase
    name = f"{meta.namespace}/{meta.name}"
    record = read_admission_record(text, meta.uid, key) if text else None
    if record is not None:
        return Admitted(name, meta.uid, record, INQUEUE, text, False)
    if now >= key.created or phase in PENDING_PHASES:
        return None
    cards = (meta.annotations or {}).get(CARD_REQUEST, "")
    believed = AdmissionRecord.of(queue, spec.min_member, spec.min_resources, cards)
    return Admitted(name, meta.uid, believed, phase, text, key.shared)


def as_admitted(job: Job, admission: Admission, dimensions: Dimensions) -> None:
    """Change a Job that was just built: it is as far as it was admitted, and reserves no more than that."""
    job.recorded = admission.text != ""
    if not job.announces_need:  # no plugin is asked before it is let in
        return
    record, phase = admission.record, job.phase
    if record is not None and record.queue == job.queue:
        job.phase, job.admission, job.record_lost = admission.phase, record, admission.lost
        job.most_reserved = _bounded(job, record, dimensions)
        if job.annotations.get(CARD_REQUEST, "") != record.cards:
            others = {name: value for name, value in job.annotations.items() if name != CARD_REQUEST}
            job.annotations = {**others, CARD_REQUEST: record.cards} if record.cards else others
    elif phase == INQUEUE or (phase not in PENDING_PHASES and not any(status in job.by_status for status in _PLACED)):
        job.phase, job.claimed_phase = PENDING, phase
    elif phase not in PENDING_PHASES and job.most_reserved is not None:
        job.most_reserved = np.minimum(job.most_reserved, job.allocated)


def _bounded(job: Job, record: AdmissionRecord, dimensions: Dimensions) -> Vector | None:
    """minResources of today, as far as the job was admitted with them."""
    if job.min_resources is None or job.min_resource_list == record.min_resources:
        return job.min_resources
    admitted = record.min_resources or {}
    known = {name: amount for name, amount in admitted.items() if dimensions.find(name) is not None}
    return np.minimum(job.min_resources, dimensions.vector(known))
