"""The part of the cluster that one of several schedulers uses: its nodes and queues, and the content of its
snapshots."""

from typing import Any

import pytest

from scheduler.api.decisions import Bind
from scheduler.api.kinds import NODE, NODE_SHARD
from scheduler.api.snapshot import Snapshot
from scheduler.cache import ClusterCache
from scheduler.cache.shards import top_queue
from scheduler.framework.cycle import run_cycle
from tests.builders import NAME, Raw, configuration, feed, group, node, pod, queue

PLAN = configuration(["priority", "gang"], ["predicates", "proportion"], actions="enqueue, allocate")


def shard(
    name: str,
    nodes: str = "",
    queues: str = "",
    *,
    labels: str = "",
    in_use: str = "",
    queues_in_use: str = "",
    **meta: Any,
) -> Raw:
    """A NodeShard. Names are separated by commas."""
    annotations = {
        "volcano-py/queues": queues,
        "volcano-py/queues-in-use": queues_in_use,
        "volcano-py/node-labels": labels,
    }
    return {
        "apiVersion": "shard.volcano.sh/v1alpha1",
        "kind": "NodeShard",
        "metadata": {"name": name, "resourceVersion": "1", "annotations": annotations, **meta},
        "spec": {"nodesDesired": nodes.split(",") if nodes else []},
        "status": {"nodesInUse": in_use.split(",") if in_use else []},
    }


def member(name: str, *objects: Raw) -> ClusterCache:
    cache = ClusterCache([NAME], shard=name)
    feed(cache, list(objects))
    return cache


def using(cache: ClusterCache) -> Snapshot:
    """A snapshot with all that the claims permit."""
    cache.use_shard(cache.shard_claims())
    return cache.snapshot(100.0)


NODES = [node("n1", "4c+1Gi"), node("n2", "4c+1Gi"), node("n3", "4c+1Gi", labels={"pool": "b"})]
QUEUES = [queue("root"), queue("x", parent="root"), queue("x1", parent="x"), queue("y", parent="root"), queue("z")]


@pytest.mark.parametrize(
    ("shards", "desired"),
    [
        ([shard("b", "n1,n2")], {"n1", "n2"}),
        ([shard("b", "n1,gone")], {"n1"}),
        ([shard("b", labels="pool=b")], {"n3"}),
        ([shard("b", "n1", labels="pool=b")], {"n1", "n3"}),
        ([shard("b", labels="pool=b, zone=c")], set()),
        ([shard("b", "n1,n2"), shard("a", "n1")], {"n2"}),
        ([shard("b", "n1,n2"), shard("c", "n1")], {"n1", "n2"}),
        ([shard("b", "n3"), shard("a", labels="pool=b")], set()),
        ([shard("a", "n1")], set()),
        ([shard("b", "n1", deletionTimestamp="2026-01-01T00:00:00Z")], set()),
        ([shard("b", "n1"), shard("a", "n1", deletionTimestamp="2026-01-01T00:00:00Z")], {"n1"}),
    ],
)
def test_a_node_belongs_to_the_first_shard_that_names_or_selects_it(shards: list[Raw], desired: set[str]) -> None:
    assert member("b", *NODES, *shards).shard_claims().nodes.desired == desired


@pytest.mark.parametrize(
    ("shards", "desired", "rest"),
    [
        ([shard("b", queues="x, y")], {"x", "y"}, False),
        ([shard("b", queues="x1")], set(), False),
        ([shard("b", queues="*")], {"x", "y", "z"}, True),
        ([shard("b", queues="*"), shard("c", queues="y")], {"x", "z"}, True),
        ([shard("b", queues="x,*"), shard("a", queues="*")], {"x"}, False),
        ([shard("b", queues="x,y"), shard("a", queues="x")], {"y"}, False),
    ],
)
def test_a_queue_belongs_to_one_shard_with_all_queues_below(shards: list[Raw], desired: set[str], rest: bool) -> None:
    claims = member("b", *QUEUES, *shards).shard_claims()
    assert (set(claims.queues.desired), claims.has_rest) == (desired, rest)


@pytest.mark.parametrize(
    ("queue_name", "top"),
    [("x1", "x"), ("x", "x"), ("z", "z"), ("unknown", "unknown"), ("loop1", "loop1"), ("in", "loop1")],
)
def test_the_queue_right_below_the_root(queue_name: str, top: str) -> None:
    parents = {"root": "", "x": "root", "x1": "x", "z": "", "loop1": "loop2", "loop2": "loop1", "in": "loop2"}
    assert top_queue(queue_name, parents) == top


def test_malformed_labels_select_no_node_and_are_reported() -> None:
    cache = member("b", *NODES, shard("b", labels="pool=b, zone"))
    assert cache.shard_claims().nodes.desired == set()
    (problem,) = cache.take_malformed()
    assert (problem.kind, problem.name, problem.field) == (
        "NodeShard",
        "b",
        "metadata.annotations[volcano-py/node-labels]",
    )


def test_without_its_shard_a_scheduler_uses_nothing() -> None:
    cache = member("b", *NODES, *QUEUES, shard("a", "n1", "*"), group("j", queue="x"), pod("p", "1c", "j"))
    snapshot = using(cache)
    assert (snapshot.nodes.names, snapshot.jobs) == ([], {})
    assert cache.shard_claims().resource_version == ""


def claimed() -> ClusterCache:
    """The scheduler b has claimed n1, n2 and the queue x, and desires n3, too."""
    mine = shard("b", "n1,n2,n3", "x", in_use="n1,n2", queues_in_use="x")
    jobs = [group("mine", queue="x1", phase="Inqueue"), pod("p", "1c", "mine")]
    others = [group("theirs", queue="y", phase="Running"), pod("q", "3c", "theirs", on="n1"), pod("r", "1c", "theirs")]
    return member("b", *NODES, *QUEUES, mine, shard("a", in_use="n3", queues="*"), *jobs, *others)


def test_a_snapshot_shows_claimed_nodes_and_queues_and_what_others_hold_on_them() -> None:
    snapshot = using(claimed())
    assert snapshot.nodes.names == ["n1", "n2"]
    assert snapshot.queues.keys() == {"root", "x", "x1"}
    assert snapshot.jobs.keys() == {"default/mine"}
    assert {task.name for task in snapshot.tasks_without_job} == {"q"}
    assert snapshot.nodes.idle[0].tolist() == [1000, 4000]
    assert not snapshot.all_nodes


def test_only_claimed_nodes_are_bound_to_and_only_own_pods_are_tried() -> None:
    cache = claimed()
    feed(cache, [node("n0", "8c+8Gi"), pod("second", "1c", "mine")])
    decisions = run_cycle(using(cache), PLAN).decisions
    assert {bind.task.name: bind.node for bind in decisions.binds}.keys() == {"p", "second"}
    assert {bind.node for bind in decisions.binds} <= {"n1", "n2"}
    assert {update.name for update in decisions.pod_groups} == {"mine"}


def test_nodes_and_queues_come_and_go_with_the_claims() -> None:
    cache = claimed()
    using(cache)
    feed(cache, [shard("b", "n1,n2,n3", "x, y", in_use="n2,n3", queues_in_use="y"), shard("a")])
    snapshot = using(cache)
    assert snapshot.nodes.names == ["n2", "n3"]
    assert snapshot.jobs.keys() == {"default/theirs"}
    assert snapshot.queues.keys() == {"root", "y"}

    cache.delete(NODE_SHARD, "", "b")
    snapshot = using(cache)
    assert (snapshot.nodes.names, snapshot.jobs) == ([], {})


@pytest.mark.parametrize(("name", "on"), [("", []), ("b", ["n1"])])
def test_affinity_and_spreading_count_only_pods_on_nodes_of_the_shard(name: str, on: list[str]) -> None:
    zone = {"zone": "east"}
    nodes = [node("n1", "4c+1Gi", labels=zone), node("n2", "4c+1Gi", labels=zone)]
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    jobs = [
        group("other", queue="y", phase="Running"),
        pod("there", "1c", "other", on="n2", labels={"app": "web"}),
        group("mine", queue="x", phase="Inqueue"),
        pod("p", "1c", "mine", affinity=apart),
    ]
    cache = member(name, *nodes, *QUEUES, shard("b", "n1", "x", in_use="n1", queues_in_use="x"), *jobs)
    assert [bind.node for bind in run_cycle(using(cache), PLAN).decisions.binds] == on


def test_nodes_that_come_later_and_heartbeats_of_others_change_nothing() -> None:
    cache = claimed()
    using(cache)
    version = cache.version
    feed(cache, [node("n3", "4c+1Gi", labels={"pool": "b"}), node("n4", "4c+1Gi")])
    assert cache.version == version
    assert using(cache).nodes.names == ["n1", "n2"]
    cache.delete(NODE, "", "n1")
    assert using(cache).nodes.names == ["n2"]


def test_jobs_of_a_queue_that_does_not_exist_belong_to_the_shard_of_the_rest() -> None:
    lost = [group("lost", queue="nowhere"), pod("p", "1c", "lost")]
    for name, queues, expected in (("b", "x,*", {"default/lost"}), ("b", "x", set())):
        cache = member(name, *NODES, *QUEUES, shard("b", "n1", queues, in_use="n1", queues_in_use="x"), *lost)
        assert using(cache).jobs.keys() == expected


def test_a_queue_made_below_a_served_one_is_served_and_the_root_is_written_by_one() -> None:
    cache = claimed()
    feed(cache, [group("new", queue="x2"), pod("n", "1c", "new")])
    assert "default/new" not in using(cache).jobs
    feed(cache, [queue("x2", parent="x1")])
    assert "default/new" in using(cache).jobs
    assert [cache.writes_queue(name) for name in ("x", "x1", "x2", "y", "root")] == [True, True, True, False, False]
    assert all(ClusterCache([NAME]).writes_queue(name) for name in ("x", "root"))


def test_a_scheduler_without_a_shard_ignores_node_shards() -> None:
    cache = ClusterCache([NAME])
    feed(cache, [*NODES, *QUEUES, shard("volcano", "n1")])
    assert cache.snapshot(1.0).nodes.names == ["n1", "n2", "n3"]


def test_a_binding_under_way_is_kept_when_its_queue_goes_to_another_scheduler() -> None:
    cache = claimed()
    decisions = run_cycle(using(cache), PLAN).decisions
    cache.assume(decisions)
    feed(cache, [shard("b", "n1,n2", "", in_use="n1,n2"), shard("a", queues="*", queues_in_use="x")])
    snapshot = using(cache)
    (bind,) = decisions.binds
    assert isinstance(bind, Bind)
    assert {task.name for task in snapshot.tasks_without_job} == {"p", "q"}
    assert snapshot.nodes.idle[0].sum() == 8000 - 3000 - 1000
