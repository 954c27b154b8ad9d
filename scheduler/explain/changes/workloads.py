"""The objects that people change to change a job: its workload, such as a vcjob or a Deployment, not its PodGroup."""

from typing import Final

import msgspec

from scheduler.api.job import Job
from scheduler.api.kinds import BATCH_JOB, POD, POD_GROUP, REPLICA_SET, VCJOB, Kind, find_kind
from scheduler.cluster.memory.raw_objects import controller_of
from scheduler.framework.remedies.adjustments import Edit, Raw
from scheduler.framework.remedies.evidence import Evidence

_WORDS: Final = {VCJOB: "job", BATCH_JOB: "batch Job"}
"""What messages call kinds with the name Job."""


class CreatingWorkload(msgspec.Struct, frozen=True):
    """What created the Pods of a job; the PodGroup, if nothing did."""

    kind: str
    """The kind as messages name it."""
    name: str
    deletion: tuple[Edit, ...]
    """Deletes it, with its Pods and its PodGroup."""
    has_template: bool = True
    """Whether it creates Pods; False for a PodGroup, and for a Pod without a workload."""


def vcjob_of(evidence: Evidence, job: Job) -> str | None:
    """The name of the vcjob that owns the PodGroup of a job; None: there is none."""
    owner = _owner(evidence, job)
    found = _find(evidence, job, owner) if owner is not None else None
    return str(found[1]["metadata"]["name"]) if found is not None and found[0] is VCJOB else None


def workload_of(evidence: Evidence, job: Job) -> CreatingWorkload:
    """The workload of a job. A ReplicaSet is part of its Deployment."""
    owner = _owner(evidence, job)
    if owner is None:
        return CreatingWorkload(POD_GROUP.name, job.name, (_deletion(POD_GROUP, job, job.name),), has_template=False)
    chain = [owner]
    found = _find(evidence, job, owner)
    if found is not None and found[0] is REPLICA_SET and (above := controller_of(found[1])) is not None:
        chain.append(above)
    known = [there for reference in chain if (there := _find(evidence, job, reference)) is not None]
    edits = [_deletion(kind, job, raw["metadata"]["name"]) for kind, raw in known[-1:]]  # its garbage is collected
    group = evidence.objects.find(POD_GROUP, job.namespace, job.name)
    if group is not None and not any(
        reference.get("uid") == raw["metadata"]["uid"]
        for reference in group["metadata"].get("ownerReferences") or ()
        for _, raw in known
    ):
        edits.append(_deletion(POD_GROUP, job, job.name))
    top = chain[-1]
    kind = _kind(top)
    words = str(top.get("kind")) if kind is None else _WORDS.get(kind, kind.name)
    return CreatingWorkload(words, str(top.get("name")), tuple(edits), has_template=kind is not POD)


def _owner(evidence: Evidence, job: Job) -> Raw | None:
    """The reference to the owner of a PodGroup, or to the controller of all its Pods."""
    group = evidence.objects.find(POD_GROUP, job.namespace, job.name)
    owners = (group["metadata"].get("ownerReferences") or ()) if group is not None else ()
    if owners:
        return dict(owners[0])
    pods = (evidence.objects.find(POD, task.namespace, task.name) for task in job.tasks())
    controllers = (controller_of(pod) if pod is not None else None for pod in pods)
    first = next(controllers, None)
    if first is None or not all(other and other.get("uid") == first.get("uid") for other in controllers):
        return None
    return first


def _kind(reference: Raw) -> Kind | None:
    return find_kind(str(reference.get("apiVersion")), str(reference.get("kind")))


def _find(evidence: Evidence, job: Job, reference: Raw) -> tuple[Kind, Raw] | None:
    """The object that an owner reference names, if it exists."""
    kind = _kind(reference)
    raw = evidence.objects.find(kind, job.namespace, str(reference.get("name"))) if kind is not None else None
    return (kind, raw) if kind and raw is not None and raw["metadata"]["uid"] == reference.get("uid") else None


def _deletion(kind: Kind, job: Job, name: str) -> Edit:
    return Edit(kind, job.namespace, name, lambda raw: None)
