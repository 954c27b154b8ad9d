"""Finds the plugin or action that raised an exception, the extension point, and the object.

Functions are not wrapped. When an exception leaves a session, the frames of its traceback are compared with the
functions that plugins registered and with the Filters and Scores that they returned. If none of these raised it, but
the framework could not use an answer, the variables of the frame that raised hold the function, Filter or Score that
gave it. The job, task, queue or node is found in the variables of the frames nearest to the plugin.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any

from scheduler.api.decisions import ObjectRef, group_ref, pod_ref
from scheduler.api.job import Job
from scheduler.api.names import SCHEDULING_API_VERSION
from scheduler.api.node import Nodes
from scheduler.api.queue import Queue
from scheduler.api.task import Task, TaskClass
from scheduler.framework.extension import ExtensionPoint

Source = tuple[str, str, Any]
"""Plugin, extension point, and its function or object."""


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

    def __str__(self) -> str:
        about = f" (about {self.subject})" if self.subject else ""
        return f"{self.owner}: {self.point}{about}: {self.problem}"


class RegistrationError(PluginError):
    """A plugin registered a function that its extension point cannot use."""

    def __init__(self, plugin: str, point: str, problem: str) -> None:
        super().__init__(f"plugin {plugin}", point, problem)


class AnswerError(TypeError):
    """A function, Filter or Score of a plugin gave an answer that its extension point cannot use. The frame that raises
    it has a variable for the function, Filter or Score."""


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


def plugin_error(error: Exception, sources: Iterable[Source], nodes: Nodes, action: str) -> PluginError | None:
    """Returns the error with its owner; None if no plugin and no action is in its traceback. ``sources``: what plugins
    registered and returned. ``action``: the action that was running, or ""."""
    frames = list(_frames(error.__traceback__))
    found = _source(frames, list(sources))
    if found is None and not action:
        return None
    owner, point, at = found or (f"action {action}", "execute", len(frames) - 1)
    subject, about = _subject(frames[: at + 1][::-1], nodes)
    return PluginError(owner, point, words_of(error), subject, about)


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
            task = subject if isinstance(subject, Task) else None
            job = subject if isinstance(subject, Job) else None
            queue = subject if isinstance(subject, Queue) else None
            problem = (
                f"function {name_of(function)}{place_of(function)} returned keys that cannot be compared: "
                f"{first!r:.66} and {key!r:.66}"
            )
            return PluginError(
                f"plugin {plugin}", point, problem, _words(task, job, queue), _reference(task, job, queue)
            )
    return None


def _frames(traceback: TracebackType | None) -> Iterator[FrameType]:
    """The frames, from where the exception was caught to where it was raised."""
    while traceback is not None:
        yield traceback.tb_frame
        traceback = traceback.tb_next


def _source(frames: Sequence[FrameType], sources: Sequence[Source]) -> tuple[str, str, int] | None:
    """Returns owner, extension point and position of the frame nearest to the exception that belongs to a plugin."""
    functions = [(_code(answer), getattr(answer, "__self__", None), plugin, point) for plugin, point, answer in sources]
    objects = {id(answer): (plugin, point) for plugin, point, answer in sources if _code(answer) is None}
    ours = next((at for at in reversed(range(len(frames))) if is_of_this_program(frames[at])), -1)
    for at in reversed(range(len(frames))):
        frame = frames[at]
        itself = frame.f_locals.get("self")
        if itself is not None and id(itself) in objects:
            plugin, point = objects[id(itself)]
            return f"plugin {plugin}", f"{point} ({type(itself).__name__}.{frame.f_code.co_name})", at
        matching = [
            (plugin, point)
            for code, owner, plugin, point in functions
            if code is frame.f_code and (owner is None or owner is itself)
        ]
        if matching:
            asked = _asked_point(frames[:at])
            plugin, point = next((match for match in matching if match[1] == asked), matching[0])
            return f"plugin {plugin}", point, at
        if at == ours and (used := _used_answer(frame, sources)) is not None:
            plugin, point = used
            return f"plugin {plugin}", point, at
    return None


def is_of_this_program(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("scheduler.")


def _used_answer(frame: FrameType, sources: Sequence[Source]) -> tuple[str, str] | None:
    """Returns plugin and extension point of a function, Filter or Score in a variable of a frame, or None."""
    values = [*frame.f_locals.values()]
    used = {id(value) for value in values} | {
        id(getattr(value, "__self__", None)) for value in values if callable(value)
    }
    found = [(plugin, point) for plugin, point, answer in sources if id(answer) in used]
    asked = _asked_point([frame])
    return next((each for each in found if each[1] == asked), found[-1] if found else None)


def _asked_point(frames: Sequence[FrameType]) -> str:
    """Returns the extension point that was called, for functions that are registered at several."""
    points = (frame.f_locals.get("point") for frame in reversed(frames))
    return next((point.name for point in points if isinstance(point, ExtensionPoint)), "")


def _code(answer: Any) -> CodeType | None:
    while hasattr(answer, "func"):  # functools.partial
        answer = answer.func
    code = getattr(inspect.unwrap(answer) if callable(answer) else answer, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _subject(frames: Sequence[FrameType], nodes: Nodes) -> tuple[str, ObjectRef | None]:
    """Returns the object concerned, in words and as a reference. ``frames``: the nearest first."""
    task: Task | None = None
    job: Job | None = None
    queue: Queue | None = None
    row: int | None = None
    of_class = False
    for frame in frames:
        if queue is not None and job is None and task is None and not of_class:
            break  # it is about the queue, whatever job a frame further out has
        values = [*frame.f_locals.values()]
        cls = next((value for value in values if isinstance(value, TaskClass)), None)
        of_class = of_class or cls is not None
        job = job or next((value for value in values if isinstance(value, Job)), None)
        task = task or _task_of(values)
        queue = queue or next((value for value in values if isinstance(value, Queue)), None)
        if task is None and cls is not None and job is not None:
            task = next((one for one in job.tasks() if one.cls is cls), None)
        at = frame.f_locals.get("row")
        row = int(at) if row is None and isinstance(at, int) and 0 <= at < len(nodes) else row
    node = "" if row is None else nodes.names[row]
    return _words(task, job, queue, node), _reference(task, job, queue, node)


def _words(task: Task | None, job: Job | None, queue: Queue | None, node: str = "") -> str:
    words = []
    if task is not None:
        words.append(f"Pod {task.key}")
    if job is not None:
        words.append(f"job {job.key}")
    if queue is not None and job is None:
        words.append(f"queue {queue.name}")
    if node:
        words.append(f"node {node}")
    return ", ".join(words)


def _task_of(values: Sequence[Any]) -> Task | None:
    for value in values:
        if isinstance(value, Task):
            return value
    firsts = (value[0] for value in values if isinstance(value, list | tuple) and value)
    return next((first for first in firsts if isinstance(first, Task)), None)


def _reference(task: Task | None, job: Job | None, queue: Queue | None, node: str = "") -> ObjectRef | None:
    """Returns a reference to the Pod, or else the PodGroup, the Queue or the Node."""
    if task is not None:
        return pod_ref(task)
    if job is not None and job.uid:
        return group_ref(job)
    if queue is not None:
        return ObjectRef(SCHEDULING_API_VERSION, "Queue", "", queue.name)
    return ObjectRef("v1", "Node", "", node) if node else None
