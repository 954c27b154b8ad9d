"""Plans of volumes for claims, compared with a direct reading of the rule for each node."""

from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.node import Codes, NodeFacts
from scheduler.api.objects import Node, ObjectMeta
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.claim_states import ClaimState
from scheduler.plugins.predicates.volumes.claims import ClaimRequest, request_of
from scheduler.plugins.predicates.volumes.plan import VolumePlan, VolumePool
from scheduler.plugins.predicates.volumes.topology import VolumeTopology
from tests.builders import World, group, node
from tests.examples import examples
from tests.unit.plugins.predicates.volumes.claims import CONF, ZONE, claim, storage_class, user, volume

NODES = 12


def report(*_: object) -> Any:
    return report


class NoReporters:
    """Discards all reports."""

    reporter = staticmethod(report)


def facts() -> NodeFacts:
    labels = [{"kubernetes.io/hostname": f"n{i:02}", ZONE: "abc"[i % 3]} for i in range(NODES)]
    return NodeFacts([Node(metadata=ObjectMeta(name=f"n{i:02}", labels=labels[i])) for i in range(NODES)])


def decoded(struct: Any, raw: dict[str, Any]) -> Any:
    return msgspec.convert(raw, struct)


zonal = st.builds(lambda size, zone: (size, (), zone), st.integers(1, 5), st.sampled_from(["a", "b", ""]))
local = st.builds(lambda size, on: (size, (f"n{on:02}",), ""), st.integers(1, 5), st.integers(0, NODES))


@settings(max_examples=examples(150), deadline=None)
@given(
    stock=st.lists(st.one_of(zonal, local), max_size=8),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    reserved=st.sets(st.integers(0, 7)),
    provisioned=st.booleans(),
)
def test_a_plan_gives_each_claim_the_smallest_volume_left_on_each_node(
    stock: list[tuple[int, tuple[str, ...], str]], sizes: list[int], reserved: set[int], provisioned: bool
) -> None:
    raw = [{**volume(f"v{i}", f"{size}Gi", on=on, zone=zone)} for i, (size, on, zone) in enumerate(stock)]
    for one in raw:
        one["status"] = {"phase": "Available"}
    volumes = {one["metadata"]["name"]: decoded(PersistentVolume, one) for one in raw}
    requests = [request_of(decoded(PersistentVolumeClaim, claim("c", f"{size}Gi"))) for size in sorted(sizes)]
    nodes = facts()
    pool = VolumePool(volumes, {}, NoReporters())  # type: ignore[arg-type]
    topology = VolumeTopology(nodes)

    def nodes_of(one: PersistentVolume) -> Any:
        return topology.of_volume(one, report)

    def provision(_: ClaimRequest) -> Codes:
        return np.full(NODES, -1 if provisioned else 0, dtype=np.int32)

    plan = VolumePlan(pool, requests, nodes_of, provision, NODES)
    for rank in reserved & set(range(len(pool.volumes))):
        pool.reserved[rank] = True
    plan.recompute()

    for row in range(NODES):
        left = [
            one
            for rank, one in enumerate(pool.volumes)
            if not pool.reserved[rank] and row in nodes_of(one).rows.tolist()
        ]
        expected = []
        for size in sorted(sizes):
            good = [one for one in left if int(str(one.spec.capacity["storage"])[:-2]) >= size]  # type: ignore[index]
            expected.append(good[0].metadata.name if good else "")
            left = left if not good else [one for one in left if one is not good[0]]
        assert plan.volumes_at(row) == expected
        assert (plan.codes[row] < 0) == (provisioned or "" not in expected)


def test_pods_that_differ_only_in_their_claims_share_one_class_view() -> None:
    """Otherwise, each of the thousand Pods of a StatefulSet would need a view of all nodes."""
    claims = [claim(f"c{i}") for i in range(20)]
    world = World(
        node("n1", "100c"),
        storage_class(),
        [volume(f"v{i}") for i in range(20)],
        claims,
        group("g", minimum=20),
        [user(f"p{i}", f"c{i}") for i in range(20)],
    ).run(CONF)

    session = world.outcome.session  # type: ignore[union-attr]
    assert len(world.bound) == 20
    assert len({bind.preparations[0].name for bind in world.decisions.binds}) == 20
    assert len(session._views) == 1


def test_bound_claims_of_one_zone_have_equal_states() -> None:
    nodes = [node("n1", "100c", {ZONE: "a"}), node("n2", "100c", {ZONE: "b"})]
    held = [
        [
            claim(f"c{i}", volumeName=f"v{i}"),
            volume(f"v{i}", zone="ab"[i % 2], claimRef={"namespace": "default", "name": f"c{i}"}),
        ]
        for i in range(10)
    ]
    world = World(
        nodes,
        storage_class(),
        [o for pair in held for o in pair],
        group("g", minimum=10),
        [user(f"p{i}", f"c{i}") for i in range(10)],
    ).run(CONF)

    assert [world.bound[f"p{i}"] for i in range(10)] == ["n1", "n2"] * 5
    assert len(world.outcome.session._views) == 2  # type: ignore[union-attr]


def test_claim_states_are_compared_by_value() -> None:
    assert ClaimState(drivers=("a",)) == ClaimState(drivers=("a",))
    assert len({ClaimState(drivers=("a",)), ClaimState(drivers=("a",)), ClaimState()}) == 2
