"""What plugins receive in ``open``: a session to read, on which they register functions, and nothing that decides."""

import inspect
from collections.abc import Callable
from typing import ClassVar, get_type_hints

import pytest

import scheduler.plugins  # noqa: F401  registers the built-in plugins
from scheduler.api.decisions import Evict, ObjectWrite
from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.task import TaskStatus
from scheduler.framework import registry
from scheduler.framework.extension import POINTS, ExtensionPoint
from scheduler.framework.failures import PluginError, RegistrationError
from scheduler.framework.plugin_session import Plugin, PluginSession
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod
from tests.unit.framework.fake_plugin import fake_plugin

READS = {
    *("active_jobs", "configuration", "dimensions", "external_calls", "hyper_nodes", "jobs", "nodes", "now", "placing"),
    *("plugins", "problems", "queues", "settled_jobs", "shared", "snapshot", "task_key", "total", "touched"),
    *("arguments", "filters", "job_missing", "memo", "once", "option", "queues_with_jobs", "row_of", "status_of"),
    "view_key",
}
REPORTS = {"event", "field_reporter", "malformed_field", "malformed_pod", "refuse", "touch", "write"}
REGISTERS = {point.method for point in POINTS} | {"add_claim_state", "add_deletions", "add_handlers", "add_veto"}
BUILT_IN = [factory for factory in registry._plugins.values() if factory.__module__.startswith("scheduler.plugins.")]
PLACED = (node("n", "4c"), group("g"), pod("p", "1c", "g", on="n"))


def opened() -> Session:
    return World(*PLACED).session(configuration(["gang"]))


# --- what a plugin may touch ---
def test_a_plugin_reads_reports_and_registers() -> None:
    session = opened().plugin_session
    public = {name for name in dir(session) if not name.startswith("_")}
    assert public == READS | REPORTS | REGISTERS | {"registering"}


@pytest.mark.parametrize(
    "name",
    [
        *("bind", "evict", "pipeline", "allocate", "statement", "decisions", "ungate", "assigned", "choose", "delete"),
        *("ask", "call", "insert", "notify_allocate", "notify_deallocate", "eviction_candidates", "release", "view"),
    ],
)
def test_a_plugin_has_nothing_that_decides_or_binds(name: str) -> None:
    assert not hasattr(opened().plugin_session, name)


def test_a_plugin_that_decides_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = fake_plugin(lambda session: session.statement(), monkeypatch)  # type: ignore[attr-defined]
    with pytest.raises(PluginError, match="open: AttributeError: 'PluginSession' object has no attribute 'statement'"):
        World(node("n")).session(conf)


def test_a_plugin_reads_the_objects_of_the_session_themselves() -> None:
    session = opened()
    for name in ("jobs", "active_jobs", "queues", "nodes", "dimensions", "snapshot", "shared", "problems", "total"):
        assert getattr(session.plugin_session, name) is getattr(session, name)


def test_what_plugins_share_is_made_once_and_receives_what_plugins_receive() -> None:
    session = opened().plugin_session
    made: list[PluginSession] = []
    assert session.once(made.append) is session.once(made.append) is None
    assert made == [session]


@pytest.mark.parametrize("plugin", BUILT_IN, ids=lambda plugin: plugin.__name__)
def test_the_built_in_plugins_are_opened_with_it(plugin: type[Plugin]) -> None:
    assert get_type_hints(plugin.open)["session"] is PluginSession


# --- extension points ---
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.name)
def test_the_registering_method_of_a_point_has_its_docstring_and_its_type(point: ExtensionPoint) -> None:
    method: Callable[..., None] = getattr(PluginSession, point.method)
    documentation = inspect.getdoc(method)
    assert point.meaning and documentation is not None and documentation.startswith(point.meaning)
    if point.method not in ("add_filter", "add_score"):
        _, function, *_ = inspect.signature(method).parameters.values()
        assert function.annotation == f"Callable[[{', '.join(point.takes)}], {point.answer}]"


def test_a_registering_method_shows_its_options() -> None:
    assert str(inspect.signature(PluginSession.add_job_ready)) == (
        "(self, function: 'Callable[[Job], int]', /, *, by_demand: bool = False) -> None"
    )
    assert "``by_demand``: the answer" in str(PluginSession.add_job_ready.__doc__)


def test_an_option_that_a_point_does_not_have_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = fake_plugin(
        lambda session: session.add_job_valid(lambda job: None, by_demand=True),  # type: ignore[call-arg]
        monkeypatch,
    )
    with pytest.raises(PluginError, match=r"plugin fake: open: TypeError: .*unexpected keyword argument 'by_demand'"):
        World(node("n")).session(conf)


# --- what a plugin wants to be carried out ---
def test_tasks_that_a_plugin_deletes_are_evicted_when_the_session_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses: list[bool] = []

    def opening(session: PluginSession) -> None:
        job = session.jobs["default/g"]
        session.add_deletions(lambda: [Evict(task, "defective", 0) for task in job.tasks()])
        session.add_close(lambda: statuses.append(bool(job.of(TaskStatus.RELEASING))))

    world = World(*PLACED).run(fake_plugin(opening, monkeypatch))
    assert world.evicted == {"p"} and statuses == [True]
    assert [(evict.reason, evict.grace_period) for evict in world.decisions.evictions] == [("defective", 0)]


def test_a_task_that_an_action_has_evicted_is_not_deleted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empties:
        name: ClassVar[str] = "empties"

        def execute(self, session: Session) -> None:
            statement, job = session.statement(), session.jobs["default/g"]
            for task in list(job.tasks()):
                statement.evict(job, task, self.name)
            statement.commit()

    monkeypatch.setattr(registry, "_actions", dict(registry._actions))
    registry.register_action(Empties)

    def opening(session: PluginSession) -> None:
        job = session.jobs["default/g"]
        session.add_deletions(lambda: [Evict(task, "defective") for task in job.tasks()])

    fake_plugin(opening, monkeypatch)
    world = World(*PLACED).run(configuration(["gang", "fake"], actions="empties"))
    assert [evict.reason for evict in world.decisions.evictions] == ["empties"]


def test_deletions_without_a_job_in_the_session_are_decided_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        lone = session.snapshot.tasks_without_job
        session.add_deletions(lambda: [Evict(task, "defective", 0) for task in lone])

    world = World(node("n", "4c"), pod("p", "1c", "gone", on="n")).run(fake_plugin(opening, monkeypatch))
    assert world.evicted == {"p"}


def test_deletions_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = fake_plugin(lambda session: session.add_deletions(lambda job: []), monkeypatch)  # type: ignore[arg-type, misc]
    with pytest.raises(RegistrationError, match=r"plugin fake: Close: function .*missing a required argument: 'job'"):
        World(node("n")).session(conf)


def test_objects_that_a_plugin_writes_are_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    write = ObjectWrite(CONFIG_MAP, "default", "state", {"data": {"a": "b"}}, new=True)
    world = World(node("n")).run(fake_plugin(lambda session: session.write(write), monkeypatch))
    assert world.decisions.writes == [write]
