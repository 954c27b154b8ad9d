"""What a job plugin is: something that a vcjob's ``spec.plugins`` names with arguments, that adds to the job's Pods and
brings objects of its own. The plugins are pure: what they make is returned, and the job controller has it written."""

from collections.abc import Callable
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
