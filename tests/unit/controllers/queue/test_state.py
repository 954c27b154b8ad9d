"""The table of states."""

import pytest

from scheduler.api.batch import Action
from scheduler.api.objects import ObjectMeta
from scheduler.api.scheduling import Queue, QueueSpec, QueueStatus
from scheduler.controllers.queue import DesiredState, decide

REFUSAL = "Failed to open queue team because its parent queue dept is closing or closed. Open the parent queue first."


def queue(state: str, name: str = "team", closed_by_parent: str = "", parent: str = "dept") -> Queue:
    annotations = {"volcano.sh/closed-by-parent": closed_by_parent} if closed_by_parent else None
    meta = ObjectMeta(name=name, annotations=annotations)
    return Queue(metadata=meta, spec=QueueSpec(parent=parent), status=QueueStatus(state=state))


@pytest.mark.parametrize(
    ("state", "action", "empty", "populated"),
    [
        ("", None, "Open", "Open"),
        ("", Action.SYNC_QUEUE, "Open", "Open"),
        ("", Action.OPEN_QUEUE, "Open", "Open"),
        ("", Action.CLOSE_QUEUE, "Closed", "Closing"),
        ("Open", None, "Open", "Open"),
        ("Open", Action.OPEN_QUEUE, "Open", "Open"),
        ("Open", Action.CLOSE_QUEUE, "Closed", "Closing"),
        ("Closing", None, "Closed", "Closing"),
        ("Closing", Action.OPEN_QUEUE, "Open", "Open"),
        ("Closing", Action.CLOSE_QUEUE, "Closed", "Closing"),
        ("Closed", None, "Closed", "Closed"),
        ("Closed", Action.OPEN_QUEUE, "Open", "Open"),
        ("Closed", Action.CLOSE_QUEUE, "Closed", "Closed"),
        ("Unknown", None, "Unknown", "Unknown"),
        ("Unknown", Action.OPEN_QUEUE, "Open", "Open"),
        ("Unknown", Action.CLOSE_QUEUE, "Closed", "Closing"),
        ("Ajar", None, "Unknown", "Unknown"),
    ],
)
@pytest.mark.parametrize("above", ["Open", ""], ids=["below an open queue", "below a queue that is not there"])
def test_the_next_state_depends_on_the_state_the_action_and_whether_there_are_pod_groups(
    above: str, state: str, action: Action | None, empty: str, populated: str
) -> None:
    assert decide(queue(state), above, action, False).state == empty
    assert decide(queue(state), above, action, True).state == populated


@pytest.mark.parametrize("above", ["Closing", "Closed"])
@pytest.mark.parametrize("state", ["", "Open", "Unknown"])
def test_a_queue_below_a_closed_one_closes_and_says_so(above: str, state: str) -> None:
    assert decide(queue(state), above, None, False) == DesiredState("Closed", True)
    assert decide(queue(state), above, None, True) == DesiredState("Closing", True)


@pytest.mark.parametrize("state", ["Closing", "Closed"])
def test_a_queue_closed_by_its_parent_opens_with_it(state: str) -> None:
    child = queue(state, closed_by_parent="true")
    assert decide(child, "Open", None, False) == DesiredState("Open", False)
    assert decide(child, "", None, False) == DesiredState("Closed")
    assert decide(child, "Closed", None, True) == DesiredState(state)


@pytest.mark.parametrize("annotation", ["", "false", "yes"])
def test_a_queue_closed_for_itself_stays_closed_when_its_parent_opens(annotation: str) -> None:
    assert decide(queue("Closed", closed_by_parent=annotation), "Open", None, False) == DesiredState("Closed")


@pytest.mark.parametrize("above", ["Closing", "Closed"])
@pytest.mark.parametrize("annotation", ["", "true"])
def test_a_queue_below_a_closed_one_cannot_be_opened(above: str, annotation: str) -> None:
    child = queue("Closed", closed_by_parent=annotation)
    assert decide(child, above, Action.OPEN_QUEUE, False) == DesiredState("Closed", refusal=REFUSAL)


def test_opening_clears_the_word_that_the_parent_closed_it() -> None:
    assert decide(queue("Closed", closed_by_parent="true"), "Open", Action.OPEN_QUEUE, False) == DesiredState(
        "Open", False
    )
    assert decide(queue("Open", closed_by_parent="true"), "Open", None, False) == DesiredState("Open", False)


def test_closing_for_itself_clears_the_word_that_the_parent_closed_it() -> None:
    assert decide(queue("Open", closed_by_parent="true"), "Open", Action.CLOSE_QUEUE, False) == DesiredState(
        "Closed", False
    )


@pytest.mark.parametrize(("state", "populated"), [("Closing", True), ("Closed", False), ("Closed", True)])
@pytest.mark.parametrize("above", ["Closing", "Closed", "Open", ""])
def test_closing_a_queue_that_its_parent_closed_makes_it_closed_for_itself(
    state: str, populated: bool, above: str
) -> None:
    child = queue(state, closed_by_parent="true")
    assert decide(child, above, Action.CLOSE_QUEUE, populated) == DesiredState(state, False)


@pytest.mark.parametrize("state", ["", "Open", "Closed", "Unknown"])
def test_the_root_is_always_open(state: str) -> None:
    root = queue(state, "root", parent="")
    assert decide(root, "Open", None, True) == DesiredState("Open")
    assert decide(root, "Open", Action.CLOSE_QUEUE, True) == DesiredState(
        "Open", refusal="the root queue cannot be closed"
    )
