"""One scheduling cycle as a function of a snapshot and a configuration, which returns decisions.

The driver of the scheduler (the daemon on a real cluster, the simulator, a test, a replay) calls it and carries out the
decisions. The outcome also has the times measured for metrics.
"""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from scheduler.api.decisions import Decisions
from scheduler.api.job import Job
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration
from scheduler.framework.extension import JOB_ORDER, QUEUE_ORDER, TASK_ORDER, ExtensionPoint
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, ExternalCalls
from scheduler.framework.failures import PluginError, key_error, raise_as
from scheduler.framework.session import Session
from scheduler.framework.status import close_session
from scheduler.framework.waiting import report_misspelt_resources


@dataclass(slots=True)
class Outcome:
    """The result of one cycle."""

    decisions: Decisions
    malformed: list[Malformed]
    session: Session
    """The closed session, for reports on why jobs wait. It holds the snapshot, so it should be dropped soon."""
    open_seconds: float = 0.0
    action_seconds: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0


class SessionDemand(IntEnum):
    """Whether a session is needed, from the weakest answer to the one that prevails."""

    NONE = 0
    """No session is needed before the cache changes."""
    LATER = 1
    """No session is needed now, but one may be after a period although the cache has not changed."""
    NOW = 2
    FORBIDDEN = 3
    """No session may be held now."""


class SessionObserver(Protocol):
    """A part of the scheduler that follows its sessions and decides nothing, such as a record or a report. The driver
    calls the methods in this order; each does nothing by default."""

    async def demand(self) -> SessionDemand:
        """Whether a session is needed now, as far as the observer can tell."""
        return SessionDemand.NONE

    def opened(self, snapshot: Snapshot, configuration: Configuration, nodes_limit: int) -> None:
        """A session begins."""
        return

    def decided(self, decisions: Decisions) -> None:
        """The session has ended; its decisions are not carried out yet, and some may be left out."""
        return

    async def ended(self, outcome: Outcome) -> None:
        """The decisions are being carried out. The session is released after this."""
        return


def run_cycle(
    snapshot: Snapshot,
    configuration: Configuration,
    *,
    nodes_limit: int = 0,
    make_session: Callable[..., Session] = Session,
    external_calls: ExternalCalls = NO_EXTERNAL_CALLS,
) -> Outcome:
    """Opens a session, runs the configured actions in order, and closes it.

    ``make_session``: the type of session, for callers that trace decisions. ``external_calls``: carries out requests of
    plugins to other programs.

    Raises PluginError if a plugin or an action raises an exception. Nothing has been carried out then; the caller
    reports the error and tries again with the next snapshot.
    """
    started = time.perf_counter()
    session = make_session(snapshot, configuration, nodes_limit=nodes_limit, external_calls=external_calls)
    open_plugins(session, time.perf_counter)
    opened = time.perf_counter()
    outcome = Outcome(session.decisions, session.malformed, session, open_seconds=opened - started)
    for name in configuration.actions:
        factory = registry.action(name)
        if factory is None:
            continue
        begun = time.perf_counter()
        arguments = Arguments(configuration.action_arguments.get(name))
        try:
            registry.create(factory, arguments).execute(session)
        except Exception as error:  # the code of others may raise anything
            _raise_key_error(session, error)
            raise_as(f"action {name}", "execute", error)
        session.problems += [f"action {name}: {problem}" for problem in _problems(arguments)]
        outcome.action_seconds[name] = time.perf_counter() - begun
    close_session(session)
    if any(job.of(TaskStatus.PENDING) or not job.size for job in session.active_jobs.values()):
        report_misspelt_resources(session)
    outcome.seconds = time.perf_counter() - started
    return outcome


def _raise_key_error(session: Session, error: Exception) -> None:
    """Raises the error of the first plugin whose keys of jobs, queues or tasks cannot be compared, if this may have
    caused an exception of an action."""
    of_action = isinstance(error, PluginError) and error.owner.startswith("action ")
    cause = error.__cause__ if of_action else error
    if not isinstance(cause, TypeError | ValueError):
        return
    jobs = session.active_jobs.values()
    subjects: dict[ExtensionPoint, Collection[Task | Job | Queue]] = {
        JOB_ORDER: jobs,
        QUEUE_ORDER: session.queues.values(),
        TASK_ORDER: [task for job in jobs for task in job.tasks()],
    }
    found: PluginError | None = None
    for point, of in subjects.items():
        for function in session.all_functions(point):
            with suppress(Exception):  # the exception that was raised first is reported
                found = found or key_error(session.plugin_of(function), point.name, function, of)
    if found is not None:
        raise found from cause


def open_plugins(session: Session, stopwatch: Callable[[], float] = lambda: 0.0) -> None:
    """Opens all configured plugins. Unknown names are skipped.

    ``stopwatch``: returns the seconds since any moment, for ``open_seconds`` only. Raises PluginError if a plugin
    raises.
    """
    for number, tier in enumerate(session.configuration.tiers):
        for option in tier:
            factory = registry.plugin(option.name)
            if factory is None:
                continue
            begun = stopwatch()
            arguments = session.opened_with[option.name] = Arguments(option.arguments)
            with session.plugin_session.registering(option, number):
                try:
                    plugin = registry.create(factory, arguments)
                    session.plugins.append(plugin)
                    plugin.open(session.plugin_session)
                except Exception as error:  # the code of others may raise anything
                    raise_as(f"plugin {option.name}", "open", error)
            session.problems += [f"plugin {option.name}: {problem}" for problem in _problems(arguments)]
            session.open_seconds[option.name] = stopwatch() - begun


def _problems(arguments: Arguments) -> list[str]:
    """Returns the problems of the arguments of a plugin or an action, including arguments that it has not read."""
    known = ", ".join(arguments.known) or "none"
    unknown = [f"argument {key} is not known; it is ignored; known: {known}" for key in arguments.unknown]
    return arguments.problems + unknown


def open_session(session: Session) -> Session:
    """Returns the session with its plugins opened."""
    open_plugins(session)
    return session
