"""Values of nodes are kept from session to session, and computed again only if an object of the node changed."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.node import NodeFacts, Nodes, Rows
from scheduler.api.objects import Node, ObjectMeta
from scheduler.api.snapshot import Memory
from scheduler.framework.kept_values import NodeReading, NodeValues, ObjectsByNode, node_values
from tests.examples import examples

PREFIX = "info-"


def nodes(*names: str) -> Nodes:
    return Nodes.empty(NodeFacts([Node(metadata=ObjectMeta(name=name)) for name in names]), 1)


class Reader:
    """Reads the texts of nodes, and records the nodes whose texts it read."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.read: list[str] = []

    def __call__(self, table: Nodes, texts: Mapping[str, list[str]], constant: str = "") -> NodeValues[str]:
        self.read.clear()

        def make(row: int, node: Node, text: list[str] | None) -> str:
            self.read.append(node.metadata.name)
            return f"{node.metadata.name}={text}{constant}"

        reading = NodeReading("texts", lambda: with_chips(table), [ObjectsByNode(texts, PREFIX)], make, (constant,))
        return node_values(self.memory, table, reading)


def with_chips(table: Nodes) -> Rows:
    """The nodes whose name does not begin with a c."""
    return np.array([row for row, name in enumerate(table.names) if not name.startswith("c")], dtype=np.intp)


def texts(**of_nodes: list[str]) -> dict[str, list[str]]:
    return {PREFIX + name: text for name, text in of_nodes.items()}


def test_a_session_in_which_nothing_changed_gets_the_same_values() -> None:
    read, table, known = Reader(), nodes("a", "b", "c1"), texts(a=["x"])
    first = read(table, known)
    assert first.values == ["a=['x']", "b=None"]
    assert first.follows is None
    assert read(table.copy(), known) is first
    assert read(table, dict(known)) is first
    assert not read.read


def test_only_nodes_whose_objects_changed_are_read_again() -> None:
    read, table, one = Reader(), nodes("a", "b", "d"), ["x"]
    before = read(table, texts(a=one, b=one))
    after = read(table, texts(a=one, b=["y"]))
    assert read.read == ["b"]
    assert after.values == ["a=['x']", "b=['y']", "d=None"]
    assert (after.changed, after.follows) == ([1], before.identity)
    assert before.values[1] == "b=['x']"


def test_a_changed_node_object_is_read_again() -> None:
    read, table = Reader(), nodes("a", "b")
    read(table, {})
    objects = [table.facts.objects[0], Node(metadata=ObjectMeta(name="b"))]
    assert read(Nodes.empty(NodeFacts(objects), 1), {}).changed == [1]
    assert read.read == ["b"]


def test_a_new_node_is_read_and_the_others_are_kept() -> None:
    read, table, known = Reader(), nodes("a", "c1", "d"), texts(d=["x"])
    read(table, known)
    objects = [table.facts.objects[0], Node(metadata=ObjectMeta(name="b")), *table.facts.objects[1:]]
    after = read(Nodes.empty(NodeFacts(objects), 1), known)
    assert read.read == ["b"]
    assert (after.rows.tolist(), after.values) == ([0, 1, 3], ["a=None", "b=None", "d=['x']"])
    assert after.follows is None


def test_a_constant_that_changes_changes_all_values() -> None:
    read, table = Reader(), nodes("a", "b")
    read(table, {}, "!")
    assert read(table, {}, "?").values == ["a=None?", "b=None?"]
    assert read.read == ["a", "b"]


def test_after_an_exception_the_next_session_reads_what_this_one_did_not() -> None:
    memory, table = Memory(), nodes("a")

    def fail(row: int, node: Node) -> str:
        raise ValueError

    reading = NodeReading("names", lambda: with_chips(table), [], fail)
    for _ in range(2):
        with pytest.raises(ValueError):
            node_values(memory, table, reading)
    assert node_values(memory, table, reading._replace(make=lambda row, node: node.metadata.name)).values == ["a"]


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.sets(st.sampled_from("abcdef")), st.dictionaries(st.sampled_from("abcdef"), st.booleans())))
)
def test_any_sequence_of_changes_leads_to_the_values_of_a_first_session(
    steps: list[tuple[set[str], dict[str, bool]]],
) -> None:
    kept, objects = Reader(), {name: Node(metadata=ObjectMeta(name=name)) for name in "abcdef"}
    known: dict[str, list[str]] = {}
    for present, changes in steps:
        for name, changes_node in changes.items():
            if changes_node:
                objects[name] = Node(metadata=ObjectMeta(name=name))
            else:
                known = {**known, PREFIX + name: [str(len(known))]}
        table = Nodes.empty(NodeFacts([objects[name] for name in sorted(present)]), 1)
        found, fresh = kept(table, known), Reader()(table, known)
        assert (found.rows.tolist(), found.values) == (fresh.rows.tolist(), fresh.values)
