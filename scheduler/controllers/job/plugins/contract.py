"""The interface of job plugins, which a vcjob names with arguments in ``spec.plugins``. A plugin mutates the manifests
of the job's Pods and adds objects of its own. Plugins are pure: they return manifests, and the job controller writes
them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import msgspec

from scheduler.api import batch
from scheduler.api.job_plugins import ArgumentError
from scheduler.api.kinds import Kind
from scheduler.controllers.effects import Json


class JobPluginError(ArgumentError):
    """The arguments or the job do not fit the plugin; the message says which and why."""


class WantedObject(msgspec.Struct, frozen=True):
    """An object that a plugin adds to a job."""

    kind: Kind
    name: str
    """The name of the object, which is in the job's namespace."""
    build: Callable[[], Json]
    """Builds the whole manifest with the job as owner."""
    refresh: bool = False
    """Its ``data`` is updated when the job changes (scaling); other objects are created once."""
    expensive: bool = False
    """``build`` takes so much processor time (a new RSA key) that it must not run on the event loop. When called again,
    it returns an equal manifest in no time, because an attempt to create the object may fail."""


class JobPlugin(Protocol):
    """A plugin of one job, created with the arguments of the job by ``make_plugins``."""

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        """Mutates the manifest of Pod ``index`` of a task, in place. Raises JobPluginError."""

    def wanted(self, job: batch.Job) -> list[WantedObject]:
        """The objects that the plugin adds; by default none. Raises JobPluginError."""
        return []


@contextmanager
def naming_plugin(name: str) -> Iterator[None]:
    """A context that replaces an ArgumentError by a JobPluginError with the name of the plugin."""
    try:
        yield
    except ArgumentError as error:
        raise JobPluginError(f"plugin {name}: {error}") from error


def mutate_pod_by_plugins(
    plugins: Mapping[str, JobPlugin], pod: Json, task: batch.TaskSpec, index: int, job: batch.Job
) -> None:
    """Lets every plugin mutate the manifest of a Pod, in place. Raises JobPluginError, which names the plugin."""
    for name, plugin in plugins.items():
        with naming_plugin(name):
            plugin.mutate_pod(pod, task, index, job)


def wanted_objects(plugins: Mapping[str, JobPlugin], job: batch.Job) -> list[WantedObject]:
    """The objects that all plugins add. Raises JobPluginError, which names the plugin."""
    objects: list[WantedObject] = []
    for name, plugin in plugins.items():
        with naming_plugin(name):
            objects += plugin.wanted(job)
    return objects
