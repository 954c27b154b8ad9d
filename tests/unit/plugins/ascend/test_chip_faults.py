"""Chips that fail under running Pods: conditions of the job, Events, and what commands and the page show."""

from typing import Any

import pytest

from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import ASCEND_910, CONDITION_DEVICE_UNHEALTHY
from scheduler.explain.overview import overview
from scheduler.observability.cluster_figures import CardDevices
from tests.builders import Raw
from tests.unit.plugins.ascend.rescheduling.faulty import Cluster, vcjob

TEXT = "Ascend910-3 of node {} is unhealthy (Pod train-t-0)"


def running(**labels: Any) -> Cluster:
    """A job of one Pod that uses all eight chips of a node."""
    return Cluster(vcjob(replicas=1, **labels), nodes=("a",)).run(6)


def condition(cluster: Cluster) -> Raw:
    (group,) = cluster.server.of(POD_GROUP)
    found = [each for each in group["status"].get("conditions") or () if each["type"] == CONDITION_DEVICE_UNHEALTHY]
    return found[0] if found else {}


def events(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Maps the kind of an object to the message and number of its Events about devices."""
    return {
        raw["involvedObject"]["kind"]: (raw["message"], raw["count"])
        for raw in cluster.simulation.cluster.objects()
        if raw["kind"] == "Event" and raw["reason"] == "DeviceUnhealthy"
    }


@pytest.mark.parametrize("labels", [{}, {"fault_scheduling": "off"}])
def test_a_chip_that_fails_under_a_running_job_is_one_event_on_pod_group_job_and_node(labels: dict[str, str]) -> None:
    cluster = running(**labels)
    assert (condition(cluster), events(cluster)) == ({}, {})

    cluster.chips("a", Unhealthy=[3])
    cluster.run(5)

    used = "Ascend910-3 of node a is unhealthy, used by Pod default/train-t-0"
    assert events(cluster) == {
        "Pod": ("Ascend910-3 of node a is unhealthy; the Pod uses it", 1),
        "PodGroup": (used, 1),
        "Job": (used, 1),
        "Node": ("Ascend910-3 is unhealthy, used by Pod default/train-t-0", 1),
    }
    found = condition(cluster)
    assert (found["status"], found["reason"], found["message"]) == ("True", "DeviceUnhealthy", TEXT.format("a"))
    assert cluster.placed() == {"train-t-0": "a"}


def test_the_event_on_the_node_is_found_by_its_uid() -> None:
    cluster = running()
    cluster.chips("a", Unhealthy=[3])
    cluster.run(2)

    (node,) = [raw for raw in cluster.simulation.cluster.objects() if raw["kind"] == "Node"]
    (event,) = [
        raw
        for raw in cluster.simulation.cluster.objects()
        if raw["kind"] == "Event" and raw["involvedObject"]["kind"] == "Node" and raw["reason"] == "DeviceUnhealthy"
    ]
    assert event["involvedObject"]["uid"] == node["metadata"]["uid"]


def test_a_job_that_restarts_after_faults_has_the_events_too() -> None:
    cluster = running(fault_scheduling="force")

    cluster.chips("a", Unhealthy=[3])
    cluster.run(2)

    assert set(events(cluster)) == {"Pod", "PodGroup", "Job", "Node"}


def test_a_new_scheduler_repeats_no_event() -> None:
    cluster = running()
    cluster.chips("a", Unhealthy=[3])
    cluster.run(3)
    before = events(cluster)

    cluster.restart()
    cluster.run(3)

    assert events(cluster) == before


def test_a_second_fault_has_an_event_of_its_own() -> None:
    cluster = running()
    cluster.chips("a", Unhealthy=[3])
    cluster.run(3)

    cluster.chips("a", Unhealthy=[3, 5, 6])
    cluster.run(3)

    messages = {
        raw["message"]: raw["count"]
        for raw in cluster.simulation.cluster.objects()
        if raw["kind"] == "Event" and raw["reason"] == "DeviceUnhealthy" and raw["involvedObject"]["kind"] == "Pod"
    }
    assert messages == {
        "Ascend910-3 of node a is unhealthy; the Pod uses it": 1,
        "Ascend910-5, Ascend910-6 of node a are unhealthy; the Pod uses them": 1,
    }
    assert condition(cluster)["message"].count("; ") == 2


def test_a_fault_that_ends_ends_the_condition_and_may_come_again() -> None:
    cluster = running()
    cluster.chips("a", Unhealthy=[3])
    cluster.run(3)

    cluster.chips("a")
    cluster.run(3)
    healthy = condition(cluster)
    cluster.chips("a", Unhealthy=[3])
    cluster.run(3)

    assert (healthy["status"], healthy["reason"]) == ("False", "DevicesHealthy")
    assert condition(cluster)["status"] == "True"
    assert events(cluster)["Pod"][1] == 2


def test_a_node_of_which_all_chips_fail_is_reported() -> None:
    cluster = running()

    cluster.chips("a", Unhealthy=[*range(8)])
    cluster.run(3)

    assert condition(cluster)["message"].count("is unhealthy") == 8
    assert events(cluster)["Node"] == (
        ", ".join(f"Ascend910-{chip}" for chip in range(8)) + " are unhealthy, used by Pod default/train-t-0",
        1,
    )


@pytest.mark.parametrize("lists", [{"NetworkUnhealthy": [3]}, {"Unhealthy": [7]}, {"Recovering": [3]}])
def test_chips_that_no_pod_uses_that_are_reset_or_lack_the_network_only_are_no_fault_of_a_job(
    lists: dict[str, list[int]],
) -> None:
    cluster = Cluster(vcjob(replicas=1, chips=4), nodes=("a",)).run(6)
    if "7" in str(lists):
        assert "Ascend910-7" not in cluster.chips_of("train-t-0")

    cluster.chips("a", **lists)
    cluster.run(3)

    assert (condition(cluster), events(cluster)) == ({}, {})


def test_the_page_shows_the_fault_in_the_row_of_the_running_gang() -> None:
    cluster = running()
    cluster.chips("a", Unhealthy=[3])

    for _ in range(3):
        cluster.run()
        last = cluster.simulation.last
        assert last is not None
        (row,) = overview(last.session, CardDevices()).running
        assert (row.job, row.alert) == ("train", TEXT.format("a"))

    cluster.chips("a")
    cluster.run(2)
    last = cluster.simulation.last
    assert last is not None
    (row,) = overview(last.session, CardDevices()).running
    assert row.alert == ""


def test_the_chips_of_a_server_are_of_the_resource_that_the_job_asks_for() -> None:
    cluster = running()
    assert cluster.chips_of("train-t-0").count(ASCEND_910.partition("/")[2]) == 8
