"""The controller queue-controller over a cluster in memory."""

from typing import Any

import pytest

from scheduler.api.batch import Command
from scheduler.api.kinds import COMMAND, POD_GROUP, QUEUE
from scheduler.api.objects import ObjectMeta, OwnerReference
from scheduler.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue
from scheduler.controllers.effects import Delete, Patch, RecordEvent
from scheduler.controllers.queue import QueueController
from scheduler.controllers.store import Store
from tests.unit.controllers.clusters import Controlled

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
CLOSED_EVENT = ("Normal", "CloseQueue", "Close queue succeed")


def controlled(*manifests: dict[str, Any]) -> Controlled:
    cluster = Controlled(lambda store: [QueueController(store)])
    for manifest in manifests:
        cluster.create(manifest)
    return cluster


def queue(name: str, parent: str = "", state: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"weight": 1, **({"parent": parent} if parent else {})},
        "status": {"state": state},
    }


def group(name: str, queue: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "minMember": 1},
        "status": {"phase": "Running"},
    }


def command(action: str, target: str, name: str = "order", uid: str = "", kind: str = "Queue") -> dict[str, Any]:
    reference = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "name": target, "uid": uid}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name, "namespace": "default"},
        "action": action,
        "target": reference,
    }


def states(cluster: Controlled, *names: str) -> list[str]:
    return [cluster.queue(name)["status"]["state"] for name in names]


def annotation(cluster: Controlled, name: str) -> str | None:
    return (cluster.queue(name)["metadata"].get("annotations") or {}).get(CLOSED_BY_PARENT)


def events(cluster: Controlled, name: str) -> list[tuple[str, str, str]]:
    return [(type_, reason, text) for _, about, type_, reason, text in cluster.events() if about == name]


# --- what a Queue is given ---
def test_every_queue_is_opened_and_those_without_a_parent_are_put_below_the_root() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"))

    assert states(cluster, "root", "default", "dept", "team") == ["Open"] * 4
    assert "parent" not in cluster.queue("root")["spec"]
    assert [cluster.queue(name)["spec"]["parent"] for name in ("default", "dept", "team")] == ["root", "root", "dept"]
    assert [annotation(cluster, name) for name in ("root", "default", "dept", "team")] == [None] * 4
    assert cluster.events() == []


# --- Commands ---
def test_a_queue_closes_when_its_last_pod_group_is_deleted_and_opens_again() -> None:
    cluster = controlled(queue("q1"), group("j", "q1"))
    cluster.create(command("CloseQueue", "q1"))
    assert states(cluster, "q1", "root", "default") == ["Closing", "Open", "Open"]
    assert annotation(cluster, "q1") is None
    assert events(cluster, "q1") == [CLOSED_EVENT]
    assert cluster.find(COMMAND, "order") is None

    cluster.delete(POD_GROUP, "j")
    assert states(cluster, "q1") == ["Closed"]

    cluster.create(command("OpenQueue", "q1"))
    assert states(cluster, "q1") == ["Open"]
    assert annotation(cluster, "q1") == "false"
    assert events(cluster, "q1") == [CLOSED_EVENT]
    assert cluster.find(COMMAND, "order") is None


def test_an_empty_queue_closes_at_once() -> None:
    cluster = controlled(queue("q1"))
    cluster.create(command("CloseQueue", "q1"))
    assert states(cluster, "q1") == ["Closed"]


def test_a_pod_group_that_moves_to_another_queue_lets_the_old_one_close() -> None:
    cluster = controlled(queue("q1"), queue("q2"), group("j", "q1"), command("CloseQueue", "q1"))
    cluster.patch(POD_GROUP, "j", {"spec": {"queue": "q2"}})
    assert states(cluster, "q1", "q2") == ["Closed", "Open"]


def test_a_command_that_is_carried_out_twice_does_nothing_the_second_time() -> None:
    cluster = controlled(queue("q1"))
    cluster.create(command("CloseQueue", "q1", "a"))
    cluster.wait(1)
    cluster.create(command("CloseQueue", "q1", "b"))

    assert states(cluster, "q1") == ["Closed"]
    assert events(cluster, "q1") == [CLOSED_EVENT]
    assert cluster.find(COMMAND, "b") is None


def test_commands_for_one_queue_are_carried_out_in_the_order_in_which_they_were_given() -> None:
    orders = [command("CloseQueue", "q1", "z"), command("OpenQueue", "q1", "a")]
    for i, order in enumerate(orders):
        order["metadata"]["resourceVersion"] = str(99 + i)
    cluster = controlled(queue("q1"))
    cluster.create(*orders)
    assert states(cluster, "q1") == ["Open"]
    assert events(cluster, "q1") == [CLOSED_EVENT]


def test_the_root_cannot_be_closed() -> None:
    cluster = controlled()
    cluster.create(command("CloseQueue", "root"))

    assert states(cluster, "root") == ["Open"]
    assert events(cluster, "root") == [
        ("Warning", "CloseQueue", "Close queue failed for the root queue cannot be closed")
    ]
    assert cluster.find(COMMAND, "order") is None


def test_commands_for_jobs_are_left_alone() -> None:
    cluster = controlled(queue("q1"))
    cluster.create(command("CloseQueue", "q1", kind="Job"))
    assert states(cluster, "q1") == ["Open"]
    assert cluster.find(COMMAND, "order") is not None


def test_a_command_that_asks_what_no_queue_can_do_is_reported_and_deleted() -> None:
    cluster = controlled(queue("q1"))
    cluster.create(command("AbortJob", "q1"))

    assert states(cluster, "q1") == ["Open"]
    problem = "action: 'AbortJob' is nothing a queue can do: CloseQueue, OpenQueue, SyncQueue; ignored"
    assert events(cluster, "order") == [("Warning", "Malformed", problem)]
    assert cluster.find(COMMAND, "order") is None


def test_a_command_for_an_earlier_queue_with_the_same_name_is_not_carried_out() -> None:
    cluster = controlled(queue("q1"))
    cluster.create(command("CloseQueue", "q1", uid="uid-earlier"))

    assert states(cluster, "q1") == ["Open"]
    assert events(cluster, "order") == [("Warning", "QueueNotFound", "queue q1 (uid-earlier) is not there any more")]
    assert cluster.find(COMMAND, "order") is None


def test_a_command_waits_for_its_queue_and_in_the_end_goes_without() -> None:
    cluster = controlled()
    cluster.create(command("CloseQueue", "late"), command("CloseQueue", "never", "other"))
    cluster.create(queue("late"))
    assert states(cluster, "late") == ["Closed"]
    assert cluster.find(COMMAND, "other") is not None

    for _ in range(70):
        cluster.wait(1)
    assert events(cluster, "other") == [("Warning", "QueueNotFound", "queue never is not there")]
    assert cluster.find(COMMAND, "other") is None


# --- hierarchy ---
def test_queues_below_close_and_open_with_the_one_above() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"), queue("squad", "team"), group("j", "squad"))
    cluster.create(command("CloseQueue", "dept"))
    assert states(cluster, "dept", "team", "squad") == ["Closed", "Closed", "Closing"]
    assert [annotation(cluster, name) for name in ("dept", "team", "squad")] == [None, "true", "true"]
    assert events(cluster, "team") == events(cluster, "squad") == [CLOSED_EVENT]

    cluster.create(command("OpenQueue", "dept"))
    assert states(cluster, "dept", "team", "squad") == ["Open", "Open", "Open"]
    assert [annotation(cluster, name) for name in ("dept", "team", "squad")] == ["false", "false", "false"]


def test_a_queue_that_was_closed_before_the_one_above_stays_closed() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"))
    for action, name in (("CloseQueue", "team"), ("CloseQueue", "dept"), ("OpenQueue", "dept")):
        cluster.create(command(action, name))
    assert states(cluster, "dept", "team") == ["Open", "Closed"]


def test_a_queue_that_is_closed_after_the_one_above_stays_closed_with_what_is_below_it() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"), queue("squad", "team"))
    for action, name in (("CloseQueue", "dept"), ("CloseQueue", "team")):
        cluster.create(command(action, name))
    assert [annotation(cluster, name) for name in ("dept", "team", "squad")] == [None, "false", "true"]
    assert events(cluster, "team") == [CLOSED_EVENT]

    cluster.create(command("OpenQueue", "dept"))
    assert states(cluster, "dept", "team", "squad") == ["Open", "Closed", "Closed"]

    cluster.create(command("OpenQueue", "team"))
    assert states(cluster, "dept", "team", "squad") == ["Open", "Open", "Open"]


def test_a_queue_that_is_closed_while_it_closes_with_the_one_above_stays_closed() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"), group("j", "team"))
    for action, name in (("CloseQueue", "dept"), ("CloseQueue", "team"), ("OpenQueue", "dept")):
        cluster.create(command(action, name))
    assert states(cluster, "dept", "team") == ["Open", "Closing"]
    cluster.delete(POD_GROUP, "j")
    assert states(cluster, "team") == ["Closed"]


def test_closing_a_queue_while_the_one_above_opens_counts_in_any_order() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"), command("CloseQueue", "dept"))
    cluster.create(command("OpenQueue", "dept", "a"), command("CloseQueue", "team", "b"))
    assert states(cluster, "dept", "team") == ["Open", "Closed"]


def test_a_queue_made_below_a_closed_one_is_closed() -> None:
    cluster = controlled(queue("dept"), command("CloseQueue", "dept"))
    cluster.create(queue("team", "dept"))
    assert states(cluster, "team") == ["Closed"]
    assert annotation(cluster, "team") == "true"


def test_a_queue_below_a_closed_one_cannot_be_opened() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"), command("CloseQueue", "dept"))
    cluster.create(command("OpenQueue", "team"))

    assert states(cluster, "team") == ["Closed"]
    text = "Failed to open queue team because its parent queue dept is closing or closed. Open the parent queue first."
    assert ("Warning", "OpenQueue", text) in events(cluster, "team")
    assert cluster.find(COMMAND, "order") is None


def test_a_queue_is_opened_after_the_one_above_if_both_are_asked_for() -> None:
    cluster = controlled(queue("dept"), queue("team", "dept"))
    for name in ("team", "dept"):
        cluster.create(command("CloseQueue", name))
    cluster.create(command("OpenQueue", "team", "a"), command("OpenQueue", "dept", "b"))

    assert states(cluster, "dept", "team") == ["Open", "Open"]
    assert events(cluster, "team") == [CLOSED_EVENT]


def test_queues_that_are_each_above_the_other_do_not_wait_for_each_other_for_ever() -> None:
    cluster = controlled(queue("a", "b", "Closed"), queue("b", "a", "Closed"))
    cluster.create(command("OpenQueue", "a", "x"), command("OpenQueue", "b", "y"))
    for _ in range(31):
        cluster.wait(1)
    assert states(cluster, "a", "b") == ["Closed", "Closed"]
    assert [len(events(cluster, name)) for name in ("a", "b")] == [1, 1]
    assert [cluster.find(COMMAND, name) for name in ("x", "y")] == [None, None]


@pytest.mark.parametrize(("parent", "state"), [("open", "Open"), ("root", "Open"), ("gone", "Closed")])
def test_a_queue_closed_by_its_parent_opens_when_it_is_put_below_an_open_one(parent: str, state: str) -> None:
    cluster = controlled(queue("dept"), queue("open"), queue("team", "dept"), command("CloseQueue", "dept"))
    cluster.patch(QUEUE, "team", {"spec": {"parent": parent}})
    assert states(cluster, "team") == [state]


def test_a_queue_put_below_a_closed_one_closes() -> None:
    cluster = controlled(queue("dept"), queue("team"), command("CloseQueue", "dept"))
    cluster.patch(QUEUE, "team", {"spec": {"parent": "dept"}})
    assert states(cluster, "team") == ["Closed"]


# --- counts ---
def test_pod_groups_are_counted_per_queue_and_phase_as_they_change() -> None:
    store = Store()
    controller = QueueController(store)
    for name in ("q1", "q2"):
        store.upsert(QUEUE, Queue(metadata=ObjectMeta(name=name)))

    def placed(queue: str, phase: str) -> PodGroup:
        return PodGroup(spec=PodGroupSpec(queue=queue), status=PodGroupStatus(phase=phase))

    controller.observe(POD_GROUP, None, placed("q1", ""), 0.0)
    controller.observe(POD_GROUP, None, placed("q1", "Running"), 0.0)
    controller.observe(POD_GROUP, None, placed("nowhere", "Running"), 0.0)
    assert controller.counts() == {"q1": {"Pending": 1, "Running": 1}, "q2": {}}

    controller.observe(POD_GROUP, placed("q1", ""), placed("q2", "Inqueue"), 1.0)
    assert controller.counts() == {"q1": {"Running": 1}, "q2": {"Inqueue": 1}}

    assert controller.observe(POD_GROUP, placed("q1", "Running"), None, 2.0) == [("", "q1")]
    assert controller.counts() == {"q1": {}, "q2": {"Inqueue": 1}}


def test_new_pod_groups_and_changes_of_their_phase_do_not_reconcile_a_queue() -> None:
    controller = QueueController(Store())
    waits, runs = PodGroup(status=PodGroupStatus(phase="Pending")), PodGroup(status=PodGroupStatus(phase="Running"))
    assert controller.observe(POD_GROUP, None, waits, 0.0) == []
    assert controller.observe(POD_GROUP, waits, runs, 1.0) == []


def test_a_queue_deleted_with_pod_groups_in_it_is_forgotten_and_they_are_left_alone() -> None:
    cluster = controlled(queue("q1"), group("j", "q1"))
    cluster.delete(QUEUE, "q1")
    assert cluster.find(POD_GROUP, "j") is not None

    cluster.create(queue("q1"), command("CloseQueue", "q1"))
    assert states(cluster, "q1") == ["Closing"]


# --- order of writes ---
def controller_with(state: str, *orders: str, closed_by_parent: str = "") -> QueueController:
    store = Store()
    controller = QueueController(store)
    known = Queue(metadata=ObjectMeta(name="q1", uid="u1", annotations={CLOSED_BY_PARENT: closed_by_parent}))
    known.status.state, known.spec.parent = state, "root"
    store.upsert(QUEUE, known)
    controller.observe(QUEUE, None, known, 0.0)
    target = OwnerReference(api_version="scheduling.volcano.sh/v1beta1", kind="Queue", name="q1")
    for order in orders:
        given = Command(metadata=ObjectMeta(name="order", namespace="default", uid="c1"), action=order, target=target)
        store.upsert(COMMAND, given)
        controller.observe(COMMAND, None, given, 0.0)
    return controller


def test_a_command_is_deleted_only_after_it_was_carried_out() -> None:
    stages = controller_with("Closed", "OpenQueue").plan(("", "q1"), 0.0).stages
    assert stages == [
        [Patch(QUEUE, "", "q1", {"status": {"state": "Open"}}, "u1", subresource="status")],
        [Patch(QUEUE, "", "q1", {"metadata": {"annotations": {CLOSED_BY_PARENT: "false"}}}, "u1")],
        [Delete(COMMAND, "default", "order", "c1")],
    ]


def test_a_queue_is_its_own_before_it_is_closed_so_that_a_crash_in_between_does_not_open_it_again() -> None:
    stages = controller_with("Open", "CloseQueue", closed_by_parent="true").plan(("", "q1"), 0.0).stages
    assert stages[:2] == [
        [Patch(QUEUE, "", "q1", {"metadata": {"annotations": {CLOSED_BY_PARENT: "false"}}}, "u1")],
        [Patch(QUEUE, "", "q1", {"status": {"state": "Closed"}}, "u1", subresource="status")],
    ]


def test_a_state_that_could_not_be_written_is_reported_with_the_next_attempt() -> None:
    for order, state, message in (
        ("CloseQueue", "Open", "Close queue failed for conflict"),
        ("OpenQueue", "Closed", "Update queue status from Closed to Open failed for conflict"),
    ):
        controller = controller_with(state, order)
        effect = controller.plan(("", "q1"), 0.0).stages[0][0]
        controller.failed(("", "q1"), effect, "conflict", 0.0)

        (post,), (again,), *_ = controller.plan(("", "q1"), 1.0).stages
        assert isinstance(post, RecordEvent)
        assert (post.event.type, post.event.reason, post.event.message) == ("Warning", order, message)
        assert again == effect


def test_a_queue_in_order_gives_nothing_to_do() -> None:
    assert controller_with("Open").plan(("", "q1"), 0.0).stages == []
    assert controller_with("").plan(("", "q2"), 0.0).stages == []
