"""The index of images is updated from session to session, and keeps a limited number of columns."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.node import NodeFacts
from scheduler.api.objects import ContainerImage, Node, NodeStatus, ObjectMeta
from scheduler.plugins.nodeorder.plugin import MAX_COLUMNS, ImageIndex
from tests.examples import examples

IMAGES = ["a:1", "b:1"]
REPORTED = st.dictionaries(st.sampled_from(IMAGES), st.integers(1, 1000), max_size=2)
STATES = st.lists(st.dictionaries(st.sampled_from(["n1", "n2", "n3"]), REPORTED, min_size=1), min_size=1, max_size=4)


@settings(max_examples=examples(80), deadline=None)
@given(STATES)
def test_an_updated_index_equals_a_new_index(states: list[dict[str, dict[str, int]]]) -> None:
    followed = ImageIndex()
    objects: dict[str, tuple[dict[str, int], Node]] = {}
    for state in states:
        for name, images in state.items():
            if name not in objects or objects[name][0] != images:
                reported = [ContainerImage(names=[image], size_bytes=size) for image, size in images.items()]
                objects[name] = images, Node(metadata=ObjectMeta(name=name), status=NodeStatus(images=reported))
        facts = NodeFacts([objects[name][1] for name in sorted(state)])
        followed.follow(facts)

        for image in IMAGES:
            old, new = followed.column((image,)), ImageIndex().follow(facts).column((image,))
            assert (old is None) == (new is None)
            assert old is None or new is None or np.array_equal(old, new)


def test_sets_of_images_that_no_node_has_and_more_than_the_limit_are_not_kept() -> None:
    there = NodeStatus(images=[ContainerImage(names=["a:1"], size_bytes=7)])
    index = ImageIndex().follow(NodeFacts([Node(metadata=ObjectMeta(name="n"), status=there)]))

    assert index.column(("no:1",)) is None and not index._columns
    columns = [index.column(("a:1", f"other:{i}")) for i in range(MAX_COLUMNS + 5)]

    assert all(column is not None and column.tolist() == [7.0] for column in columns)
    assert len(index._columns) == MAX_COLUMNS
