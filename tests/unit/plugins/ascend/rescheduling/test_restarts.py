"""Faults of nodes and chips, and the strategies force, grace and off, over sessions with controllers."""

import json
from typing import Any

import pytest

from scheduler.api.kinds import CONFIG_MAP, NODE
from tests.unit.plugins.ascend.chips import device_info, npu_node
from tests.unit.plugins.ascend.rescheduling.faulty import Cluster, all_chips, vcjob


def running(**labels: Any) -> Cluster:
    """A vcjob of two Pods that runs on a and b; node c comes later."""
    cluster = Cluster(vcjob(**labels), nodes=("a", "b"))
    cluster.run(5)
    assert cluster.placed() == {"train-t-0": "a", "train-t-1": "b"}
    return cluster


def add_node(cluster: Cluster, name: str) -> None:
    cluster.server.create(NODE, npu_node(name))
    cluster.server.create(CONFIG_MAP, device_info(name, [*range(8)]))


def test_the_job_of_a_broken_chip_restarts_on_other_nodes_with_its_ranks() -> None:
    cluster = running(fault_scheduling="force")
    add_node(cluster, "c")
    cluster.chips("a", Unhealthy=[3])
    cluster.run(10)
    assert cluster.evicted() == {"train-t-0": 0, "train-t-1": 0}
    assert sorted(cluster.placed().values()) == ["b", "c"]
    assert cluster.ranks() == {"train-t-0": "0", "train-t-1": "1"}
    assert cluster.chips_of("train-t-0") == all_chips()
    assert cluster.restarts_of() == 1


def test_the_history_names_the_fault_and_counts_the_restart() -> None:
    cluster = running(fault_scheduling="force")
    cluster.chips("a", Unhealthy=[3])
    cluster.run(5)
    (history,) = cluster.history().values()
    assert history.total_reschedule_times == 1
    (record,) = history.reschedule_records
    (reason,) = record.reason_of_task
    assert (reason.reschedule_reason, reason.pod_name, reason.node_name, reason.node_rank_index) == (
        "CardUnhealthy",
        "train-t-0",
        "a",
        "0",
    )
    (message,) = cluster.events("Rescheduled")
    assert message == (
        "restart 1 of the job: 2 Pods are deleted without a grace period (CardUnhealthy of Pod train-t-0 on node a)"
    )


def test_the_state_lists_the_faulty_node_as_other_components_read_it() -> None:
    cluster = running(fault_scheduling="force")
    fault = {
        "fault_type": "CardUnhealthy",
        "npu_name": "Ascend910-3",
        "fault_level": "SeparateNPU",
        "fault_handling": "SeparateNPU",
        "large_model_fault_level": "SeparateNPU",
        "fault_code": "80E01801",
        "fault_time_and_level_map": {"80E01801": {"fault_time": 1}},
    }
    cluster.chips("a", Unhealthy=[3], Fault=json.dumps([fault]))
    cluster.run(2)
    (node,) = json.loads(cluster.data()["fault-node"])
    del fault["fault_time_and_level_map"]
    assert node.pop("UpdateTime") > 0
    assert node == {
        "FaultDeviceList": [fault],
        "NodeName": "a",
        "UnhealthyNPU": ["Ascend910-3"],
        "NetworkUnhealthyNPU": None,
        "NodeHealthState": "CardUnhealthy",
    }
    (retries,) = json.loads(cluster.data()["remain-retry-times"]).values()
    assert retries["Times"] == 0


@pytest.mark.parametrize("labels", [{}, {"fault_scheduling": "off"}])
def test_a_job_without_the_label_or_with_off_stays(labels: dict[str, str]) -> None:
    cluster = running(**labels)
    cluster.chips("a", Unhealthy=[3])
    cluster.run(5)
    assert cluster.evicted() == {}
    assert cluster.data() == {}


def test_a_network_fault_alone_deletes_nothing() -> None:
    cluster = running(fault_scheduling="force")
    cluster.chips("a", NetworkUnhealthy=[2])
    cluster.run(5)
    assert cluster.evicted() == {}
    (node,) = cluster.state().fault_nodes
    assert (node.node_health_state, node.network_unhealthy) == ("CardNetworkUnhealthy", ("Ascend910-2",))


def test_the_fault_of_an_unused_chip_deletes_nothing() -> None:
    cluster = Cluster(vcjob(replicas=1, chips=1, fault_scheduling="force"), nodes=("a",))
    cluster.run(5)
    used = int(cluster.chips_of("train-t-0").rpartition("-")[2])
    cluster.chips("a", Unhealthy=[chip for chip in range(8) if chip != used])
    cluster.run(5)
    assert cluster.evicted() == {}
    cluster.chips("a", Unhealthy=[*range(8)])
    cluster.run(3)
    assert cluster.evicted() == {"train-t-0": 0}


def test_a_recovering_chip_deletes_nothing() -> None:
    cluster = running(fault_scheduling="force")
    cluster.chips("a", Recovering=[3])
    cluster.run(5)
    assert cluster.evicted() == {}


def test_with_grace_the_pods_have_their_grace_period() -> None:
    cluster = running(fault_scheduling="grace")
    cluster.chips("b", Unhealthy=[0])
    cluster.run(3)
    assert cluster.evicted() == {"train-t-0": None, "train-t-1": None}


@pytest.mark.parametrize("status, restarts", [("UnHealthy", 1), ("PreSeparate", 0), ("Healthy", 0)])
def test_an_unhealthy_node_restarts_its_jobs(status: str, restarts: int) -> None:
    cluster = running(fault_scheduling="force")
    add_node(cluster, "c")
    cluster.node_status("a", status)
    cluster.run(10)
    assert cluster.restarts_of() == restarts
    assert ("a" in cluster.placed().values()) is not bool(restarts)


def test_a_job_that_restarts_is_not_placed_in_part() -> None:
    cluster = running(fault_scheduling="force")
    cluster.chips("a", Unhealthy=[3])
    cluster.run(10)
    assert cluster.placed() == {}
    add_node(cluster, "c")
    cluster.run(5)
    assert sorted(cluster.placed().values()) == ["b", "c"]


def test_a_fault_that_stays_causes_one_restart() -> None:
    cluster = running(fault_scheduling="force")
    add_node(cluster, "c")
    cluster.chips("a", Unhealthy=[3])
    cluster.run(30)
    assert cluster.restarts_of() == 1
    assert not any(restart.pods for restart in cluster.state().restarts.values())
