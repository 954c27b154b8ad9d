"""An exception in a plugin names the plugin, the extension point and the object; its cycle decides nothing."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest

from scheduler.api.job import Job
from scheduler.api.node import Rows
from scheduler.api.queue import Queue
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.columns import CodedFilter, Counts, MaskFilter, Scope, StaticScore
from scheduler.framework.extension import DEVICE_FAULTS, HELD_AMOUNTS, NODE_DEVICES, PREEMPTABLE, Vote
from scheduler.framework.failures import AnswerError, PluginError
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from tests.builders import World, configuration, group, node, pod, pods, queue
from tests.unit.framework.fake_plugin import Opening, fake_plugin


def boom(*_: object) -> Any:
    raise KeyError("boom")


class Broken:
    """A Filter that raises."""

    scope = Scope.NODE
    unresolvable = False

    def room(self, rows: Rows) -> Counts:
        raise KeyError("boom")

    def reasons(self, rows: Rows) -> list[tuple[str, int]]:
        return []


class BrokenScore:
    scope = Scope.STATIC

    def values(self, rows: Rows, ahead: Counts | None) -> np.ndarray[Any, Any]:
        raise KeyError("boom")


def error_of(opening: Opening, monkeypatch: pytest.MonkeyPatch, cause: type[Exception] = KeyError) -> PluginError:
    """The exception of a cycle with a plugin that registers in this way; the job is ``default/g`` in queue ``q``, with
    Pod ``p``."""
    conf = fake_plugin(opening, monkeypatch)
    world = World(node("n1"), node("n2"), queue("q"), group("g", "q", asks="1c"), pod("p", "1c", "g"))
    with pytest.raises(PluginError) as raised:
        world.run(conf)
    assert isinstance(raised.value.__cause__, cause)
    return raised.value


def _valid(job: Job) -> None:
    raise KeyError("boom")


def _room(queue: Queue, job: Job, cls: TaskClass) -> int:
    raise KeyError("boom")


def _enqueueable(job: Job) -> Vote:
    raise KeyError("boom")


def _filters(cls: TaskClass) -> list[Any]:
    raise KeyError("boom")


def _overused(queue: Queue) -> None:
    raise KeyError("boom")


def _annotations(task: Task, row: int) -> dict[str, str]:
    raise KeyError("boom")


def _task_key(task: Task) -> int:
    raise KeyError("boom")


def _allocate(job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
    raise KeyError("boom")


@pytest.mark.parametrize(
    ("opening", "expected", "kind"),
    [
        (lambda s: s.add_job_valid(_valid), "JobValid (about job default/g)", "PodGroup"),
        (lambda s: s.add_job_valid(partial(boom, 1)), "JobValid (about job default/g)", "PodGroup"),
        (lambda s: s.add_job_enqueueable(_enqueueable), "JobEnqueueable (about job default/g)", "PodGroup"),
        (lambda s: s.add_allocatable(_room), "Allocatable (about Pod default/p, job default/g)", "Pod"),
        (lambda s: s.add_overused(_overused), "Overused (about queue q)", "Queue"),
        (lambda s: s.add_filter(_filters), "Filter (about Pod default/p, job default/g)", "Pod"),
        (lambda s: s.add_filter(lambda cls, queue: boom(), per_queue=True), "Filter (about Pod default/p", "Pod"),
        (lambda s: s.add_filter(lambda cls, key: [], per_job=boom), "Filter key (about Pod default/p", "Pod"),
        (lambda s: s.add_filter(lambda cls: [Broken()]), "Filter (Broken.room) (about Pod default/p", "Pod"),
        (lambda s: s.add_score(lambda cls: [BrokenScore()]), "Score (BrokenScore.values) (about Pod", "Pod"),
        (lambda s: s.add_task_order(_task_key), "TaskOrder (about Pod default/p, job default/g)", "Pod"),
        (
            lambda s: s.add_bind_annotations(_annotations),
            "BindAnnotations (about Pod default/p, job default/g, node",
            "Pod",
        ),
        (lambda s: s.add_handlers(_allocate, boom), "Allocate (about Pod default/p, job default/g", "Pod"),
        (lambda s: s.add_close(boom), "Close: KeyError", None),
        (boom, "open: KeyError", None),
    ],
)
def test_an_exception_names_plugin_point_and_object(
    opening: Opening, expected: str, kind: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = error_of(opening, monkeypatch)
    assert str(error).startswith(f"plugin fake: {expected}")
    assert str(error).endswith("KeyError: 'boom'")
    assert (error.about.kind if error.about is not None else None) == kind


def test_of_two_points_of_one_function_the_one_that_was_asked_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        session.add_job_pipelined(_enqueueable)
        session.add_job_enqueueable(_enqueueable)

    assert error_of(opening, monkeypatch).point == "JobEnqueueable"


def test_of_two_plugins_the_one_that_raised_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asking:
        """A plugin whose answer depends on the answers of other plugins."""

        name: ClassVar[str] = "asking"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def open(self, session: PluginSession) -> None:
            def valid(job: Job) -> Refusal | None:
                session.task_key(next(iter(job.tasks())))
                return None

            session.add_job_valid(valid)

    monkeypatch.setitem(registry._plugins, "asking", Asking)
    world = World(node("n1"), group("g"), pod("p", "1c", "g"))

    class Fake(Asking):
        name: ClassVar[str] = "fake"

        def open(self, session: PluginSession) -> None:
            session.add_task_order(_task_key)

    monkeypatch.setitem(registry._plugins, "fake", Fake)
    with pytest.raises(PluginError, match="plugin fake: TaskOrder"):
        world.run(configuration(["asking", "fake"]))


def test_an_exception_in_an_action_names_the_action(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        name: ClassVar[str] = "failing"

        def __init__(self, arguments: Arguments) -> None:
            del arguments

        def execute(self, session: Session) -> None:
            raise ValueError("no")

    monkeypatch.setitem(registry._actions, "failing", Failing)
    with pytest.raises(PluginError, match="action failing: execute: ValueError: no"):
        World(node("n")).run(configuration(["gang"], actions="failing"))


# --- methods of Filters and Scores ---
class Raising:
    """A Filter and Score of which one method raises."""

    unresolvable = True
    moves = True

    def __init__(self, method: str, scope: Scope = Scope.NODE, room: int = 1) -> None:
        self._method = method
        self.scope = scope
        self._room = room

    def _answer(self, method: str, answer: Any) -> Any:
        if method == self._method:
            raise KeyError("boom")
        return answer

    def room(self, rows: Rows) -> Any:
        return self._answer("room", np.full(len(rows), self._room))

    def future_room(self, rows: Rows) -> Any:
        return self._answer("future_room", np.full(len(rows), self._room))

    def reasons(self, rows: Rows) -> Any:
        return self._answer("reasons", [("no", len(rows))])

    def shortages(self, rows: Rows) -> Any:
        return self._answer("shortages", [])

    def values(self, rows: Rows, ahead: Counts | None) -> Any:
        return self._answer("values", np.zeros(len(rows)))

    def traits(self, rows: Rows) -> Any:
        return self._answer("traits", [rows % 2])

    def place(self, row: int, number: int) -> None:
        self._answer("place", None)

    def of_groups(self, rows: Rows, sizes: Counts) -> Any:
        return self._answer("of_groups", np.zeros(len(rows)))


@pytest.mark.parametrize(
    ("answer", "score", "where", "node_named"),
    [
        *((Raising("room", scope), False, "Filter (Raising.room)", "") for scope in Scope),
        *((Raising("reasons", scope, 0), False, "Filter (Raising.reasons)", "") for scope in Scope),
        (Raising("shortages", room=0), False, "Filter (Raising.shortages)", ""),
        (Raising("future_room", room=0), False, "Filter (Raising.future_room)", ""),
        (Raising("traits", Scope.CLUSTER), False, "Filter (Raising.traits)", ""),
        (Raising("place", Scope.CLUSTER), False, "Filter (Raising.place)", ", node n1"),
        (Raising("values", Scope.STATIC), True, "Score (Raising.values)", ""),
        (Raising("values"), True, "Score (Raising.values)", ""),
        (Raising("traits", Scope.CLUSTER), True, "Score (Raising.traits)", ""),
        (Raising("of_groups", Scope.CLUSTER), True, "Score (Raising.of_groups)", ""),
    ],
)
def test_a_method_of_a_filter_or_score_that_raises_is_named(
    answer: Raising, score: bool, where: str, node_named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opening(session: PluginSession) -> None:
        (session.add_score if score else session.add_filter)(lambda cls: [answer])

    conf = fake_plugin(opening, monkeypatch)
    nodes = [node(f"n{number}", "9c") for number in (1, 2, 3)]
    with pytest.raises(PluginError) as raised:
        World(nodes, group("g", minimum=3), pods("p", 3, "1c", "g")).run(conf)
    assert (
        str(raised.value)
        == f"plugin fake: {where} (about Pod default/p-0, job default/g{node_named}): KeyError: 'boom'"
    )


# --- evictions ---
def _gives_all(context: object, tasks: Sequence[Task]) -> Sequence[Task]:
    return tasks


@pytest.mark.parametrize(
    ("action", "opening", "expected"),
    [
        ("preempt", lambda s: s.add_preemptable(boom), "Preemptable (about Pod default/p, job default/g, node n)"),
        (
            "preempt",
            lambda s: s.add_preemptable(_gives_all, bound=boom),
            "bound of Preemptable (about Pod default/p, job default/g)",
        ),
        (
            "preempt",
            lambda s: s.add_veto(PREEMPTABLE, boom),
            "Preemptable (about Pod default/p, job default/g, node n)",
        ),
        ("preempt", lambda s: s.add_job_starving(boom), "JobStarving (about job default/g)"),
        (
            "preempt",
            lambda s: s.add_filter(lambda cls: [Raising("room")]),
            "Filter (Raising.room) (about Pod default/p",
        ),
        (
            "preempt",
            lambda s: s.add_handlers(lambda *_: None, boom),
            "Deallocate (about Pod default/l1, job default/low, node n)",
        ),
        ("reclaim", lambda s: s.add_preemptive(boom), "Preemptive (about Pod default/p, job default/g)"),
        ("reclaim", lambda s: s.add_reclaimable(boom), "Reclaimable (about Pod default/p, job default/g, node n)"),
        (
            "reclaim",
            lambda s: s.add_keeps_deserved(boom),
            "KeepsDeserved (about Pod default/l0, job default/g, node n)",
        ),
        (
            "reclaim",
            lambda s: s.add_keeps_deserved(lambda context, tasks: (), most=boom),
            "KeepsDeserved (about Pod default/p, job default/g)",
        ),
        (
            "gangreclaim",
            lambda s: s.add_unified_evictable(boom),
            "UnifiedEvictable (about Pod default/l1, job default/g)",
        ),
        (
            "gangreclaim",
            lambda s: s.add_unified_evictable(_gives_all, bound=boom),
            "bound of UnifiedEvictable (about Pod default/p, job default/g)",
        ),
        ("shuffle", lambda s: s.add_victim_tasks(boom), "VictimTasks (about Pod default/l0, job default/low)"),
        ("shuffle", lambda s: s.add_victim_limit(boom), "VictimLimit"),
    ],
)
def test_an_exception_while_evictions_are_decided_names_the_task_for_which_they_are(
    action: str, opening: Opening, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_plugin(opening, monkeypatch)
    with pytest.raises(PluginError) as raised:
        _run_evictions(action)
    assert str(raised.value).startswith(f"plugin fake: {expected}")
    assert str(raised.value).endswith("KeyError: 'boom'")


def _run_evictions(action: str) -> None:
    """Runs a cycle with plugin ``fake`` in which Pod ``p`` of job ``g`` needs room that two Pods of ``low`` hold."""
    running = [pod(f"l{i}", "1c", "low", on="n", priority=1, preemptable=True) for i in range(2)]
    mine = "a" if action == "preempt" else "b"
    world = World(
        node("n", "2c"),
        queue("a"),
        queue("b"),
        group("low", "a"),
        *running,
        group("g", mine),
        pod("p", "1c", "g", priority=9),
    )
    off = {"enablePreemptable": False}
    conf = configuration(
        {"gang": off, "priority": off, "conformance": {}, "fake": {}}, actions=f"enqueue, allocate, {action}"
    )
    world.run(conf)


def test_a_handler_that_does_not_let_an_eviction_be_undone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler may refuse a placement with an AllocationError, but not an undone placement."""

    def refuse(job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        raise AllocationError("no")

    fake_plugin(lambda s: s.add_handlers(refuse, lambda *_: None), monkeypatch)
    message = r"plugin fake: Allocate \(about Pod default/l1, job default/low, node n\): AllocationError: no"
    with pytest.raises(PluginError, match=message):
        _run_evictions("preempt")


# --- other calls ---
@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        (lambda s: s.add_node_assignment(boom), "NodeAssignment (about Pod default/p-0, job default/g)"),
        (lambda s: s.add_best_node(boom), "BestNode (about Pod default/p-0, job default/g)"),
        (lambda s: s.add_cards(boom), "Cards (about Pod default/p-0, job default/g)"),
        (lambda s: s.add_preparations(boom), "Preparations (about Pod default/p-0, job default/g, node n1)"),
        (lambda s: s.add_job_order(boom), "JobOrder (about job default/g)"),
        (lambda s: s.add_job_enqueued(boom), "JobEnqueued (about job default/g)"),
        (lambda s: s.add_held_amounts(boom), "HeldAmounts: "),
        (lambda s: s.add_deserved(boom), "Deserved: "),
        (lambda s: s.add_device_faults(boom), "DeviceFaults: "),
    ],
)
def test_the_subject_is_what_the_call_is_about(
    opening: Opening, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = fake_plugin(opening, monkeypatch)
    with pytest.raises(PluginError) as raised:
        World(node("n1", "9c"), node("n2", "9c"), group("g", minimum=2, asks="1c"), pods("p", 2, "1c", "g")).run(conf)
    assert str(raised.value).startswith(f"plugin fake: {expected}")
    assert str(raised.value).endswith("KeyError: 'boom'")


def _raising_while_read() -> Iterator[Any]:
    yield boom()


@pytest.mark.parametrize("point", ["held_amounts", "device_faults", "node_devices"])
def test_a_generator_that_raises_while_it_is_read_is_named(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = World(node("n1")).session(
        fake_plugin(lambda s: getattr(s, f"add_{point}")(_raising_while_read), monkeypatch)
    )
    asked = {"held_amounts": HELD_AMOUNTS, "device_faults": DEVICE_FAULTS, "node_devices": NODE_DEVICES}[point]
    with pytest.raises(PluginError, match=f"plugin fake: {asked.name}: KeyError"):
        session.ask(asked)


def test_an_identity_that_cannot_be_computed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Anonymous(Raising):
        @property
        def identity(self) -> object:
            raise KeyError("boom")

    error = error_of(lambda s: s.add_filter(lambda cls: [Anonymous("")]), monkeypatch)
    assert str(error) == f"plugin fake: Filter (Anonymous.identity) {POD}: KeyError: 'boom'"


def test_an_exception_of_figures_names_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    session = World(node("n1")).session(fake_plugin(lambda s: s.add_figures(boom), monkeypatch))
    with pytest.raises(PluginError, match="plugin fake: Figures: KeyError"):
        session.figures()


def test_a_best_effort_task_on_which_a_filter_raises_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_plugin(lambda s: s.add_filter(lambda cls: [Raising("reasons", room=0)]), monkeypatch)
    conf = configuration(["gang", "fake"], actions="enqueue, backfill")
    with pytest.raises(PluginError, match=r"Filter \(Raising.reasons\) \(about Pod default/p, job default/g\)"):
        World(node("n1"), group("g"), pod("p", "", "g")).run(conf)


# --- answers of wrong types ---
def giving(answer: object) -> Any:
    """A function that returns this, whatever it is given."""
    return lambda *_: answer


GIVING = f"function giving.<locals>.<lambda> ({__file__}:{giving(0).__code__.co_firstlineno})"
POD, JOB = "(about Pod default/p, job default/g)", "(about job default/g)"
MASK = MaskFilter(np.ones(2, dtype=bool), "no")


@pytest.mark.parametrize(
    ("opening", "point", "problem"),
    [
        (lambda s: s.add_filter(giving(None)), f"Filter {POD}", "None, not a list of Filters"),
        (lambda s: s.add_filter(giving(True)), f"Filter {POD}", "True, not a list of Filters"),
        (lambda s: s.add_filter(giving(MASK)), f"Filter {POD}", "<scheduler.framework.columns.MaskFilter object"),
        (lambda s: s.add_filter(giving([True])), f"Filter {POD}", "[True], not a list of Filters"),
        (lambda s: s.add_filter(giving(None), per_queue=True), f"Filter {POD}", "None, not a list of Filters"),
        (lambda s: s.add_score(giving(np.ones(2))), f"Score {POD}", "array([1., 1.]), not a list of Scores"),
        (lambda s: s.add_score(giving([MASK])), f"Score {POD}", "[<scheduler.framework.columns.MaskFilter object"),
        (lambda s: s.add_allocatable(giving(None)), f"Allocatable {POD}", "None, not a whole number"),
        (lambda s: s.add_allocatable(giving(1.5)), f"Allocatable {POD}", "1.5, not a whole number"),
        (lambda s: s.add_allocatable_now(giving(True)), f"AllocatableNow {POD}", "True, not a whole number"),
        (lambda s: s.add_job_ready(giving(None)), f"JobReady {POD}", "None, not a whole number"),
        (lambda s: s.add_job_enqueueable(giving(False)), f"JobEnqueueable {JOB}", "False, not a Vote (PERMIT, ABSTAIN"),
        (lambda s: s.add_job_enqueueable(giving(None)), f"JobEnqueueable {JOB}", "None, not a Vote (PERMIT, ABSTAIN"),
        (lambda s: s.add_job_valid(giving("no")), f"JobValid {JOB}", "'no', not a Refusal or None"),
        (lambda s: s.add_overused(giving(True)), "Overused (about queue q)", "True, not a Refusal or None"),
        (lambda s: s.add_best_node(giving(7)), f"BestNode {POD}", "7, not one of the rows that it received, or None"),
        (lambda s: s.add_queue_usage(giving([])), "QueueUsage (about queue q)", "[], not a Mapping"),
    ],
)
def test_an_answer_of_a_wrong_type_names_plugin_point_and_object(
    opening: Opening, point: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = error_of(opening, monkeypatch, AnswerError)
    assert str(error).startswith(f"plugin fake: {point}: {GIVING} returned {problem}")


@pytest.mark.parametrize("first", [Vote.ABSTAIN, Vote.PERMIT, Vote.REJECT])
@pytest.mark.parametrize("asks", ["1c", None])
def test_a_vote_is_checked_if_it_is_asked_for(first: Vote, asks: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is called, unless another plugin has rejected the job or the PodGroup has no minResources."""

    def opening(session: PluginSession) -> None:
        session.add_job_enqueueable(lambda job: first)
        session.add_job_enqueueable(giving(True))

    world = World(node("n1"), group("g", asks=asks), pod("p", "1c", "g"))
    conf = fake_plugin(opening, monkeypatch)
    if first is Vote.REJECT or asks is None:
        assert bool(world.run(conf).bound) == (asks is None)
    else:
        with pytest.raises(PluginError, match=r"True, not a Vote \(PERMIT"):
            world.run(conf)


@pytest.mark.parametrize("what", ["queue", "job"])
def test_a_filter_that_asks_its_class_for_the_queue_or_job_learns_how_to_get_it(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = error_of(lambda s: s.add_filter(lambda cls: getattr(cls, what)), monkeypatch, AttributeError)
    assert str(error).endswith(f"; a filter or score that is registered with per_{what}=True receives the {what}")


@pytest.mark.parametrize(
    ("opening", "point"),
    [
        (lambda s: s.add_bind_annotations(giving("a")), "BindAnnotations"),
        (lambda s: s.add_preparations(giving(None)), "Preparations"),
    ],
)
def test_an_answer_that_raises_where_it_is_used_names_its_plugin(
    opening: Opening, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = error_of(opening, monkeypatch, TypeError)
    assert str(error).startswith(f"plugin fake: {point} (about Pod default/p, job default/g, node n1): TypeError: ")


@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        (
            lambda s: s.add_filter(giving([MaskFilter(np.ones(7, dtype=bool), "no")])),
            f"Filter {POD}: {GIVING} returned a MaskFilter of shape (7,); there are 2 nodes",
        ),
        (
            lambda s: s.add_filter(giving([CodedFilter(np.zeros(1, dtype=np.int32), ["no"])])),
            f"Filter {POD}: {GIVING} returned a CodedFilter of shape (1,); there are 2 nodes",
        ),
        (
            lambda s: s.add_score(giving([StaticScore(np.ones((2, 2)))])),
            f"Score {POD}: {GIVING} returned a StaticScore of shape (2, 2); there are 2 nodes",
        ),
        (
            lambda s: s.add_score(giving([StaticScore(np.array([1.0, np.nan]))])),
            f"Score {POD}: StaticScore returned nan for node n2",
        ),
    ],
)
@pytest.mark.parametrize("gang", [1, 2])
def test_a_column_that_does_not_fit_the_nodes_is_refused(
    opening: Opening, expected: str, gang: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = fake_plugin(opening, monkeypatch)
    with pytest.raises(PluginError) as raised:
        World(node("n1"), node("n2"), group("g", minimum=gang), pods("p", gang, "1c", "g")).run(conf)
    assert str(raised.value) == f"plugin fake: {expected}".replace("default/p,", "default/p-0,")


def test_a_filter_whose_room_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(Broken):
        def room(self, rows: Rows) -> Counts:
            return np.ones(1 + len(rows), dtype=np.int64)

    error = error_of(lambda s: s.add_filter(giving([Short()])), monkeypatch, ValueError)
    assert str(error).startswith(f"plugin fake: Filter {POD}: ValueError: ")


@pytest.mark.parametrize("arguments", [(np.ones(2), "no"), ([True, True], "no"), (np.ones(2, dtype=bool), 3)])
def test_a_mask_filter_takes_booleans_and_a_text(arguments: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    error = error_of(lambda s: s.add_filter(lambda cls: [MaskFilter(*arguments)]), monkeypatch, TypeError)
    assert str(error).startswith(f"plugin fake: Filter {POD}: TypeError: MaskFilter takes a column of booleans and a r")


@pytest.mark.parametrize(("keys", "at"), [({"g1": 1, "g2": None}, "g2"), ({"g1": np.ones(2), "g2": np.zeros(2)}, "g1")])
def test_keys_that_cannot_be_compared_name_their_plugin(
    keys: dict[str, Any], at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = fake_plugin(lambda s: s.add_job_order(lambda job: keys[job.name]), monkeypatch)
    world = World(node("n1"), group("g1"), pod("p1", "1c", "g1"), group("g2"), pod("p2", "1c", "g2"))
    with pytest.raises(PluginError) as raised:
        world.run(conf)
    assert str(raised.value).startswith(f"plugin fake: JobOrder (about job default/{at}): function ")
    assert "returned keys that cannot be compared: " in str(raised.value)


def test_what_is_no_refusal_names_the_plugin_that_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def opening(session: PluginSession) -> None:
        def room(queue: Queue, job: Job, cls: TaskClass) -> int:
            session.refuse(job, "no room")  # type: ignore[arg-type]
            return 0

        session.add_allocatable(room)

    error = error_of(opening, monkeypatch, TypeError)
    assert str(error) == f"plugin fake: Allocatable {POD}: TypeError: 'no room' is not a Refusal"


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ({"window"}, "returned {'window'}, not CacheRequirements"),
        (CacheRequirements(pod_labels="window"), "returned CacheRequirements whose pod_labels are 'window', not"),  # type: ignore[arg-type]
    ],
)
def test_wrong_cache_requirements_name_the_plugin(
    returned: object, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = fake_plugin(lambda s: None, monkeypatch)
    monkeypatch.setattr(registry._plugins["fake"], "cache_requirements", giving(returned), raising=False)
    with pytest.raises(PluginError) as raised:
        World(node("n")).run(conf)
    assert str(raised.value).startswith(f"plugin fake: cache_requirements: {problem}")
