"""The references of a vcjob: its job plugins, its queue, and the claims and mount paths of its volumes."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from scheduler.api.batch import JobSpec, JobVolume
from scheduler.api.names import ROOT_QUEUE
from scheduler.api.queue import OPEN
from scheduler.webhooks.contract import ClusterView
from scheduler.webhooks.fields import dns_subdomain
from scheduler.webhooks.queue.hierarchy import children_of, queue_not_found

MPI: Final = "mpi"
_MPI_FLAGS: Final = ("master", "worker", "port")
_DEFAULT_MASTER: Final = "master"


def plugin_problems(plugins: Mapping[str, object], known: Collection[str]) -> str:
    """The unknown job plugins, sorted by name."""
    return "".join(f" unable to find job plugin: {name};" for name in sorted(plugins) if name not in known)


def mpi_problems(spec: JobSpec) -> str:
    """The master of an mpi job must be one of its tasks."""
    plugins = spec.plugins or {}
    if MPI not in plugins or any(task.name == _mpi_master(plugins[MPI] or ()) for task in spec.tasks):
        return ""
    return "The specified mpi master task was not found"


def _mpi_master(arguments: Sequence[str]) -> str:
    """The master that the flags name; parsing stops at the first argument that is not a flag of the plugin."""
    master, remaining = _DEFAULT_MASTER, iter(arguments)
    for argument in remaining:
        flag, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if not argument.startswith("-") or flag not in _MPI_FLAGS:
            break
        value = value if equals else next(remaining, "")
        if flag == "master":
            master = value
    return master


def queue_problems(name: str, cluster: ClusterView) -> str:
    """Why the queue does not accept vcjobs, or ""."""
    queue = cluster.queue(name)
    if queue is None:
        return f" unable to find job queue: {queue_not_found(name)};"
    text = ""
    if queue.status.state not in (OPEN, ""):  # "": a new queue, which the controller has not opened yet
        state = queue.status.state
        text = f" can only submit job to queue with state `{OPEN}`, queue `{name}` status is `{state}`;"
    if name == ROOT_QUEUE:
        return f"{text} can not submit job to root queue;"
    children = len(children_of(name, cluster))
    if children:
        text += f" can only submit job to leaf queue, queue `{name}` has {children} child queues;"
    return text


def volume_problems(volumes: list[JobVolume]) -> str:
    """The problem of the first invalid volume, as in Volcano's validateIO."""
    mount_paths: set[str] = set()
    for volume in volumes:
        path, name = volume.mount_path, volume.volume_claim_name
        if not path:
            return " mountPath is required;"
        if path in mount_paths:
            return f" duplicated mountPath: {path};"
        if volume.volume_claim is None and not name:
            return " either VolumeClaim or VolumeClaimName must be specified;"
        if name:
            if volume.volume_claim is not None:
                return (
                    "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
                    "If you want to create a new PVC, you do not need to specify VolumeClaimName"
                )
            problems = dns_subdomain(name)
            if problems:
                return f"invalid VolumeClaimName {name} : [{' '.join(problems)}]"
        mount_paths.add(path)
    return ""
