"""Registers what plugins offer about their refusals: remedies and details. A decorated function belongs to a plugin
class; it is called only if that plugin is configured, with the plugin instance of the session."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from scheduler.api.job import Job
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.failures import PluginError, name_of, raise_as, words_of
from scheduler.framework.plugin_session import Plugin
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate
from scheduler.framework.session import Session
from scheduler.framework.signatures import check

P = TypeVar("P", bound=Plugin)
F = TypeVar("F", bound=Callable[..., Any])
PlanSource = Callable[[Evidence], Iterator[Plan]]


class RemedyError(PluginError):
    """The remedy of a plugin, or a function in one of its plans, raised an exception."""

    def __init__(self, plugin: Plugin, function: Callable[..., Any], problem: str) -> None:
        super().__init__(f"plugin {plugin.name}", f"remedy {name_of(function)}", problem)
        self.function = function


_remedies: list[tuple[type[Plugin], ChangeKind, Callable[..., Any]]] = []
_pod_details: list[tuple[type[Plugin], Callable[..., Any]]] = []
_job_details: list[tuple[type[Plugin], Callable[..., Any]]] = []
_node_labels: list[tuple[type[Plugin], Callable[..., Any]]] = []


def remedies(plugin: type[P], kind: ChangeKind = ChangeKind.PLUGIN) -> Callable[[F], F]:
    """Decorator of ``function(evidence, plugin)``, which yields plans that might let the job run, best first. They
    are tried in the position of ``kind`` in ``ChangeKind``."""

    def register(function: F) -> F:
        check(plugin.name, "Remedies", function, ("Evidence", plugin.__name__))
        _remedies.append((plugin, kind, function))
        return function

    return register


def pod_details(plugin: type[P]) -> Callable[[F], F]:
    """Decorator of ``function(session, plugin, task, job, reasons)``, which yields gates with numbers that the
    nodes' reasons for refusing the task lack."""

    def register(function: F) -> F:
        check(plugin.name, "Details of a Pod", function, ("Session", plugin.__name__, "Task", "Job", "reasons"))
        _pod_details.append((plugin, function))
        return function

    return register


def job_details(plugin: type[P]) -> Callable[[F], F]:
    """Decorator of ``function(session, plugin, job)``, which yields gates with numbers about a waiting job."""

    def register(function: F) -> F:
        check(plugin.name, "Details of a job", function, ("Session", plugin.__name__, "Job"))
        _job_details.append((plugin, function))
        return function

    return register


def node_labels(plugin: type[P]) -> Callable[[F], F]:
    """Decorator of ``function(evidence, plugin)``, which returns the labels that a node needs so that the job can
    use it."""

    def register(function: F) -> F:
        check(plugin.name, "Labels of nodes", function, ("Evidence", plugin.__name__))
        _node_labels.append((plugin, function))
        return function

    return register


# --- for explain ---
def remedies_of(session: Session, without: Collection[Callable[..., Any]] = ()) -> list[tuple[ChangeKind, PlanSource]]:
    """Returns the remedies of all configured plugins, except the functions ``without``: their kind, and the function
    that yields plans. This function and those in the plans raise RemedyError."""
    return [
        (kind, _plan_source(plugin, function))
        for plugin in session.plugins
        for cls, kind, function in _remedies
        if type(plugin) is cls and function not in without
    ]


def pod_details_of(session: Session, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """Yields the gates that the configured plugins add for a task that no node accepts."""
    for plugin in session.plugins:
        for cls, function in _pod_details:
            if type(plugin) is cls:
                yield from _with_plugin_name(plugin, "details of a Pod", function, session, plugin, task, job, reasons)


def job_details_of(session: Session, job: Job) -> Iterator[Gate]:
    """Yields the gates that the configured plugins add for a waiting job."""
    for plugin in session.plugins:
        for cls, function in _job_details:
            if type(plugin) is cls:
                yield from _with_plugin_name(plugin, "details of a job", function, session, plugin, job)


def node_labels_of(evidence: Evidence) -> dict[str, str]:
    """The labels that a node needs so that the job can use it."""
    found: dict[str, str] = {}
    for plugin in evidence.session.plugins:
        for cls, function in _node_labels:
            if type(plugin) is cls:
                found |= function(evidence, plugin)
    return found


def _plan_source(plugin: Plugin, function: Callable[..., Any]) -> PlanSource:
    """Returns the function that yields the plans of a remedy. A plan holds functions that are called later; their
    exceptions name the remedy, too."""

    @contextmanager
    def naming() -> Iterator[None]:
        try:
            yield
        except RemedyError:
            raise
        except Exception as error:  # an external plugin may raise anything
            raise RemedyError(plugin, function, words_of(error)) from error

    def plans(evidence: Evidence) -> Iterator[Plan]:
        opened_with = evidence.session.opened_with
        with naming():
            for plan in function(evidence, plugin):
                yield tuple(named(adjustment, opened_with) for adjustment in plan)

    def named(adjustment: Adjustment, opened_with: Mapping[str, Arguments]) -> Adjustment:
        at, split = adjustment.at, adjustment.split

        def named_step(amount: int) -> Step:
            with naming():
                step = at(amount)
                _check_arguments(step, opened_with)
                return replace(step, edits=tuple(map(named_edit, step.edits)))

        def named_split(amount: int) -> Plan:
            with naming():
                return () if split is None else tuple(named(part, opened_with) for part in split(amount))

        return replace(adjustment, at=named_step, split=split and named_split)

    def named_edit(edit: Edit) -> Edit:
        def transform(raw: Raw) -> Raw | None:
            with naming():
                return edit.transform(raw)

        return replace(edit, transform=transform)

    return plans


def _check_arguments(step: Step, opened_with: Mapping[str, Arguments]) -> None:
    """Raises LookupError if a step sets an argument that no plugin would read. ``opened_with``: plugin -> its arguments
    in the last session."""
    for plugin, arguments in step.arguments.items():
        if plugin not in opened_with:
            raise LookupError(f"a Step sets arguments of plugin {plugin!r:.66}, which is not configured")
        for key in arguments:
            if not opened_with[plugin].may_be_read(key):
                raise LookupError(f"a Step sets argument {key!r:.66}, which plugin {plugin} does not read")


def _with_plugin_name(
    plugin: Plugin, what: str, function: Callable[..., Iterable[Any]], *given: object
) -> Iterator[Any]:
    """Yields what the function yields. Raises PluginError with the plugin's name if the function raises."""
    try:
        yield from function(*given)
    except Exception as error:  # an external plugin may raise anything
        raise_as(f"plugin {plugin.name}", what, error)
