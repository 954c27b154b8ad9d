"""The table of nodes: labels as columns, and rows by label."""

from scheduler.api.node import NodeFacts
from scheduler.api.objects import Node, ObjectMeta


def facts(*zones: str | None) -> NodeFacts:
    labels: list[dict[str, str]] = [{"zone": zone} if zone is not None else {} for zone in zones]
    return NodeFacts([Node(metadata=ObjectMeta(name=f"n{i}", labels=each)) for i, each in enumerate(labels)])


def test_rows_are_found_by_the_value_of_a_label() -> None:
    known = facts("b", None, "a", "b", "")

    assert known.rows_with("zone", "b").tolist() == [0, 3]
    assert known.rows_with("zone", "a").tolist() == [2]
    assert known.rows_with("zone", "").tolist() == [4]
    assert known.rows_with("zone", "c").tolist() == []
    assert known.rows_with("rack", "r1").tolist() == []


def test_without_nodes_there_are_no_rows() -> None:
    assert facts().rows_with("zone", "a").tolist() == []
