"""Decisions and messages that differ from Volcano's (``docs/differences.md``): a test for each line that no other test
covers."""

import pytest

from tests.builders import World, configuration, group, node, pod, pods, queue
from tests.tables import names_a_test, rows

PLAIN = configuration(("priority", "gang"), ("overcommit", "drf", "proportion", "binpack"))
SCORELESS = configuration(("gang",))


def test_every_line_of_the_page_names_a_test_that_exists() -> None:
    lines = rows("differences.md", "what")
    assert lines
    assert [line for line in lines if not names_a_test(line[-1])] == []


def waiting_gang() -> World:
    return World(node("n1", "4c+8Gi"), group("big", minimum=3), pods("big", 3, "2c", "big"))


def test_a_gang_that_keeps_waiting_gets_one_event() -> None:
    world = waiting_gang().run(PLAIN, cycles=6)
    events = [o for o in world.cluster.objects() if o["kind"] == "Event"]
    assert events
    assert [e["count"] for e in events] == [1] * len(events)
    assert not world.decisions


def test_the_event_and_the_condition_of_a_session_say_the_same() -> None:
    world = waiting_gang().run(PLAIN)
    conditions = world.get("PodGroup", "big")["status"]["conditions"]
    unschedulable = [c["message"] for c in conditions if c["type"] == "Unschedulable"]
    assert world.events("Unschedulable") == unschedulable


def test_a_condition_that_says_nothing_new_keeps_its_time() -> None:
    world = waiting_gang().run(PLAIN)
    before = world.get("PodGroup", "big")["status"]["conditions"]
    world.run(PLAIN, cycles=3)
    assert world.get("PodGroup", "big")["status"]["conditions"] == before


def test_a_gang_that_was_placed_is_never_called_unschedulable() -> None:
    world = World(node("n1", "4c+8Gi"), group("fits", minimum=2), pods("fits", 2, "2c", "fits")).run(PLAIN, cycles=3)
    conditions = world.get("PodGroup", "fits")["status"]["conditions"]
    assert [c["type"] for c in conditions] == ["Scheduled"]


def test_equal_pods_that_fit_nowhere_all_get_the_message() -> None:
    world = World(node("n1", "1c+8Gi"), group("big", minimum=2), pods("big", 2, "2c", "big")).run(SCORELESS)
    messages = [world.get("Pod", f"big-{i}")["status"]["conditions"][0]["message"] for i in range(2)]
    assert messages[0] == messages[1] and messages[0].startswith("0/1 nodes are unavailable: 1 Insufficient cpu.")


def test_the_resource_that_lacks_is_named_with_what_was_asked_for_and_what_is_free() -> None:
    world = waiting_gang().run(SCORELESS)
    assert any("cpu: asked 2, most free on one node 0" in m for m in world.events("FailedScheduling"))


@pytest.mark.parametrize(
    ("pods_per_node", "reason"),
    [
        ("4p", "queue a has all that it deserves (cpu: used 4, deserved 2)"),
        ("110p", "queue a has its share in use (cpu: asked 2, used 4, deserved 2)"),
    ],
)
def test_jobs_of_a_queue_that_has_its_share_get_a_message(pods_per_node: str, reason: str) -> None:
    world = World(
        node("n1", f"4c+8Gi+{pods_per_node}"),
        queue("a"),
        queue("b"),
        group("first", "a"),
        pods("first", 2, "2c", "first", on="n1"),
        group("more", "a"),
        pod("more-0", "2c", "more"),
        group("other", "b"),
        pods("other", 2, "1c", "other"),
    ).run(PLAIN)
    conditions = world.get("PodGroup", "more")["status"]["conditions"]
    why = next(c["message"] for c in conditions if c["type"] == "Unschedulable")
    assert reason in why


def test_a_job_that_is_not_admitted_is_warned_with_the_numbers() -> None:
    world = World(
        node("n1", "8c+8Gi"), queue("small", capability="2c"), group("wide", "small", asks="3c"), pod("w", "3c", "wide")
    ).run(PLAIN)
    events = [o for o in world.cluster.objects() if o["kind"] == "Event" and o["involvedObject"]["name"] == "wide"]
    assert {e["type"] for e in events} == {"Warning"}
    assert any(
        "insufficient cpu (queue small; cpu: asked 3, used or reserved 0, limit 2)" in e["message"] for e in events
    )


@pytest.mark.parametrize("names", [("a", "b", "c"), ("c", "b", "a")])
def test_equal_nodes_are_taken_in_name_order(names: tuple[str, ...]) -> None:
    world = World([node(name) for name in names], group("g"), pod("p", "1c", "g")).run(SCORELESS)
    assert world.bound == {"p": "a"}


def test_the_best_of_all_nodes_is_found_however_many_there_are() -> None:
    nodes = [node(f"n{i:03}") for i in range(150)]
    used = pod("there", "1c", on="n149")
    world = World(nodes, used, group("g"), pod("p", "1c", "g")).run(configuration(("gang", "binpack")))
    assert world.bound == {"p": "n149"}
