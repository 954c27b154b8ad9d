"""The job plugins that a vcjob names."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from scheduler.api.batch import JobSpec

MPI: Final = "mpi"
_MPI_FLAGS: Final = ("master", "worker", "port")
_MASTER: Final = "master"


def mpi_problems(spec: JobSpec) -> str:
    """An mpi job is run by its master: it must be one of the tasks."""
    plugins = spec.plugins or {}
    if MPI not in plugins or any(task.name == _mpi_master(plugins[MPI] or ()) for task in spec.tasks):
        return ""
    return "The specified mpi master task was not found"


def _mpi_master(arguments: Sequence[str]) -> str:
    """What the flags say, up to the first word that is no flag of the plugin."""
    master, words = _MASTER, iter(arguments)
    for word in words:
        flag, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if not word.startswith("-") or flag not in _MPI_FLAGS:
            break
        value = value if equals else next(words, "")
        if flag == "master":
            master = value
    return master


def plugin_problems(plugins: Mapping[str, object], known: Collection[str]) -> str:
    return "".join(f" unable to find job plugin: {name};" for name in sorted(plugins) if name not in known)
