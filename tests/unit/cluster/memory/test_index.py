"""Indices find objects by a common value, and follow their creation, update and deletion."""

from typing import Any

from scheduler.api.kinds import POD
from scheduler.cluster.memory.index import group_of, node_of
from scheduler.cluster.memory.server import MemoryServer
from tests.builders import Raw, manifests, pod


def server(*objects: Any) -> MemoryServer:
    made = MemoryServer()
    for manifest in manifests(*objects):
        made.publish(made.load(manifest))
    return made


def names(found: list[Raw]) -> list[str]:
    return [raw["metadata"]["name"] for raw in found]


def test_the_pods_of_a_node_are_found_the_oldest_first() -> None:
    made = server(pod("b", "1c", "g", on="n1"), pod("c", "1c", "g", on="n2"), pod("a", "1c", "g", on="n1"))
    assert names(made.by_index(POD, node_of, "n1")) == ["b", "a"]


def test_an_index_follows_changes_after_its_first_lookup() -> None:
    made = server(pod("a", "1c", "g"), pod("b", "1c", "g", on="n1"))
    assert names(made.by_index(POD, node_of, "n1")) == ["b"]
    made.patch(POD, "default", "a", {"spec": {"nodeName": "n1"}})
    assert names(made.by_index(POD, node_of, "n1")) == ["a", "b"]
    made.patch(POD, "default", "b", {"spec": {"nodeName": None}})
    assert names(made.by_index(POD, node_of, "n1")) == ["a"]
    made.remove(("/Pod", "default", "a"))
    assert names(made.by_index(POD, node_of, "n1")) == []


def test_an_index_agrees_with_a_scan_of_all_pods() -> None:
    made = server(*(pod(f"p{i}", "1c", f"g{i % 3}") for i in range(10)))
    groups = [group_of(raw) for raw in made.of(POD)]
    for group in dict.fromkeys(groups):
        assert made.by_index(POD, group_of, group) == [raw for raw in made.of(POD) if group_of(raw) == group]


def test_a_stored_object_is_not_modified() -> None:
    given = manifests(pod("a", "1c", "g", on="n1"))
    before = repr(given)
    made = MemoryServer()
    made.publish(made.load(given[0]))
    made.patch(POD, "default", "a", {"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}})
    made.delete(POD, "default", "a")
    assert repr(given) == before
