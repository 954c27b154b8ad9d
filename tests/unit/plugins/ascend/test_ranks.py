"""The annotation hccl/rankIndex of the Pods of NPU jobs."""

from random import Random

import pytest

from scheduler.api.names import DISTRIBUTED_JOB, HCCL_RANK_INDEX, PREDICATE_TIME, TASK_INDEX
from scheduler.framework.cycle import run_cycle
from tests.builders import Raw, World, feed, group, manifests, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, npu_node, npu_pod

STATEFUL_SET_POD = "statefulset.kubernetes.io/pod-name"
NODES = [npu_node(f"n{i}") for i in range(12)]


def ranks(*pods: Raw | list[Raw]) -> dict[str, str | None]:
    """Maps each Pod to the rank that is written with its binding."""
    world = World(*NODES, group("j", minimum=1), *pods).run(CONFIGURATION)
    return {bind.task.name: bind.annotations.get(HCCL_RANK_INDEX) for bind in world.decisions.binds}


def test_pods_without_an_index_are_numbered_in_the_order_of_their_names() -> None:
    found = ranks([npu_pod(f"worker{i}", 8, "j") for i in (10, 9, 1)])
    assert found == {"worker1": "0", "worker9": "1", "worker10": "2"}


def test_the_index_in_a_vcjobs_task_is_the_rank() -> None:
    found = ranks([npu_pod(f"a{i}", 8, "j", labels={TASK_INDEX: str(7 - i)}) for i in range(3)])
    assert found == {"a0": "7", "a1": "6", "a2": "5"}


def with_variable(value: object, raw: Raw) -> Raw:
    """The Pod with an index in its environment, as controllers of vcjobs set it."""
    raw["spec"]["containers"][0]["env"] = [{"name": "OTHER", "value": 5}, {"name": "VC_TASK_INDEX", "value": value}]
    return raw


def test_the_index_in_the_environment_is_the_rank() -> None:
    assert ranks([with_variable(str(7 - i), npu_pod(f"a{i}", 8, "j")) for i in range(3)]) == {
        "a0": "7",
        "a1": "6",
        "a2": "5",
    }


@pytest.mark.parametrize("value", ["", "-1", "01", "x", "9" * 12, 3, None, ["1"]])
def test_a_malformed_index_in_the_environment_counts_as_none(value: object) -> None:
    assert ranks(with_variable(value, npu_pod("a", 8, "j"))) == {"a": "0"}


def test_pods_that_differ_in_their_environment_are_of_one_class() -> None:
    pods = [with_variable(str(i), npu_pod(f"a{i}", 8, "j")) for i in range(2)]
    session = World(*NODES, group("j", minimum=1), *pods).session(CONFIGURATION)
    assert len({task.cls for task in session.jobs["default/j"].tasks()}) == 1


def test_the_ordinal_in_a_stateful_set_is_the_rank() -> None:
    assert ranks(npu_pod("web", 8, "j", labels={STATEFUL_SET_POD: "web-11"})) == {"web": "11"}


def test_a_rank_in_the_annotation_is_kept_and_not_given_to_another_pod() -> None:
    own = npu_pod("b", 8, "j", annotations={HCCL_RANK_INDEX: "0"})
    assert ranks(own, npu_pod("a", 8, "j"), npu_pod("c", 8, "j")) == {"b": None, "a": "1", "c": "2"}


def test_the_replacement_of_a_pod_gets_its_rank() -> None:
    old = [npu_pod(f"p{i}", 8, "j", on=f"n{i}", annotations={HCCL_RANK_INDEX: str(i)}) for i in range(2)]
    leaving = npu_pod("p2", 8, "j", on="n2", annotations={HCCL_RANK_INDEX: "2"}, deleting=True)
    failed = npu_pod("p3", 8, "j", on="n3", annotations={HCCL_RANK_INDEX: "3"}, phase="Failed")
    assert ranks(old, leaving, failed, npu_pod("p4", 8, "j"), npu_pod("p5", 8, "j")) == {"p4": "2", "p5": "3"}


def test_ranks_are_not_given_twice_before_the_watch_shows_them() -> None:
    cache = World(*NODES, group("j", minimum=1), npu_pod("z", 8, "j")).cluster.cache
    cache.configure(CONFIGURATION)
    cache.assume(run_cycle(cache.snapshot(1e9), CONFIGURATION).decisions)
    feed(cache, npu_pod("a", 8, "j"))
    (bind,) = run_cycle(cache.snapshot(1e9 + 1), CONFIGURATION).decisions.binds
    assert (bind.task.name, bind.annotations[HCCL_RANK_INDEX]) == ("a", "1")


def test_a_failed_binding_gives_its_rank_back() -> None:
    cache = World(*NODES, group("j", minimum=1), npu_pod("z", 8, "j")).cluster.cache
    cache.configure(CONFIGURATION)
    decisions = run_cycle(cache.snapshot(1e9), CONFIGURATION).decisions
    cache.assume(decisions)
    cache.bind_failed(decisions.binds[0])
    feed(cache, npu_pod("a", 8, "j"))
    again = run_cycle(cache.snapshot(1e9 + 1), CONFIGURATION).decisions.binds
    assert {bind.task.name: bind.annotations[HCCL_RANK_INDEX] for bind in again} == {"a": "0", "z": "1"}


def test_pods_with_chips_do_not_share_the_index_of_their_tasks() -> None:
    master = npu_pod("master-0", 8, "j", labels={TASK_INDEX: "0"})
    workers = [npu_pod(f"worker-{i}", 8, "j", labels={TASK_INDEX: str(i)}) for i in range(2)]
    assert ranks(master, workers) == {"master-0": "0", "worker-0": "2", "worker-1": "1"}
    launcher = pod("master-0", "1c+1Gi", "j", labels={TASK_INDEX: "0"})
    assert ranks(launcher, workers) == {"master-0": "0", "worker-0": "0", "worker-1": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_over_sessions_and_restarts_no_two_pods_have_one_rank_and_no_pod_changes_its_rank(seed: int) -> None:
    random, number = Random(seed), 0
    world = World(*NODES, group("j", minimum=1))
    ranks: dict[str, str] = {}
    for _ in range(12):
        for _ in range(random.randint(0, 2)):
            labels = {TASK_INDEX: str(random.randint(0, 3))} if random.random() < 0.3 else {}
            world.cluster.load(manifests(npu_pod(f"p{random.randint(0, 9)}-{number}", 8, "j", labels=labels)))
            number += 1
        world.run(CONFIGURATION, kubelet=random.random() < 0.5)
        for pod_now in (o for o in world.cluster.objects() if o["kind"] == "Pod" and o["spec"].get("nodeName")):
            name, rank = pod_now["metadata"]["name"], pod_now["metadata"]["annotations"][HCCL_RANK_INDEX]
            assert ranks.setdefault(name, rank) == rank
        assert len(set(ranks.values())) == len(ranks)
        if ranks and random.random() < 0.5:  # a restart, meanwhile one of the Pods is deleted
            name = random.choice(sorted(ranks))
            there = [o for o in world.cluster.objects() if o["kind"] in ("PodGroup", "Pod", "Node")]
            world = World([o for o in there if o["metadata"]["name"] != name])
            del ranks[name]


def test_an_annotation_that_is_no_rank_is_replaced_with_a_warning() -> None:
    world = World(*NODES, group("j", minimum=1), npu_pod("a", 8, "j", annotations={HCCL_RANK_INDEX: "-1"}))
    (bind,) = world.run(CONFIGURATION).decisions.binds
    assert bind.annotations[HCCL_RANK_INDEX] == "0"
    assert world.malformed == ["Pod a metadata.annotations[hccl/rankIndex]: '-1' is not a rank"]


def test_a_malformed_index_does_not_count() -> None:
    assert ranks(npu_pod("a", 8, "j", labels={TASK_INDEX: "٣", STATEFUL_SET_POD: "web"})) == {"a": "0"}


def test_a_launcher_without_chips_has_a_rank_and_no_other_annotation() -> None:
    world = World(*NODES, group("j", minimum=2), npu_pod("a", 8, "j"), pod("launcher", "1c+1Gi", "j"))
    bound = {bind.task.name: bind.annotations for bind in world.run(CONFIGURATION).decisions.binds}
    assert bound["launcher"] == {HCCL_RANK_INDEX: "1"}
    assert {HCCL_RANK_INDEX, PREDICATE_TIME, DISTRIBUTED_JOB} <= set(bound["a"])


def test_a_job_without_chips_has_no_ranks() -> None:
    assert ranks(pod("a", "1c+1Gi", "j")) == {"a": None}
