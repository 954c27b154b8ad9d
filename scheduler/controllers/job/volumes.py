"""The volumes that a job's Pods share: claims of the job, and how Pods mount them.

Generated names are derived from the uid of the job and the path, so they are always the same: no state is kept, and
nothing is created twice.
"""

from hashlib import sha256

import msgspec

from scheduler.api import batch
from scheduler.api.kinds import CLAIM, VCJOB
from scheduler.controllers.effects import Create, Json
from scheduler.controllers.job.plugins.podspec import add_volume, containers, mount
from scheduler.controllers.owners import owned

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ClaimedVolume(msgspec.Struct, frozen=True):
    """One entry of ``spec.volumes``."""

    path: str
    claim: str
    """Name of the PersistentVolumeClaim."""
    spec: Json | None
    """The spec of a claim that the job creates; None: it must exist."""


def volumes_of(job: batch.Job) -> tuple[list[ClaimedVolume], list[tuple[str, str]]]:
    """The volumes, and (field, problem) of entries that are set aside."""
    good, bad = [], []
    for index, entry in enumerate(job.spec.volumes or ()):
        field = f"spec.volumes[{index}]"
        if not entry.mount_path:
            bad.append((f"{field}.mountPath", "it is missing"))
        elif not entry.volume_claim_name and entry.volume_claim is None:
            bad.append((field, "neither volumeClaim nor volumeClaimName is given"))
        else:
            name = entry.volume_claim_name or f"{job.metadata.name}-pvc-{_twelve(job, 'claim', entry.mount_path)}"
            good.append(ClaimedVolume(entry.mount_path, name, None if entry.volume_claim_name else entry.volume_claim))
    return good, bad


def create_claim(job: batch.Job, volume: ClaimedVolume) -> Create:
    return Create(CLAIM, owned(CLAIM, volume.claim, VCJOB, job, spec=volume.spec))


def mount_volumes(pod: Json, job: batch.Job, volumes: list[ClaimedVolume]) -> None:
    """Mounts the job's volumes in the containers of a Pod. Raises PluginError naming a field of a wrong type."""
    for volume in volumes:
        name = f"{job.metadata.name[:50].replace('.', '-')}-{_twelve(job, 'volume', volume.claim)}"
        add_volume(pod, {"name": name, "persistentVolumeClaim": {"claimName": volume.claim}})
        for container in containers(pod):
            mount(container, {"name": name, "mountPath": volume.path})


def _twelve(job: batch.Job, what: str, of: str) -> str:
    """Twelve characters of [0-9a-z], unique for the job, ``what`` and ``of``."""
    number = int.from_bytes(sha256(f"{job.metadata.uid}/{what}/{of}".encode()).digest()[:12])
    text = ""
    for _ in range(12):
        number, digit = divmod(number, len(_DIGITS))
        text += _DIGITS[digit]
    return text
