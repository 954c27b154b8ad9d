"""The part of an overview that a viewer sees, and the part that is sent."""

from typing import Any

import msgspec
import pytest

from scheduler.observability import overview as module
from scheduler.observability.overview import (
    Amount,
    NodeRow,
    Overview,
    OverviewView,
    QueueRow,
    Rights,
    RunningRow,
    Summary,
    WaitingRow,
    changes,
    view,
)

ALL = Rights(True, True, True)
FOUND = Overview(
    at=100.0,
    queues=(
        QueueRow("root", "", "Open", 1, 5, 3, (Amount("cpu", "9"),)),
        QueueRow("shared", "root", "Open", 2, 4, 2, (Amount("cpu", "7", "", "8", 0.875),)),
        QueueRow("secret", "root", "Open", 1, 1, 1),
    ),
    waiting=(
        WaitingRow("research", "train", "shared", "nodes", 2, 2),
        WaitingRow("secret-team", "first", "shared", "nodes", 1, 2),
    ),
    nodes=(NodeRow("n1", "chip", "fa", (1, 0, 1, 0, 0)),),
    queues_of={"research": ("shared",), "secret-team": ("shared", "secret")},
)


def test_a_tenant_sees_the_own_gangs_and_queues_and_the_amounts_of_the_queues_above() -> None:
    seen = view(FOUND, "research", Rights())

    assert seen.waiting == {"research/train": FOUND.waiting[0]}
    assert seen.queues == {
        "shared": FOUND.queues[1],
        "root": QueueRow("root", amounts=(Amount("cpu", "9"),), partial=True),
    }
    assert seen.nodes is None
    assert b"secret" not in msgspec.json.encode(changes(None, seen))


def test_a_namespace_without_jobs_has_neither_gangs_nor_queues() -> None:
    seen = view(FOUND, "empty", Rights())

    assert (seen.queues, seen.waiting, seen.nodes) == ({}, {}, None)


@pytest.mark.parametrize(
    "rights, seen",
    [
        (Rights(), (False, False, False)),
        (Rights(queues=True), (True, False, False)),
        (Rights(pod_groups=True), (False, True, False)),
        (Rights(nodes=True), (False, False, True)),
    ],
)
def test_of_the_whole_cluster_each_section_needs_its_right(rights: Rights, seen: tuple[bool, ...]) -> None:
    found = view(FOUND, "", rights)

    assert (found.queues is not None, found.waiting is not None, found.nodes is not None) == seen


def test_rights_in_the_whole_cluster_add_queues_and_nodes_to_a_namespace_but_no_gangs_of_others() -> None:
    found = view(FOUND, "research", ALL)

    assert found.queues is not None and set(found.queues) == {"root", "shared", "secret"}
    assert found.nodes is not None and set(found.nodes) == {"n1/chip"}
    assert found.waiting is not None and set(found.waiting) == {"research/train"}


def test_a_cycle_of_parents_ends() -> None:
    loop = Overview(1.0, (QueueRow("a", "b"), QueueRow("b", "a")), queues_of={"ns": ("a",)})

    found = view(loop, "ns", Rights()).queues
    assert found is not None and set(found) == {"a", "b"}


def test_rows_are_limited_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING", 2)
    monkeypatch.setattr(module, "NODES", 1)
    monkeypatch.setattr(module, "RUNNING", 2)
    running = tuple(RunningRow("ns", f"r{i}", "q") for i in range(6))
    waiting = tuple(WaitingRow("ns", f"g{i}", "q", "nodes", 3 - i, 3) for i in range(3))
    nodes = tuple(NodeRow(f"n{i}", "chip") for i in range(3))

    found = view(Overview(1.0, waiting=waiting, nodes=nodes, running=running), "", ALL)
    assert found.waiting is not None and set(found.waiting) == {"ns/g2", "ns/g1"}  # the first ones of the queue
    assert found.nodes is not None and set(found.nodes) == {"n0/chip"}
    assert found.running is not None and set(found.running) == {"ns/r0", "ns/r1"}  # the newest ones
    assert found.omitted == (1, 4, 2)
    assert (found.summary.waiting, found.summary.running) == (3, 6), "the summary counts all"


def test_the_limit_of_gangs_counts_those_of_the_namespace_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING", 1)
    waiting = (WaitingRow("other", "a", "q", "nodes", 1, 2), WaitingRow("mine", "b", "q", "nodes", 2, 2))

    found = view(Overview(1.0, waiting=waiting), "mine", Rights())
    assert found.waiting is not None and set(found.waiting) == {"mine/b"}
    assert found.omitted == (0, 0, 0)


def test_the_summary_counts_what_the_viewer_may_see() -> None:
    full = msgspec.structs.replace(
        FOUND,
        running=(RunningRow("research", "runs", "shared"), RunningRow("secret-team", "other", "shared")),
        devices=(("chip", (1, 0, 1, 0, 0)),),
        node_counts={"": 3, "cordoned": 1},
    )

    assert view(full, "research", Rights()).summary == Summary(2, 1, 1, None, None)
    assert view(full, "", Rights()).summary == Summary(None, None, None, None, None)
    assert view(full, "", ALL).summary == Summary(3, 2, 2, full.devices, full.node_counts)


# --- changes ----------------------------------------------------------------------------------------------------------
def shown(*queues: QueueRow, at: float = 1.0, **sections: Any) -> OverviewView:
    return OverviewView(at, {row.name: row for row in queues}, **sections)


def test_the_first_message_has_every_section() -> None:
    found = changes(None, shown(QueueRow("a"), nodes=None))

    assert found == {
        "at": 1.0,
        "summary": Summary(0, 0, 0, (), {}),
        "omitted": {"waiting": 0, "running": 0, "nodes": 0},
        "queues": {"set": {"a": QueueRow("a")}, "gone": []},
        "waiting": {"set": {}, "gone": []},
        "running": {"set": {}, "gone": []},
        "nodes": None,
    }


def test_only_what_has_changed_is_sent() -> None:
    before = shown(QueueRow("same"), QueueRow("changed"), QueueRow("gone"))
    after = shown(QueueRow("same"), QueueRow("changed", weight=2), QueueRow("new"), at=2.0)

    assert changes(before, after) == {
        "at": 2.0,
        "queues": {"set": {"changed": QueueRow("changed", weight=2), "new": QueueRow("new")}, "gone": ["gone"]},
    }


def test_without_a_change_only_the_time_of_the_session_is_sent() -> None:
    assert changes(shown(QueueRow("a")), shown(QueueRow("a"), at=2.0)) == {"at": 2.0}


def test_a_section_that_may_no_longer_be_seen_is_emptied_and_one_that_may_is_sent() -> None:
    without, with_nodes = shown(nodes=None), shown(nodes={"n/chip": NodeRow("n", "chip")})

    assert changes(with_nodes, without) == {"at": 1.0, "nodes": None}
    assert changes(without, without) == {"at": 1.0}
    assert changes(without, with_nodes)["nodes"] == {"set": {"n/chip": NodeRow("n", "chip")}, "gone": []}
    assert changes(without, shown(nodes={}))["nodes"] == {"set": {}, "gone": []}
