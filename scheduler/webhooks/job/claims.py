"""The volumes of a vcjob: where each is mounted, and the claim behind it."""

from scheduler.api.batch import JobVolume
from scheduler.webhooks.names import dns_subdomain


def volume_problems(volumes: list[JobVolume]) -> str:
    """Of the first volume that is wrong, as Volcano's validateIO."""
    taken: set[str] = set()
    for volume in volumes:
        path, name = volume.mount_path, volume.volume_claim_name
        if not path:
            return " mountPath is required;"
        if path in taken:
            return f" duplicated mountPath: {path};"
        if volume.volume_claim is None and not name:
            return " either VolumeClaim or VolumeClaimName must be specified;"
        if name:
            if volume.volume_claim is not None:
                return (
                    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
                )
            wrong = dns_subdomain(name)
            if wrong:
                return f"invalid VolumeClaimName {name} : [{' '.join(wrong)}]"
        taken.add(path)
    return ""
