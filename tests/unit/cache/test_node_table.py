"""The table of nodes follows changes of Node objects row by row."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.node import Nodes
from tests.builders import Raw, World, feed, group, node, pod
from tests.examples import examples


def table(world: World) -> Nodes:
    return world.cluster.cache._nodes.table()


def change(random: Random, step: int) -> Raw | list[Raw]:
    name = random.choice("abc")
    if random.random() < 0.7:
        raw = node(name, f"{random.randrange(1, 9)}c+4Gi", labels={"zone": random.choice("xy")})
        if random.random() < 0.5:
            raw["status"]["capacity"] = {"cpu": "16"}
        return raw
    return [group(f"g{step}", phase="Running"), pod(f"p{step}", "1c", f"g{step}", on=name)]


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_table_after_changes_is_that_of_a_first_session(random: Random) -> None:
    world = World(*(node(name, "4c+4Gi") for name in "abc"))
    shared = table(world)
    allocatable, capacity = shared.allocatable.copy(), shared.capacity.copy()
    of_a_session = shared.allocatable, shared.capacity
    for step in range(8):
        for i in range(random.randrange(1, 4)):
            feed(world.cluster.cache, change(random, 10 * step + i))
        found, fresh = table(world), world.cluster.cache._nodes._build()
        for column in ("allocatable", "capacity", "used", "idle", "releasing", "nonzero"):
            assert np.array_equal(getattr(found, column), getattr(fresh, column)), column
        assert found.facts.objects == fresh.facts.objects
    assert np.array_equal(of_a_session[0], allocatable) and np.array_equal(of_a_session[1], capacity)
