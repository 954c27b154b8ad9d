"""The option prefer-previous-node: a Pod that replaces another Pod of its job returns to the node of that Pod."""

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import NODE, POD
from scheduler.api.names import HCCL_RANK_INDEX
from scheduler.cache import ClusterCache, job_records
from scheduler.framework.cycle import run_cycle
from tests.builders import Raw, World, feed, group
from tests.unit.plugins.ascend.chips import CONFIGURATION, npu_node, npu_pod

PREFER = replace(CONFIGURATION, action_arguments={"init-params": {"prefer-previous-node": "true"}})
NODES = [npu_node(f"n{i}") for i in range(4)]


def running(name: str, on: str, rank: int, **rest: str) -> Raw:
    return npu_pod(name, 8, "j", on=on, annotations={HCCL_RANK_INDEX: str(rank)}, **rest)


def after_the_loss_of(*lost: str, pods: list[Raw]) -> ClusterCache:
    cache = World(NODES, group("j", minimum=1), pods).cluster.cache
    for name in lost:
        cache.delete(POD, "default", name)
    return cache


def placed(cache: ClusterCache, *pods: Raw, prefer: bool = True) -> dict[str, str]:
    configuration = PREFER if prefer else CONFIGURATION
    feed(cache, *pods)
    cache.configure(configuration)
    return {bind.task.name: bind.node for bind in run_cycle(cache.snapshot(1e9), configuration).decisions.binds}


def test_a_replaced_pod_returns_to_its_node_if_the_option_is_on() -> None:
    pods = [running("a", "n1", 0), running("b", "n3", 1)]
    assert placed(after_the_loss_of("b", pods=pods), npu_pod("c", 8, "j")) == {"c": "n3"}
    assert placed(after_the_loss_of("b", pods=pods), npu_pod("c", 8, "j"), prefer=False) == {"c": "n0"}


def test_the_pods_of_a_job_that_restarts_return_to_their_nodes() -> None:
    cache = after_the_loss_of("a", "b", pods=[running("a", "n2", 0), running("b", "n3", 1)])
    new = [npu_pod("c", 8, "j"), npu_pod("d", 8, "j")]
    assert sorted(placed(cache, *new).values()) == ["n2", "n3"]


def test_the_node_of_a_failed_pod_is_not_preferred() -> None:
    cache = after_the_loss_of("b", pods=[running("a", "n1", 0), running("b", "n3", 1, phase="Failed")])
    assert placed(cache, npu_pod("c", 8, "j")) == {"c": "n0"}


def test_a_rank_that_runs_elsewhere_has_no_previous_node() -> None:
    cache = after_the_loss_of("b", pods=[running("a", "n1", 0), running("b", "n3", 1)])
    assert placed(cache, running("c", "n2", 1), npu_pod("d", 8, "j")) == {"d": "n0"}


def test_a_node_that_is_gone_or_full_is_not_waited_for() -> None:
    cache = after_the_loss_of("b", pods=[running("a", "n1", 0), running("b", "n3", 1)])
    cache.delete(NODE, "", "n3")
    assert placed(cache, npu_pod("c", 8, "j")) == {"c": "n0"}
    cache = after_the_loss_of("b", pods=[running("a", "n1", 0), running("b", "n3", 1)])
    assert placed(cache, npu_pod("other", 1, on="n3"), npu_pod("c", 8, "j")) == {"c": "n0"}


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_records, "MAX_PREVIOUS", 2)
    pods = [running(f"p{i}", f"n{i}", i) for i in range(4)]
    long = npu_pod("long", 1, "j", on="n0", annotations={HCCL_RANK_INDEX: "1" * 10})
    cache = after_the_loss_of("p0", "p1", "p2", "p3", "long", pods=[*pods, long])
    assert cache.snapshot(1e9).jobs["default/j"].previous_nodes == {"2": "n2", "3": "n3"}


def test_pods_without_a_rank_leave_no_trace() -> None:
    cache = after_the_loss_of("b", pods=[npu_pod("b", 8, "j", on="n3")])
    assert cache.snapshot(1e9).jobs["default/j"].previous_nodes == {}
