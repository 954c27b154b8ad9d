"""The worklist: once each, never twice at a time, namespaces in turn, again after growing pauses."""

from scheduler.api.kinds import POD, QUEUE, Kind
from scheduler.api.objects import KubeObject, ObjectMeta
from scheduler.api.scheduling import Queue
from scheduler.controllers.controller import Controller
from scheduler.controllers.effects import Delete, Effect, Patch, Plan
from scheduler.controllers.store import Key
from scheduler.controllers.worklist import CHANGED_PAUSE, DEFERRABLE_PAUSE, MAX_PAUSE, Item, ReconcileQueue


class Recording(Controller):
    """A controller of Queues that records the calls of the worklist."""

    name = "recording"
    kinds: tuple[Kind, ...] = (QUEUE,)

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.finished: list[Key] = []

    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        obj = new or old
        return [(obj.metadata.namespace, obj.metadata.name)] if obj else []

    def plan(self, key: Key, now: float) -> Plan:
        return Plan()

    def done(self, key: Key, now: float) -> None:
        self.finished.append(key)

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        self.failures.append(error)


def taken(worklist: ReconcileQueue, now: float = 0.0) -> Item:
    """The item whose turn it is."""
    item = worklist.take(now)
    assert item is not None
    return item


def due(worklist: ReconcileQueue) -> float:
    """The time at which the next item is due."""
    moment = worklist.next_due()
    assert moment is not None
    return moment


def named(name: str, namespace: str = "") -> Queue:
    return Queue(metadata=ObjectMeta(name=name, namespace=namespace))


def worklist_with(*names: str, namespace: str = "") -> tuple[ReconcileQueue, Recording]:
    controller = Recording()
    worklist = ReconcileQueue([controller])
    for name in names:
        worklist.observe(QUEUE, None, named(name, namespace), 0.0)
    return worklist, controller


def test_an_object_that_changes_often_is_reconciled_once() -> None:
    worklist, controller = worklist_with("q", "q", "q")

    assert worklist.take(0.0) == Item(controller, ("", "q"))
    assert worklist.take(0.0) is None


def test_objects_come_in_the_order_in_which_they_changed() -> None:
    worklist, _ = worklist_with("b", "a")

    assert [taken(worklist).key[1] for _ in range(2)] == ["b", "a"]


def test_kinds_that_no_controller_observes_are_ignored() -> None:
    worklist, _ = worklist_with()

    worklist.observe(POD, None, named("p"), 0.0)

    assert worklist.take(0.0) is None


def test_an_object_that_changes_while_being_reconciled_is_queued_again_afterwards() -> None:
    worklist, controller = worklist_with("q")
    item = taken(worklist)
    worklist.observe(QUEUE, named("q"), named("q"), 0.0)
    assert worklist.take(0.0) is None

    worklist.finish(item, Plan(), 0.0)

    assert worklist.take(0.0) == item
    assert controller.finished == [("", "q")]


def test_a_plan_with_a_problem_is_reconciled_when_it_asks_for_it_before_its_pause_is_over() -> None:
    worklist, _ = worklist_with("q")
    for _ in range(12):
        item = taken(worklist, worklist.next_due() or 0.0)
        worklist.finish(item, Plan(problem="no queue"), 0.0)
    item = taken(worklist, worklist.next_due() or 0.0)

    worklist.finish(item, Plan(after=5.0, problem="no queue"), 100.0)

    assert worklist.next_due() == 105.0


def test_what_no_plan_waited_for_is_tried_again_after_a_pause_though_the_plan_has_ended() -> None:
    worklist, controller = worklist_with("q")
    item = taken(worklist)
    worklist.finish(item, Plan(), 0.0)

    worklist.retry(item, Delete(QUEUE, "", "q"), "no", 1.0)

    assert controller.failures == ["no"]
    assert worklist.take(1.0) is None
    assert worklist.take(1.0 + DEFERRABLE_PAUSE) == item


def test_what_informs_and_stays_refused_is_tried_again_after_growing_pauses_until_there_is_nothing_to_write() -> None:
    worklist, _ = worklist_with("q")
    patch = Patch(QUEUE, "", "q", {}, subresource="status", deferrable=True)
    now, pauses = 0.0, []
    for _ in range(9):
        item = taken(worklist, now)
        worklist.finish(item, Plan().then(patch), now)
        worklist.retry(item, patch, "403", now)
        pauses.append(due(worklist) - now)
        now = due(worklist)

    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0, 300.0]

    item = taken(worklist, now)
    worklist.finish(item, Plan(), now)
    worklist.retry(item, patch, "403", now)

    assert worklist.next_due() == now + DEFERRABLE_PAUSE


def test_a_plan_can_ask_to_be_reconciled_later() -> None:
    worklist, _ = worklist_with("q")
    item = taken(worklist, 100.0)
    worklist.finish(item, Plan(after=5.0), 100.0)

    assert worklist.next_due() == 105.0
    assert worklist.take(104.9) is None
    assert worklist.take(105.0) == item
    assert worklist.next_due() is None


def test_of_two_later_reconciliations_the_earlier_counts() -> None:
    worklist, _ = worklist_with("q")
    item = taken(worklist)
    worklist.finish(item, Plan(after=50.0), 0.0)
    worklist.observe(QUEUE, None, named("q"), 1.0)
    worklist.take(1.0)
    worklist.finish(item, Plan(after=2.0), 1.0)

    assert worklist.next_due() == 3.0
    assert worklist.take(3.0) == item


def test_pauses_after_failures_double_up_to_a_minute_and_end_with_the_first_success() -> None:
    worklist, controller = worklist_with("q")
    effect = Delete(QUEUE, "", "q")
    now, pauses = 0.0, []
    for _ in range(12):
        item = taken(worklist, now)
        worklist.fail(item, effect, "no", now)
        pauses.append(due(worklist) - now)
        now = due(worklist)

    assert [round(pause, 3) for pause in pauses[:4]] == [0.2, 0.4, 0.8, 1.6]
    assert pauses[-1] == MAX_PAUSE
    assert controller.failures == ["no"] * 12

    worklist.finish(taken(worklist, now), Plan(), now)
    worklist.observe(QUEUE, None, named("q"), now)
    worklist.fail(taken(worklist, now), effect, "no", now)
    assert round(due(worklist) - now, 3) == 0.2


def test_a_change_during_a_failed_reconciliation_does_not_shorten_the_pause() -> None:
    worklist, _ = worklist_with("q")
    item = taken(worklist)
    worklist.observe(QUEUE, None, named("q"), 0.0)

    worklist.fail(item, None, "raised", 0.0)

    assert worklist.take(0.1) is None
    assert worklist.take(0.3) == item


def test_a_plan_with_a_problem_pauses_like_a_failure() -> None:
    worklist, _ = worklist_with("q")

    worklist.finish(taken(worklist), Plan(problem="queue x is not there"), 0.0)

    assert worklist.take(0.1) is None
    assert worklist.take(0.21) is not None


def test_a_namespace_with_many_objects_delays_another_by_one() -> None:
    worklist, _ = worklist_with(*(f"b{i}" for i in range(3)), namespace="busy")
    worklist.observe(QUEUE, None, named("x", "idle"), 0.0)

    assert [taken(worklist).key for _ in range(3)] == [("busy", "b0"), ("idle", "x"), ("busy", "b1")]


def test_an_object_whose_writes_fail_is_tried_at_most_once_a_second_however_often_it_changes() -> None:
    worklist, controller = worklist_with("q")
    now, attempts = 0.0, 0
    while now < 30.0:
        worklist.observe(QUEUE, named("q"), named("q"), now)
        item = worklist.take(now)
        if item is not None:
            attempts += 1
            worklist.fail(item, Delete(QUEUE, "", "q"), "forbidden", now)
        now += 0.01
    assert 29 <= attempts <= 33
    assert controller.failures == ["forbidden"] * attempts


def test_a_change_shortens_the_pause_of_an_object_whose_writes_failed_often() -> None:
    worklist, _ = worklist_with("q")
    for _ in range(12):
        item = taken(worklist, worklist.next_due() or 0.0)
        worklist.fail(item, None, "forbidden", 0.0)
    assert worklist.next_due() == MAX_PAUSE

    worklist.observe(QUEUE, named("q"), named("q"), 0.5)

    assert worklist.take(0.5) is None
    assert worklist.next_due() == CHANGED_PAUSE


def test_an_object_whose_plan_had_a_problem_is_reconciled_as_soon_as_it_changes() -> None:
    worklist, _ = worklist_with("q")
    item = taken(worklist)
    worklist.finish(item, Plan(problem="no queue"), 0.0)

    worklist.observe(QUEUE, named("q"), named("q"), 0.01)

    assert worklist.take(0.01) == item


def test_pauses_keep_their_length_when_the_clock_is_set_back() -> None:
    worklist, _ = worklist_with("q")
    worklist.fail(taken(worklist, 1000.0), None, "failed", 1000.0)
    pause = due(worklist) - 1000.0

    worklist.clock_set_back(600.0)

    assert due(worklist) == 400.0 + pause
    worklist.observe(QUEUE, None, named("q"), 400.0)
    assert worklist.take(400.0) is None, "a failed object waits even if it changes"
    assert taken(worklist, 400.0 + pause).key[1] == "q"
