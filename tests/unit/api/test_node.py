"""The table of nodes: labels as columns, and rows by label."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.node import NodeFacts
from scheduler.api.objects import Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta, Taint
from tests.examples import examples


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


# --- changed nodes ---
KEYS = ("zone", "rack")


def random_node(random: Random, row: int) -> Node:
    labels = {key: random.choice("ab") for key in KEYS if random.random() < 0.7}
    taints = [Taint(key=key, effect="NoSchedule") for key in "xy" if random.random() < 0.3]
    ready = NodeCondition(
        type="Ready", status=random.choice(["True", "True", "False"]), last_transition_time="2020-01-01T12:00:00Z"
    )
    return Node(
        metadata=ObjectMeta(name=f"n{row}", labels=labels or None, annotations={"a": random.choice("pq")}),
        spec=NodeSpec(unschedulable=random.random() < 0.3, taints=taints or None),
        status=NodeStatus(conditions=[ready]),
    )


def everything(found: NodeFacts) -> list[object]:
    return [
        found.objects,
        found.names,
        list(found.index.items()),
        found.labels,
        found.annotations,
        found.unschedulable.tolist(),
        list(found.unready.items()),
        found.taint_sets,
        found.taint_codes.tolist(),
        *((codes.tolist(), values) for codes, values in map(found.label_column, KEYS)),
        *((key, value, found.rows_with(key, value).tolist()) for key in KEYS for value in "abc"),
    ]


@settings(max_examples=examples(100), deadline=None)
@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_the_facts_after_changes_are_those_of_a_new_table(random: Random, number: int) -> None:
    nodes = [random_node(random, row) for row in range(number)]
    found = NodeFacts(nodes)
    for _ in range(5):
        before = everything(found) if random.random() < 0.7 else None
        changed = {row: random_node(random, row) for row in random.sample(range(number), random.randint(1, number))}
        old, found = found, found.with_nodes(changed)
        for row, node in changed.items():
            nodes[row] = node
        assert everything(found) == everything(NodeFacts(nodes))
        assert before is None or everything(old) == before


def test_what_a_changed_node_leaves_as_it_is_is_shared() -> None:
    known = facts("b", None, "a")
    codes, _ = known.label_column("zone")
    node = Node(metadata=ObjectMeta(name="n1", annotations={"heartbeat": "1"}))
    after = known.with_nodes({1: node})
    assert after.label_column("zone")[0] is codes
    assert (after.names, after.index) == (known.names, known.index) and after.names is known.names
    moved = Node(metadata=ObjectMeta(name="n1", labels={"zone": "a"}))
    assert known.with_nodes({1: moved}).label_column("zone")[0].tolist() == [0, 1, 1]
