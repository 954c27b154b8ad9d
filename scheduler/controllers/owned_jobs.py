"""The vcjobs that objects of one kind manage, by owner: nobody has to look through all jobs."""

from scheduler.api.batch import Job
from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject, OwnerReference
from scheduler.controllers.store import Key, controller_of


class OwnedJobs:
    """For one thread."""

    def __init__(self, owner: Kind) -> None:
        self._kind = owner
        self._jobs: dict[Key, dict[str, Job]] = {}
        """By namespace and the owner's uid, then by name."""

    def of(self, owner: KubeObject) -> list[Job]:
        """The jobs an object manages, the oldest first."""
        return sorted(self._jobs.get((owner.metadata.namespace, owner.metadata.uid), {}).values(), key=_age)

    def observe(self, old: Job | None, new: Job | None) -> list[Key]:
        """A job came, changed or went; the owners (namespace and name) that concerns."""
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
