"""Which PodGroups the scheduler has admitted to their queues, and with which resources.

The phase of a PodGroup, other than Pending, counts only if the scheduler has set it, because users can write it too.
The scheduler keeps what it admitted each PodGroup with, and writes a signed record of it onto PodGroups that wait in
their queue, for the next leader. A leader reads the records once, when it begins to lead, so a user cannot restore an
old one later. An admission is valid for one queue and ends with the phase Pending.

PodGroups that declare neither minResources nor cards are admitted without asking a plugin and reserve nothing, so their
phase counts.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api.decisions import PodGroupStatusUpdate
from scheduler.api.job import INQUEUE, PENDING, PENDING_PHASES, Job
from scheduler.api.names import ADMISSION_RECORD, CARD_REQUEST
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.signed_records import AdmissionRecord
from scheduler.api.task import READY_STATUSES, TaskStatus

_PLACED: Final = READY_STATUSES | {TaskStatus.RELEASING, TaskStatus.FAILED}
"""Statuses of Pods that have or had a node."""


class Admitted(NamedTuple):
    """The admission of a PodGroup."""

    key: str
    """``namespace/name``."""
    uid: str
    record: AdmissionRecord
    phase: str
    """The phase that the scheduler has set."""
    text: str | None
    """The record in the annotations of the PodGroup; None: the watch has not delivered the written one yet."""
    lost: bool
    """The annotation with the record is missing or was changed."""


class Admission(msgspec.Struct, eq=False, gc=False):
    """The admission of one PodGroup, with the fields of ``Admitted``."""

    record: AdmissionRecord | None = None
    """None: the PodGroup is not admitted."""
    phase: str = ""
    text: str | None = ""
    lost: bool = False

    def observe(self, text: str) -> bool:
        """Compares the record in the annotations ("" for none) with the expected one. Returns whether someone changed
        it, so that the scheduler has to write it again."""
        if text == self.text or (self.text is None and not text):  # a watch event from before the write
            return False
        written, self.text = self.text is None, text
        if written:
            return False
        self.lost = self.record is not None
        return True

    def assume(self, update: PodGroupStatusUpdate) -> None:
        """Treats a status update, and the record in it, as written."""
        self.phase = update.phase
        if update.phase in PENDING_PHASES:
            self.record = None
        elif update.admission is not None:
            self.record, self.text, self.lost = update.admission, None, False
        if update.removes_record:
            self.text, self.lost = "", False

    def restore(self, known: Admitted) -> None:
        """Sets the fields as a known admission has them."""
        self.record, self.phase, self.text, self.lost = known.record, known.phase, known.text, known.lost

    def admitted(self, key: str, uid: str) -> Admitted | None:
        """The fields for ``restore``; None: the PodGroup is not admitted."""
        return Admitted(key, uid, self.record, self.phase, self.text, self.lost) if self.record is not None else None


def without_record(annotations: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """The annotations of a PodGroup without the admission record, and the record ("" if there is none)."""
    text = annotations.get(ADMISSION_RECORD, "")
    return ({k: v for k, v in annotations.items() if k != ADMISSION_RECORD}, text) if text else (annotations, "")


def apply_admission(
    job: Job, admission: Admission, dimensions: Dimensions, minimum: Callable[[Vector, Vector], Vector]
) -> None:
    """Limits the phase and the reservation of a new Job to its admission. ``minimum``: ``SharedVectors.minimum``."""
    job.recorded = admission.text != ""
    if not job.declares_resources:  # admitted without asking a plugin
        return
    record, phase = admission.record, job.phase
    if record is not None and record.queue == job.queue:
        job.phase, job.admission, job.record_lost = admission.phase, record, admission.lost
        job.reservation_limit = _bounded(job, record, dimensions)
        if job.annotations.get(CARD_REQUEST, "") != record.cards:
            others = {name: value for name, value in job.annotations.items() if name != CARD_REQUEST}
            job.annotations = {**others, CARD_REQUEST: record.cards} if record.cards else others
    elif phase == INQUEUE or (phase not in PENDING_PHASES and _PLACED.isdisjoint(job.by_status)):
        job.phase, job.claimed_phase = PENDING, phase
    elif phase not in PENDING_PHASES and job.reservation_limit is not None:
        job.reservation_limit = minimum(job.reservation_limit, job.allocated)


def depends_on_admission(job: Job, admission: Admission) -> bool:
    """Whether ``apply_admission`` may change a Job to which it has not been applied with the present admission."""
    if job.recorded != (admission.text != ""):
        return True
    if not job.declares_resources:
        return False
    # The reservation of a settled job is not limited: it holds its minResources.
    return admission.record is not None or job.admission is not None or not job.is_settled


def _bounded(job: Job, record: AdmissionRecord, dimensions: Dimensions) -> Vector | None:
    """The present minResources, limited to those the job was admitted with."""
    if job.min_resources is None or job.min_resource_list == record.min_resources:
        return job.min_resources
    admitted = record.min_resources or {}
    known = {name: amount for name, amount in admitted.items() if dimensions.find(name) is not None}
    return np.minimum(job.min_resources, dimensions.vector(known))
