"""What a job plugin is: something that a vcjob's ``spec.plugins`` names with arguments, that adds to the job's Pods and
brings objects of its own. The plugins are pure: what they make is returned, and the job controller has it written."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from scheduler.api import batch
from scheduler.api.kinds import Kind
from scheduler.controllers.effects import Json


class PluginError(ValueError):
    """The arguments or the job do not fit the plugin; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object that a plugin brings to a job."""

    kind: Kind
    name: str
    """In the job's namespace."""
    build: Callable[[], Json]
    """Makes the whole manifest with the job as owner; dear ones (keys) are made only when needed."""
    refresh: bool = False
    """Its ``data`` follows the job when that changes (scaling); others are made once."""


class JobPlugin(Protocol):
    """Made for one job with its arguments by the registry: ``make(arguments)`` raises PluginError."""

    def dress(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        """Add to the manifest of Pod ``index`` of a task, in place. Raises PluginError."""

    def wanted(self, job: batch.Job) -> list[Wanted]:
        """The objects to bring. Raises PluginError."""


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """A PluginError tells which plugin it is of."""
    try:
        yield
    except PluginError as error:
        raise PluginError(f"plugin {name}: {error}") from error


def dress_pod(plugins: Mapping[str, JobPlugin], pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
    """Have every plugin add to the manifest of a Pod, in place. Raises PluginError, which names the plugin."""
    for name, plugin in plugins.items():
        with blamed(name):
            plugin.dress(pod, task, index, job)


def wanted_objects(plugins: Mapping[str, JobPlugin], job: batch.Job) -> list[Wanted]:
    """What all plugins bring. Raises PluginError, which names the plugin."""
    objects: list[Wanted] = []
    for name, plugin in plugins.items():
        with blamed(name):
            objects += plugin.wanted(job)
    return objects
