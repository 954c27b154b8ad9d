"""Jobs resume with the ranks they had, healthy Pods stay on or return to their nodes, and faulty nodes are avoided."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import POD
from scheduler.api.names import HCCL_RANK_INDEX
from tests.unit.plugins.ascend.rescheduling.faulty import CONFIGURATION, Cluster, vcjob

PREFER = replace(CONFIGURATION, action_arguments={"init-params": {"prefer-previous-node": "true"}})
NODES = ("a", "b", "c", "d", "e")


def running(*, nodes: Sequence[str] = NODES, replicas: int = 3, prefer: bool = True, **labels: Any) -> Cluster:
    job = vcjob(replicas=replicas, policies=[], **labels)
    cluster = Cluster(job, nodes=nodes, settings=PREFER if prefer else CONFIGURATION)
    cluster.run(6)
    assert len(cluster.placed()) == replicas
    return cluster


@pytest.mark.parametrize("kill", [False, True])
def test_healthy_pods_return_to_their_nodes_and_the_faulty_one_goes_elsewhere(kill: bool) -> None:
    cluster = running(fault_scheduling="force")
    before = cluster.placed()
    assert before == {"train-t-0": "a", "train-t-1": "b", "train-t-2": "c"}
    cluster.label("train-t-1", fault_type="software")
    cluster.run(2)
    if kill:
        cluster.restart()
    cluster.run(10)
    assert cluster.placed() == {"train-t-0": "a", "train-t-1": "d", "train-t-2": "c"}
    assert cluster.ranks() == {f"train-t-{i}": str(i) for i in range(3)}


def test_the_node_of_a_faulty_pod_is_used_if_there_is_no_other() -> None:
    cluster = running(nodes=("a", "b", "c"), fault_scheduling="force")
    cluster.label("train-t-1", fault_type="software")
    cluster.run(12)
    assert cluster.placed() == {"train-t-0": "a", "train-t-1": "b", "train-t-2": "c"}


def test_single_pods_restart_while_the_others_stay() -> None:
    cluster = running(fault_scheduling="force", pod_rescheduling="on")
    before = cluster.uids()
    cluster.chips("b", Unhealthy=[0])
    cluster.run(10)
    after = cluster.uids()
    assert {name for name in after if after[name] != before[name]} == {"train-t-1"}
    assert cluster.placed() == {"train-t-0": "a", "train-t-1": "d", "train-t-2": "c"}
    assert cluster.ranks() == {f"train-t-{i}": str(i) for i in range(3)}


@pytest.mark.parametrize(
    ("labels", "nodes", "marked"),
    [
        ({"pod_rescheduling": "on"}, "abc", {"train-t-1"}),
        ({"pod_rescheduling": "on"}, "abcd", set()),
        ({}, "abc", set()),
    ],
)
def test_a_single_pod_that_returns_to_its_node_is_marked(labels: dict[str, Any], nodes: str, marked: set[str]) -> None:
    cluster = running(nodes=nodes, fault_scheduling="force", **labels)
    cluster.label("train-t-1", fault_type="software")
    cluster.run(12)
    assert len(cluster.placed()) == 3
    found = {
        pod["metadata"]["name"]
        for pod in cluster.server.of(POD)
        if pod["metadata"]["annotations"].get("reschedule-in-place") == "true"
    }
    assert found == marked


@pytest.mark.parametrize("labels", [{"pod_rescheduling": "on"}, {"process_recover_enable": "on"}])
def test_a_fault_of_rank_0_restarts_the_whole_job(labels: dict[str, str]) -> None:
    given: dict[str, Any] = dict(labels)
    cluster = running(fault_scheduling="force", **given)
    before = cluster.uids()
    cluster.chips("a", Unhealthy=[0])
    cluster.run(10)
    after = cluster.uids()
    assert not {*before.values()} & {*after.values()}
    assert len(cluster.placed()) == 3


def test_with_the_recover_policy_pod_a_fault_of_rank_0_restarts_that_pod_alone() -> None:
    job = vcjob(
        replicas=3,
        policies=[],
        annotations={"huawei.com/recover_policy_path": "pod"},
        fault_scheduling="force",
    )
    cluster = Cluster(job, nodes=NODES).run(6)
    before = cluster.uids()
    cluster.chips("a", Unhealthy=[0])
    cluster.run(10)
    after = cluster.uids()
    assert {name for name in after if after[name] != before[name]} == {"train-t-0"}


def test_a_replacement_that_waits_too_long_restarts_the_whole_job() -> None:
    cluster = running(nodes=("a", "b", "c"), fault_scheduling="force", pod_rescheduling="on")
    before = cluster.uids()
    cluster.chips("b", Unhealthy=[0])
    cluster.run(11)
    assert cluster.uids()["train-t-0"] == before["train-t-0"]
    cluster.run(10)
    assert cluster.uids().get("train-t-0") != before["train-t-0"]
    (restart,) = cluster.state().restarts.values()
    assert (restart.number, restart.whole) == (2, True)


def test_at_the_level_of_processes_the_scope_does_not_grow() -> None:
    cluster = running(nodes=("a", "b", "c"), fault_scheduling="force", process_recover_enable="on")
    before = cluster.uids()
    cluster.chips("b", Unhealthy=[0])
    cluster.run(30)
    assert cluster.uids()["train-t-0"] == before["train-t-0"]


def test_a_second_fault_during_the_restart_of_a_single_pod_is_a_restart_of_its_own() -> None:
    cluster = running(nodes=("a", "b", "c", "d"), fault_scheduling="force", process_recover_enable="on")
    cluster.chips("b", Unhealthy=[0])
    cluster.run(2)
    cluster.chips("c", Unhealthy=[0])
    cluster.run(20)
    (restart,) = cluster.state().restarts.values()
    assert restart.number == 2
    assert sorted(cluster.placed().values()) == ["a", "d"]
    cluster.chips("b")
    cluster.run(5)
    assert sorted(cluster.placed().values()) == ["a", "b", "d"]
    assert sorted(cluster.ranks().values()) == ["0", "1", "2"]


def test_pods_with_ranks_of_their_own_resume_with_them() -> None:
    job = vcjob(replicas=1, policies=[], annotations={HCCL_RANK_INDEX: "7"}, fault_scheduling="force")
    cluster = Cluster(job).run(6)
    cluster.chips("a", Unhealthy=[0])
    cluster.run(10)
    assert cluster.ranks() == {"train-t-0": "7"}


def test_of_a_large_job_only_the_faulty_pod_changes_its_node() -> None:
    """Equal Pods are placed in portions, so the replacement of the faulty Pod must not take the node of a Pod that is
    placed later."""
    cluster = running(nodes=tuple(f"n{i:03d}" for i in range(301)), replicas=300, fault_scheduling="force")
    before = cluster.placed()
    cluster.chips("n003", Unhealthy=[0])
    cluster.run(8)
    after = cluster.placed()
    assert {name for name in before if after[name] != before[name]} == {"train-t-3"}
