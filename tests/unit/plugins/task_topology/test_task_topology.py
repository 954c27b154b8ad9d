"""task-topology: affinity and anti-affinity between the roles of a job."""

from typing import Any

import pytest

from scheduler.framework.statement import Statement
from scheduler.plugins.task_topology.buckets import JobBuckets, TopologyError, read_topology
from tests.builders import Raw, World, configuration, group, node, pod

CONF = configuration(
    ["gang", "task-topology"], ["predicates"], arguments={"task-topology": {"task-topology.weight": 10}}
)


def topology_annotations(**keys: str) -> dict[str, str]:
    return {f"volcano.sh/task-topology-{key.replace('_', '-')}": text for key, text in keys.items()}


def job(roles: dict[str, int], asks: str = "1c", **keys: str) -> list[Raw]:
    """A gang with these numbers of Pods per role."""
    members = [pod(f"a-{role}-{i}", asks, "a", role=role) for role, number in roles.items() for i in range(number)]
    return [group("a", minimum=len(members), phase="Inqueue", annotations=topology_annotations(**keys)), *members]


def nodes(number: int, asks: str = "4c+8Gi") -> list[Raw]:
    return [node(f"n{i}", asks) for i in range(1, number + 1)]


def by_node(world: World) -> list[list[str]]:
    """The roles on each node."""
    where: dict[str, list[str]] = {}
    for name, on in sorted(world.bound.items()):
        where.setdefault(on, []).append(name.split("-")[1])
    return sorted(where.values())


def buckets(*objects: Any) -> JobBuckets:
    session = World(*objects).session(CONF)
    found = session.jobs["default/a"]
    topology = read_topology(found)
    assert topology is not None
    return JobBuckets(found, topology)


# --- placement ---
def test_roles_with_affinity_share_a_node() -> None:
    world = World(nodes(3, "6c+8Gi"), job({"ps": 2, "worker": 4}, affinity="ps,worker", task_order="ps,worker")).run(
        CONF
    )
    assert by_node(world) == [["ps", "ps", "worker", "worker", "worker", "worker"]]


def test_a_role_with_anti_affinity_to_itself_is_spread() -> None:
    world = World(nodes(3), job({"ps": 3}, anti_affinity="ps")).run(CONF)
    assert by_node(world) == [["ps"], ["ps"], ["ps"]]


def test_workers_are_distributed_evenly_to_each_ps() -> None:
    world = World(nodes(3, "3c+8Gi"), job({"ps": 2, "worker": 4}, affinity="ps,worker", anti_affinity="ps")).run(CONF)
    assert by_node(world) == [["ps", "worker", "worker"], ["ps", "worker", "worker"]]


def test_a_bucket_is_placed_where_most_of_it_fits() -> None:
    small, large = node("n1", "2c+8Gi"), node("n2", "3c+8Gi")
    world = World(small, large, job({"ps": 1, "worker": 2}, affinity="ps,worker")).run(CONF)
    assert set(world.bound.values()) == {"n2"}


def test_new_tasks_join_the_running_tasks_of_their_bucket() -> None:
    members = job({"ps": 1, "worker": 1}, affinity="ps,worker")
    members[1]["spec"]["nodeName"], members[1]["status"]["phase"] = "n2", "Running"
    assert World(nodes(3), members).run(CONF).bound == {"a-worker-0": "n2"}


def test_a_running_pod_repels_tasks_with_anti_affinity() -> None:
    members = job({"ps": 2}, anti_affinity="ps")
    members[1]["spec"]["nodeName"], members[1]["status"]["phase"] = "n1", "Running"
    assert World(nodes(2), members).run(CONF).bound == {"a-ps-1": "n2"}


def test_a_finished_pod_repels_no_tasks() -> None:
    members = job({"ps": 2}, anti_affinity="ps")
    members[1]["spec"]["nodeName"], members[1]["status"]["phase"] = "n1", "Failed"
    members[0]["spec"]["minMember"] = 1
    assert World(nodes(2), members).run(CONF).bound == {"a-ps-1": "n1"}


def test_a_job_without_constraints_is_placed_as_without_the_plugin() -> None:
    assert set(World(nodes(3), job({"ps": 2})).run(CONF).bound.values()) == {"n1"}


def test_discarding_a_gang_restores_the_buckets() -> None:
    session = World(nodes(2), job({"ps": 2, "worker": 2}, affinity="ps,worker")).session(CONF)
    found = session.jobs["default/a"]
    task = min(found.tasks(), key=session.task_key)
    view = session.view(task.cls, found)
    before = view.choose(1)
    statement: Statement = session.statement()
    statement.allocate(found, (task,), [1])
    assert view.choose(1) == [1], "the rest of the bucket follows"
    statement.discard()
    assert view.choose(1) == before == [0]


# --- order ---
def test_tasks_are_ordered_by_bucket_and_role() -> None:
    session = World(
        nodes(2), job({"other": 1, "worker": 2, "ps": 1}, affinity="ps,worker", task_order="ps,worker")
    ).session(CONF)
    ordered = sorted(session.jobs["default/a"].tasks(), key=session.task_key)
    assert [task.name for task in ordered] == ["a-ps-0", "a-worker-0", "a-worker-1", "a-other-0"]


def test_without_an_order_the_role_with_the_stricter_constraint_comes_first() -> None:
    found = buckets(nodes(1), job({"a": 1, "b": 1, "c": 1, "d": 1}, affinity="a,b;c", anti_affinity="d,c;b"))
    assert sorted("abcd", key=found.topology.precedence) == ["b", "a", "c", "d"]


def test_equal_buckets_grow_evenly() -> None:
    found = buckets(nodes(2), job({"ps": 2, "worker": 4}, affinity="ps,worker", anti_affinity="ps"))
    sizes = sorted(-found.key(task)[1] for task in found.job.tasks())
    assert sizes == [3] * 6, "two buckets of three each"


# --- annotations ---
@pytest.mark.parametrize(
    "keys", [{"affinity": "ps,other"}, {"anti_affinity": "ps,ps"}, {"task_order": "worker,worker"}]
)
def test_invalid_constraints_are_reported_and_ignored(keys: dict[str, str]) -> None:
    world = World(nodes(1), job({"ps": 1, "worker": 1}, **keys)).run(CONF)
    assert len(world.bound) == 2
    (message,) = set(world.events("Malformed"))
    assert message.startswith("metadata.annotations[volcano.sh/task-topology-")


def test_a_role_without_pods_is_not_reported_until_all_pods_exist() -> None:
    members = job({"ps": 1}, affinity="ps,worker")
    members[0]["spec"]["minMember"] = 2
    assert World(nodes(1), members).run(CONF).events("Malformed") == []


def test_sets_are_separated_by_semicolons_and_empty_ones_are_ignored() -> None:
    found = buckets(nodes(1), job({"a": 1, "b": 1, "c": 1}, affinity=";a,b;;c;"))
    assert found.topology.affinity == {("a", "b"), ("b", "a"), ("c", "c")}


def test_a_job_without_topology_annotations_has_no_topology() -> None:
    session = World(nodes(1), job({"a": 1})).session(CONF)
    assert read_topology(session.jobs["default/a"]) is None


def test_the_error_names_the_annotation() -> None:
    session = World(nodes(1), job({"a": 1}, task_order="b")).session(CONF)
    with pytest.raises(TopologyError) as caught:
        read_topology(session.jobs["default/a"])
    assert caught.value.field == "metadata.annotations[volcano.sh/task-topology-task-order]"
