"""The disks that the Pods of a class need attached to their node."""

from scheduler.api.kinds import CLAIM, STORAGE_CLASS, VOLUME
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskClass
from scheduler.plugins.predicates.volumes.claims import class_of
from scheduler.plugins.predicates.volumes.csi import Disk, disk_of_source, disk_of_volume, driver_of


class Disks:
    """The disks of a session's classes. An unbound claim has a disk that is named after the claim, also when a volume
    is reserved for it, so disks do not change within a session."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._cached: dict[int, tuple[Disk, ...]] = {}

    def of(self, cls: TaskClass) -> tuple[Disk, ...]:
        """The disks of a class, each once."""
        if not cls.claims and not cls.spec.volumes:
            return ()
        disks = self._cached.get(cls.id)
        if disks is None:
            disks = self.of_claims(cls)
            if cls.spec.volumes:
                disks = tuple(dict.fromkeys(disks + inline_disks(cls)))
            self._cached[cls.id] = disks
        return disks

    def of_claims(self, cls: TaskClass) -> tuple[Disk, ...]:
        """The disks of the claims of a class, each once."""
        found = []
        for mounted in cls.claims:
            disk = self._of_claim(f"{cls.namespace}/{mounted.name}")
            if disk is not None and disk not in found:
                found.append(disk)
        return tuple(found)

    def _of_claim(self, key: str) -> Disk | None:
        claim = self._snapshot.objects[CLAIM].get(key)
        if claim is None:
            return None
        name = claim.spec.volume_name
        volume = self._snapshot.objects[VOLUME].get(name) if name else None
        if volume is not None:
            return disk_of_volume(volume)
        storage = self._snapshot.objects[STORAGE_CLASS].get(class_of(claim))
        return Disk(driver_of(storage.provisioner), f"claim {key}") if storage is not None else None


def inline_disks(cls: TaskClass) -> tuple[Disk, ...]:
    """The disks of volumes in the Pod spec itself."""
    found = (disk_of_source(volume) for volume in cls.spec.volumes or ())
    return tuple(disk for disk in found if disk is not None)
