"""numa-aware: exclusive cpus for Guaranteed Pods, from as few NUMA nodes as the kubelet's policy requires."""

from typing import Any

import pytest

from scheduler.api.scheduling import CpuDetail, NumaResource, Numatopology, NumatopologySpec
from scheduler.plugins.numa_aware.cpus import CpuTopology, NumatopologyError, parse_cpus
from tests.builders import Raw, World, configuration, group, node, pod

KEY = "volcano.sh/numa-topology-policy"
CONF = configuration(["gang"], ["numa-aware"])


def numa(
    name: str, policy: str = "single-numa-node", free: str = "0-7", cpu_policy: str = "static", **more: Any
) -> Raw:
    """Two NUMA nodes with four cpus each: 0-3 and 4-7, two cpus per core."""
    detail = {str(cpu): {"numa": cpu // 4, "socket": cpu // 4, "core": cpu % 4 // 2} for cpu in range(8)}
    spec = {
        "policies": {"CPUManagerPolicy": cpu_policy, "TopologyManagerPolicy": policy},
        "numares": {"cpu": {"allocatable": free, "capacity": 8}},
        "cpuDetail": detail,
        **more,
    }
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": name},
        "spec": spec,
    }


def guaranteed(name: str, cpus: str = "2", policy: str | None = "single-numa-node", **rest: Any) -> list[Raw]:
    raw = pod(f"{name}-0", f"{cpus}c+1Gi", name, annotations={KEY: policy} if policy else {}, **rest)
    resources = raw["spec"]["containers"][0]["resources"]
    resources["limits"] = dict(resources["requests"])
    return [group(name, phase="Inqueue"), raw]


def nodes(*names: str) -> list[Raw]:
    return [node(name, "8c+16Gi") for name in names]


# --- admission ---
@pytest.mark.parametrize(
    ("policy", "free", "cpus", "admitted"),
    [
        ("single-numa-node", "0-7", "4", True),
        ("single-numa-node", "0-2,4-6", "4", False),
        ("single-numa-node", "0-7", "5", False),
        ("restricted", "0-7", "5", True),
        ("restricted", "0-2,4-6", "4", False),
        ("best-effort", "0-2,4-6", "4", True),
        ("single-numa-node", "0,4", "1500m", True),
    ],
)
def test_a_node_admits_a_pod_according_to_its_topology_policy(
    policy: str, free: str, cpus: str, admitted: bool
) -> None:
    world = World(nodes("n1"), numa("n1", policy, free), guaranteed("a", cpus, policy)).run(CONF)
    assert bool(world.bound) is admitted
    expected = "0/1 nodes are unavailable: 1 container main cannot be assigned by numa."
    assert (expected in world.events("FailedScheduling")) is not admitted


@pytest.mark.parametrize(
    ("topology", "why"),
    [
        ([], "numa info is empty"),
        ([numa("n1", cpu_policy="none")], "cpu manager policy isn't static"),
        ([numa("n1", "restricted")], "task topology policy[single-numa-node] is different with node[restricted]"),
        ([numa("n1", free="")], "cpu allocatable map is empty"),
    ],
)
def test_the_reason_says_why_a_node_cannot_apply_the_policy(topology: list[Raw], why: str) -> None:
    world = World(nodes("n1"), topology, guaranteed("a")).run(CONF)
    assert f"0/1 nodes are unavailable: 1 {why}." in world.events("FailedScheduling")


def test_the_policy_of_the_node_applies_to_a_pod_without_a_policy() -> None:
    objects = [*nodes("n1"), numa("n1", free="0-2,4-6")]
    assert World(objects, guaranteed("a", "4", None)).run(CONF).bound == {}
    assert World(objects, guaranteed("a", "3", None)).run(CONF).bound == {"a-0": "n1"}


@pytest.mark.parametrize("policy", ["none", None])
def test_a_pod_without_a_policy_can_use_a_node_without_a_numatopology(policy: str | None) -> None:
    assert World(nodes("n1"), guaranteed("a", "4", policy)).run(CONF).bound == {"a-0": "n1"}


def test_a_pod_that_is_not_guaranteed_can_use_all_nodes() -> None:
    shared = [group("a", phase="Inqueue"), pod("a-0", "4c+1Gi", "a", annotations={KEY: "single-numa-node"})]
    assert World(nodes("n1"), shared).run(CONF).bound == {"a-0": "n1"}


def test_cpus_reserved_for_the_system_are_not_free() -> None:
    topology = numa("n1", resReserved={"cpu": "1500m"})
    assert World(nodes("n1"), topology, guaranteed("a", "4"), guaranteed("b", "3")).run(CONF).bound == {"a-0": "n1"}


# --- books ---
def test_the_cpus_of_one_pod_are_not_given_to_the_next() -> None:
    objects = [*nodes("n1"), numa("n1", free="0-3,4-6")]
    world = World(objects, guaranteed("a", "3"), guaranteed("b", "3"), guaranteed("c", "1"), guaranteed("d", "2"))
    assert set(world.run(CONF).bound) == {"a-0", "b-0", "c-0"}


def test_the_cpus_of_a_discarded_gang_are_released() -> None:
    gang = guaranteed("gang", "4")
    gang[0]["spec"]["minMember"] = 2
    second = {**gang[1], "metadata": {**gang[1]["metadata"], "name": "gang-1"}}
    world = World(nodes("n1"), numa("n1", free="0-3,4-6"), gang, second, guaranteed("late", "4")).run(CONF)
    assert set(world.bound) == {"late-0"}


@pytest.mark.parametrize("discarded", [True, False])
def test_an_evicted_pod_keeps_its_cpus_also_if_the_eviction_is_undone(discarded: bool) -> None:
    old = guaranteed("old", "4", on="n1")
    topology = numa("n1", free="4-7", podAllocations=[{"namespace": "default", "name": "old-0"}])
    session = World(nodes("n1"), topology, old, guaranteed("a", "4")).session(CONF)
    victim, newcomer = session.jobs["default/old"], session.jobs["default/a"]
    view = session.view(next(newcomer.tasks()).cls, newcomer)

    statement = session.statement()
    statement.evict(victim, next(victim.tasks()), "test")
    if discarded:
        statement.discard()

    assert view.admits(0)


@pytest.mark.parametrize(("listed", "admitted"), [(False, False), (True, True)])
def test_a_bound_pod_counts_until_the_numatopology_lists_its_cpus(listed: bool, admitted: bool) -> None:
    allocations = [{"namespace": "default", "name": "old-0"}] if listed else []
    old = guaranteed("old", "4", on="n1")
    topology = numa("n1", free="0-3", podAllocations=allocations)
    world = World(nodes("n1"), topology, old, guaranteed("a", "4")).run(CONF)
    assert bool(world.bound) is admitted


# --- scores ---
def test_nodes_that_need_fewer_numa_nodes_score_higher() -> None:
    split, whole = numa("n1", "best-effort", "0-2,4-6"), numa("n2", "best-effort")
    world = World(nodes("n1", "n2"), split, whole, guaranteed("a", "4", "best-effort")).run(CONF)
    assert world.bound == {"a-0": "n2"}


# --- cpus ---
def topology(free: str = "0-7") -> CpuTopology:
    detail = {str(cpu): CpuDetail(numa=cpu // 4, socket=cpu // 4, core=cpu % 4 // 2) for cpu in range(8)}
    spec = NumatopologySpec(cpu_detail=detail, numares={"cpu": NumaResource(allocatable=free)})
    return CpuTopology(Numatopology(spec=spec))


@pytest.mark.parametrize(
    ("free", "number", "taken"),
    [
        ("0-7", 4, {0, 1, 2, 3}),
        ("1-7", 4, {4, 5, 6, 7}),
        ("0-7", 2, {0, 1}),
        ("1-7", 2, {2, 3}),
        ("0-7", 3, {0, 1, 2}),
        ("0-7", 5, {0, 1, 2, 3, 4}),
        ("0-2,4-7", 1, {2}),
        ("0,4", 9, {0, 4}),
        ("", 1, set()),
    ],
)
def test_whole_sockets_are_taken_before_whole_cores_and_those_before_single_cpus(
    free: str, number: int, taken: set[int]
) -> None:
    assert topology().take(parse_cpus(free), number) == taken


def test_a_list_of_cpus_is_parsed() -> None:
    assert parse_cpus("0-2,5, 7") == {0, 1, 2, 5, 7}


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-", "0-99999999", "1;2"])
def test_an_invalid_list_of_cpus_is_rejected(text: str) -> None:
    with pytest.raises(NumatopologyError):
        parse_cpus(text)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"free": "many"}, "spec.numares[cpu].allocatable"),
        ({"resReserved": {"cpu": "few"}}, "spec.resReserved[cpu]"),
        ({"cpuDetail": {"first": {}}}, "spec.cpuDetail"),
    ],
)
def test_an_invalid_numatopology_is_ignored_and_reported(more: dict[str, Any], field: str) -> None:
    world = World(nodes("n1"), numa("n1", **more), guaranteed("a")).run(CONF)
    assert world.bound == {}
    assert any(message.startswith(f"{field}: ") for message in world.events("Malformed"))
