"""Ownership: the reference that an owned object carries, the vcjobs that each owner manages, and the Event about a
vcjob of another owner."""

from typing import Any

from scheduler.api.batch import Job
from scheduler.api.kinds import Kind
from scheduler.api.names import EVENT_FOREIGN_JOB
from scheduler.api.objects import KubeObject, OwnerReference, controller_of, is_controlled_by
from scheduler.controllers.effects import Json, RecordEvent, warning
from scheduler.controllers.store import Key


def owner_reference(kind: Kind, owner: KubeObject) -> Json:
    """The reference to the controlling owner, which blocks the foreground deletion of the owner."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(kind: Kind, name: str, owner_kind: Kind, owner: KubeObject, **body: Any) -> Json:
    """The manifest of an object in the namespace of its owner. ``body``: its further fields (spec, data ...)."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "ownerReferences": [owner_reference(owner_kind, owner)],
        },
        **body,
    }


def manages(owner: KubeObject, job: Job) -> bool:
    """Whether an object is the controlling owner of a job."""
    return is_controlled_by(job, owner.metadata.uid)


def foreign_job(kind: Kind, obj: KubeObject, job: Job) -> RecordEvent:
    """The Event about a job that has the name of one of the object's jobs, and another owner."""
    owner = controller_of(job)
    message = (
        f"Job {job.metadata.name} exists but is not owned by this {kind.name} "
        f"(current owner: {'none' if owner is None else owner.name})"
    )
    return warning(kind, obj, EVENT_FOREIGN_JOB, message)


class OwnedJobs:
    """Index of the vcjobs that objects of one kind manage, by owner. One thread uses it."""

    def __init__(self, owner: Kind) -> None:
        self._kind = owner
        self._jobs: dict[Key, dict[str, Job]] = {}
        """Namespace and uid of the owner -> name -> job."""

    def of(self, owner: KubeObject) -> list[Job]:
        """The jobs an object manages, the oldest first."""
        return sorted(self._jobs.get((owner.metadata.namespace, owner.metadata.uid), {}).values(), key=_age)

    def observe(self, old: Job | None, new: Job | None) -> list[Key]:
        """A job was added, changed or deleted. Returns the owners (namespace and name) that it concerns."""
        concerned: dict[Key, None] = {}
        if old is not None and (owner := self._owner(old)) is not None:
            meta = old.metadata
            jobs = self._jobs.get((meta.namespace, owner.uid), {})
            jobs.pop(meta.name, None)
            if not jobs:
                self._jobs.pop((meta.namespace, owner.uid), None)
            concerned[meta.namespace, owner.name] = None
        if new is not None and (owner := self._owner(new)) is not None:
            meta = new.metadata
            self._jobs.setdefault((meta.namespace, owner.uid), {})[meta.name] = new
            concerned[meta.namespace, owner.name] = None
        return list(concerned)

    def _owner(self, job: Job) -> OwnerReference | None:
        owner = controller_of(job)
        if owner is None or owner.kind != self._kind.name or owner.api_version != self._kind.api_version:
            return None
        return owner


def _age(job: Job) -> tuple[bool, str, str]:
    created = job.metadata.creation_timestamp
    return not created, created or "", job.metadata.name
