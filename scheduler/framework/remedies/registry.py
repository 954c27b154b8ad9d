"""What plugins offer about their refusals: changes that might help, and details. Functions are registered by decorators
for the class of a plugin; one is called only if that plugin is configured, and is given the plugin of the session."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from scheduler.api.job import Job
from scheduler.api.task import Task
from scheduler.framework.failures import PluginError, words_of
from scheduler.framework.remedies.adjustments import ChangeKind, Plan
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate
from scheduler.framework.session import Plugin, Session
from scheduler.framework.signatures import check

P = TypeVar("P", bound=Plugin)
F = TypeVar("F", bound=Callable[..., Any])
Offer = Callable[[Evidence], Iterator[Plan]]


_remedies: list[tuple[type[Plugin], ChangeKind, Callable[..., Any]]] = []
_pod_details: list[tuple[type[Plugin], Callable[..., Any]]] = []
_job_details: list[tuple[type[Plugin], Callable[..., Any]]] = []
_node_labels: list[tuple[type[Plugin], Callable[..., Any]]] = []


def remedies(plugin: type[P], place: ChangeKind = ChangeKind.PLUGIN) -> Callable[[F], F]:
    """Decorator of ``function(evidence, plugin)``, which yields plans that might let the job run, the best first. They
    are tried where ``place`` stands among all kinds of changes."""

    def register(function: F) -> F:
        check(plugin.name, "Remedies", function, ("Evidence", plugin.__name__))
        _remedies.append((plugin, place, function))
        return function

    return register


def pod_details(plugin: type[P]) -> Callable[[F], F]:
    """Decorator of ``function(session, plugin, task, job, reasons)``, which yields what the reasons of the nodes that
    refuse a task leave unsaid, with numbers."""

    def register(function: F) -> F:
        check(plugin.name, "Details of a Pod", function, ("Session", plugin.__name__, "Task", "Job", "reasons"))
        _pod_details.append((plugin, function))
        return function

    return register


def job_details(plugin: type[P]) -> Callable[[F], F]:
    """Decorator of ``function(session, plugin, job)``: the same of a job that waits."""

    def register(function: F) -> F:
        check(plugin.name, "Details of a job", function, ("Session", plugin.__name__, "Job"))
        _job_details.append((plugin, function))
        return function

    return register


def node_labels(plugin: type[P]) -> Callable[[F], F]:
    """Decorator of ``function(evidence, plugin)``, which returns the labels that a node needs for the job to use it."""

    def register(function: F) -> F:
        check(plugin.name, "Labels of nodes", function, ("Evidence", plugin.__name__))
        _node_labels.append((plugin, function))
        return function

    return register


# --- for explain ---
def remedies_of(session: Session) -> list[tuple[ChangeKind, Offer]]:
    """Where in the order of kinds plans are to be tried, and what yields them, of all configured plugins."""
    return [
        (place, _offer(plugin, function))
        for plugin in session.plugins
        for cls, place, function in _remedies
        if type(plugin) is cls
    ]


def pod_details_of(session: Session, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """What configured plugins have to say about a task that no node takes."""
    for plugin in session.plugins:
        for cls, function in _pod_details:
            if type(plugin) is cls:
                yield from _named(plugin, "details of a Pod", function, session, plugin, task, job, reasons)


def job_details_of(session: Session, job: Job) -> Iterator[Gate]:
    """What configured plugins have to say about a job that waits."""
    for plugin in session.plugins:
        for cls, function in _job_details:
            if type(plugin) is cls:
                yield from _named(plugin, "details of a job", function, session, plugin, job)


def node_labels_of(evidence: Evidence) -> dict[str, str]:
    """The labels that a node needs for the job to use it."""
    found: dict[str, str] = {}
    for plugin in evidence.session.plugins:
        for cls, function in _node_labels:
            if type(plugin) is cls:
                found |= function(evidence, plugin)
    return found


def _offer(plugin: Plugin, function: Callable[..., Any]) -> Offer:
    return lambda evidence: _named(plugin, "remedies", function, evidence, plugin)


def _named(plugin: Plugin, what: str, function: Callable[..., Iterable[Any]], *given: object) -> Iterator[Any]:
    """What the function yields. Raises PluginError, which names the plugin, where it raises."""
    try:
        yield from function(*given)
    except PluginError:
        raise
    except Exception as error:  # the code of others may raise anything
        raise PluginError(f"plugin {plugin.name}", what, words_of(error)) from error
