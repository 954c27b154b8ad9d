"""Errors that name the plugin or action that raised an exception, the extension point, and the object.

A ``try`` around the calls of plugins' functions names the plugin (``raise_as``); it costs nothing while nothing is
raised. The arguments of the call say what the error is about. Callers further out add the job or Pod that they work on
if the function did not receive it, as a Filter does not.
"""

from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, NoReturn

import msgspec

from scheduler.api.decisions import ObjectRef, group_ref, pod_ref
from scheduler.api.job import Job
from scheduler.api.names import SCHEDULING_API_VERSION
from scheduler.api.queue import Queue
from scheduler.api.sub_job import SubJob
from scheduler.api.task import Task, TaskClass
from scheduler.framework.extension import EvictionContext, ReclaimContext


class Subject(msgspec.Struct, frozen=True):
    """The objects that a call is about, as far as they are known."""

    task: Task | None = None
    job: Job | None = None
    queue: Queue | None = None
    node: str = ""

    @classmethod
    def of(cls, arguments: Iterable[object], node: str = "") -> "Subject":
        """Returns the subject of a call with these arguments. A task class stands for the job's first task of it, a
        sub-job or a list of tasks for its first task."""
        found: dict[type, Any] = {}
        for argument in arguments:
            it: object = argument
            if isinstance(argument, EvictionContext | ReclaimContext):
                it = argument.job
            elif isinstance(argument, SubJob):
                it = next(iter(argument.tasks.values()), None)
            elif isinstance(argument, list | tuple) and argument:
                it = argument[0]
            found.setdefault(type(it), it)
        task, job, task_class = found.get(Task), found.get(Job), found.get(TaskClass)
        if task is None and job is not None and task_class is not None:
            task = next((each for each in job.tasks() if each.cls is task_class), None)
        return cls(task, job, found.get(Queue), node)

    @property
    def job_key(self) -> str:
        """The key of the job; "": the subject is no job, or its job is not known."""
        return self.job.key if self.job is not None else self.task.job if self.task is not None else ""

    def within(self, outer: "Subject") -> "Subject":
        """Returns the subject with the objects that a caller works on, as far as it does not name such objects
        itself."""
        if self.queue is not None and not self.job_key:
            return self  # it is about the queue, whatever job is worked on
        task, node = self.task, self.node or outer.node
        if task is None and (self.job is None or self.job is outer.job):
            task = outer.task
        return Subject(task, outer.job if self.job is None and self.task is None else self.job, self.queue, node)

    def __str__(self) -> str:
        words = []
        if self.task is not None:
            words.append(f"Pod {self.task.key}")
        if self.job_key:
            words.append(f"job {self.job_key}")
        elif self.queue is not None:
            words.append(f"queue {self.queue.name}")
        if self.node:
            words.append(f"node {self.node}")
        return ", ".join(words)

    def reference(self) -> ObjectRef | None:
        """Returns a reference to the Pod, or else the PodGroup, the Queue or the Node."""
        if self.task is not None:
            return pod_ref(self.task)
        if self.job is not None and self.job.uid:
            return group_ref(self.job)
        if self.queue is not None:
            return ObjectRef(SCHEDULING_API_VERSION, "Queue", "", self.queue.name)
        return ObjectRef("v1", "Node", "", self.node) if self.node else None


class PluginError(Exception):
    """A plugin or action raised an exception. Nothing of the cycle is carried out."""

    def __init__(self, owner: str, point: str, problem: str, subject: str = "", about: ObjectRef | None = None) -> None:
        """``owner``: ``plugin x`` or ``action x``. ``point``: the extension point, or the method that raised.
        ``subject``: the object concerned, in words. ``about``: the object that the Event is recorded for."""
        super().__init__(owner, point, problem, subject, about)
        self.owner = owner
        self.point = point
        self.problem = problem
        self.subject = subject
        self.about = about
        self._subject: Subject | None = None

    @classmethod
    def of(cls, owner: str, point: str, problem: str, subject: Subject) -> "PluginError":
        """Returns an error to whose subject callers may add (``add_subject``)."""
        error = cls(owner, point, problem, str(subject), subject.reference())
        error._subject = subject
        return error

    def add_subject(self, *arguments: object, node: str = "") -> None:
        """Adds the objects that a caller works on, as far as the error does not name such objects."""
        if self._subject is not None:
            self._subject = self._subject.within(Subject.of(arguments, node))
            self.subject, self.about = str(self._subject), self._subject.reference()

    def __str__(self) -> str:
        about = f" (about {self.subject})" if self.subject else ""
        return f"{self.owner}: {self.point}{about}: {self.problem}"


class RegistrationError(PluginError):
    """A plugin registered a function that its extension point cannot use."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f"plugin {plugin}", point, problem)


class AnswerError(TypeError):
    """A function, Filter or Score of a plugin gave an answer that its extension point cannot use."""


def raise_as(owner: str, point: str, error: Exception, *arguments: object, node: str = "") -> NoReturn:
    """Raises an exception as a PluginError. A PluginError is raised again, with its own owner and point. ``arguments``:
    of the call. ``node``: the name of the node that the call is about."""
    if isinstance(error, PluginError):
        error.add_subject(*arguments, node=node)
        raise error
    raise PluginError.of(owner, point, words_of(error), Subject.of(arguments, node)) from error


def words_of(error: BaseException) -> str:
    if isinstance(error, AnswerError):
        return str(error)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, AttributeError) and isinstance(error.obj, TaskClass) and error.name in ("queue", "job"):
        words += f"; a filter or score that is registered with per_{error.name}=True receives the {error.name}"
    return words


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", "") or repr(function)[:66])


def place_of(function: Callable[..., Any]) -> str:
    """The file and the line of a lambda, which has no name of its own; "" for other functions."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or code.co_name != "<lambda>":
        return ""
    return f" ({code.co_filename}:{code.co_firstlineno})"


def key_error(
    plugin: str, point: str, function: Callable[..., Any], subjects: Iterable[Task | Job | Queue]
) -> PluginError | None:
    """Returns the error of a function that returns keys which cannot be compared with each other; None: they can be.

    The exception that such keys raise leaves the place that sorts, where nothing says whose keys they are.
    """
    first: Any = None
    for number, subject in enumerate(subjects):
        key = function(subject)
        first = first if number else key
        try:
            bool(first < key or first == key)
        except (TypeError, ValueError):
            problem = (
                f"function {name_of(function)}{place_of(function)} returned keys that cannot be compared: "
                f"{first!r:.66} and {key!r:.66}"
            )
            return PluginError.of(f"plugin {plugin}", point, problem, Subject.of((subject,)))
    return None
