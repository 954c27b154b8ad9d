"""Pods that fail: the job restarts as often as its label says, and each restart is counted once."""

import json
from collections.abc import Iterable

import pytest

from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.names import (
    FAULT_NODES,
    REMAINING_RETRIES,
    RESCHEDULING_HISTORY,
    RESCHEDULING_RECORDS,
    RESCHEDULING_RESTARTS,
    RESCHEDULING_STATE,
)
from scheduler.framework.cycle import Outcome
from tests.unit.plugins.ascend.rescheduling.faulty import Cluster, vcjob


def running(**labels: str) -> Cluster:
    return Cluster(vcjob(**labels), nodes=("a", "b")).run(5)  # type: ignore[arg-type]


def left(cluster: Cluster) -> list[int]:
    return [each["Times"] for each in json.loads(cluster.data()["remain-retry-times"]).values()]


def test_a_job_whose_pod_fails_restarts_and_has_one_retry_less() -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="2")
    assert left(cluster) == [2]
    before = cluster.placed()
    cluster.fail("train-t-0")
    cluster.run(10)
    assert left(cluster) == [1]
    assert cluster.restarts_of() == 1
    assert cluster.placed() == before
    (history,) = cluster.history().values()
    assert [each.reschedule_reason for each in history.reschedule_records[0].reason_of_task] == ["pod-failed"]


def test_without_retries_a_failed_pod_restarts_nothing() -> None:
    cluster = running(fault_scheduling="force")
    cluster.fail("train-t-0")
    cluster.run(5)
    assert cluster.evicted() == {}


def test_a_job_restarts_no_more_often_than_its_label_says() -> None:
    cluster = running(fault_scheduling="grace", fault_retry_times="3")
    for _ in range(5):
        cluster.fail("train-t-1")
        cluster.run(12)
    assert left(cluster) == [0]
    assert cluster.restarts_of() == 3
    (history,) = cluster.history().values()
    assert (history.total_reschedule_times, len(history.reschedule_records)) == (3, 3)


def test_a_service_may_have_as_many_retries_as_its_documentation_says() -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="100000000")
    cluster.fail("train-t-0")
    cluster.run(10)
    assert left(cluster) == [99_999_999]
    assert cluster.events("Malformed") == []


def test_two_pods_that_fail_together_cost_one_retry() -> None:
    cluster = Cluster(vcjob(replicas=3, fault_scheduling="force", fault_retry_times="5"))
    cluster.run(5)
    cluster.fail("train-t-0")
    cluster.fail("train-t-1")
    cluster.run(10)
    assert left(cluster) == [4]


def test_a_broken_chip_costs_no_retry() -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="5")
    cluster.chips("a", Unhealthy=[1])
    cluster.run(4)
    cluster.chips("a")
    cluster.run(6)
    assert left(cluster) == [5]
    assert cluster.restarts_of() == 1


@pytest.mark.parametrize("text", ["-1", "1000000000", "many", "1e3", "", "٣"])
def test_a_malformed_number_of_retries_is_reported_and_means_none(text: str) -> None:
    cluster = running(fault_scheduling="force", fault_retry_times=text)
    cluster.fail("train-t-0")
    cluster.run(5)
    assert cluster.evicted() == {}
    assert any("fault-retry-times" in message for message in cluster.events("Malformed"))


# --- a scheduler that is killed ---
def run_killed(cluster: Cluster, keep: Iterable[str]) -> None:
    """A cycle of which only some kinds of decisions are carried out, and then a new scheduler."""

    def cut(outcome: Outcome) -> bool:
        for kind in ("binds", "evictions", "writes", "pod_groups"):
            if kind not in keep:
                getattr(outcome.decisions, kind).clear()
        return False

    cluster.simulation.cycle(stop_when=cut)
    cluster.restart()


@pytest.mark.parametrize(
    "keep", [("writes",), ("evictions",), (), ("writes", "evictions"), ("pod_groups", "evictions")]
)
def test_retries_are_counted_exactly_although_the_scheduler_is_killed(keep: tuple[str, ...]) -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="7")
    for number in range(1, 4):
        cluster.fail("train-t-0")
        for _ in range(3):
            run_killed(cluster, keep)
        cluster.run(15)
        assert left(cluster) == [7 - number]
        assert len(cluster.placed()) == 2
        (history,) = cluster.history().values()
        assert history.total_reschedule_times == number
    assert cluster.ranks() == {"train-t-0": "0", "train-t-1": "1"}


def test_only_pods_of_the_recorded_restart_are_deleted_after_a_kill() -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="7")
    cluster.fail("train-t-0")
    cluster.run(1)
    recorded = cluster.data()
    cluster.run(12)
    new = cluster.uids()
    cluster.restart()
    cluster.run(5)
    assert cluster.uids() == new
    assert recorded["restarts"]


# --- a state that others changed ---
HUGE = json.dumps({"default/x": {"uid": "u", "number": 1, "time": 10**30, "UUID": "u", "Times": -5}})


@pytest.mark.parametrize(
    "key",
    [
        RESCHEDULING_RESTARTS,
        *(pytest.param(key, marks=pytest.mark.slow) for key in (REMAINING_RETRIES, FAULT_NODES)),
    ],
)
@pytest.mark.parametrize(
    "text", ["{", "[]", "[1]", '{"a": 1}', "9" * 5000, "[" * 100_000, '{"default/x":{"uid":5}}', HUGE]
)
def test_a_malformed_state_is_reported_and_replaced(key: str, text: str) -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="2")
    cluster.server.patch(CONFIG_MAP, "volcano-system", RESCHEDULING_STATE, {"data": {key: text}})
    cluster.fail("train-t-0")
    cluster.run(12)
    assert len(cluster.placed()) == 2
    assert left(cluster) == [1]


def test_a_state_and_a_history_that_are_not_json_are_reported_with_the_position() -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="2")
    data = {RESCHEDULING_RESTARTS: '{"a": {"uid": '}
    cluster.server.patch(CONFIG_MAP, "volcano-system", RESCHEDULING_STATE, {"data": data})
    metadata = {"name": RESCHEDULING_HISTORY, "namespace": "mindx-dl"}
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {RESCHEDULING_RECORDS: "{\n"}}
    cluster.server.create(CONFIG_MAP, raw)
    cluster.run(2)
    found = cluster.events("Malformed")
    for part in (
        "data[restarts]: not JSON: expecting value (line 1, column 15); the text ends there; counts as empty",
        "data[recent-reschedule-records]: not JSON: expecting property name enclosed in double quotes (line 2, column ",
    ):
        assert any(part in message for message in found), found


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"default/x":{"JobID":"x","TotalRescheduleTimes":-1,"RescheduleRecords":[]}}']
)
def test_a_malformed_history_is_reported_and_replaced(text: str) -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="2")
    metadata = {"name": RESCHEDULING_HISTORY, "namespace": "mindx-dl"}
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {RESCHEDULING_RECORDS: text}}
    cluster.server.create(CONFIG_MAP, raw)
    cluster.fail("train-t-0")
    cluster.run(12)
    assert any(RESCHEDULING_RECORDS in message for message in cluster.events("Malformed"))
    (history,) = cluster.history().values()
    assert history.total_reschedule_times == 1


def test_a_restart_of_another_job_of_the_name_does_not_count() -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="2")
    (key,) = json.loads(cluster.data()["remain-retry-times"])
    uids = cluster.uids()
    pods = [{"uid": uid, "name": name} for name, uid in uids.items()]
    forged = {key: {"uid": "another", "number": 9, "time": 1, "force": True, "whole": True, "pods": pods}}
    cluster.server.patch(CONFIG_MAP, "volcano-system", RESCHEDULING_STATE, {"data": {"restarts": json.dumps(forged)}})
    cluster.run(5)
    assert cluster.uids() == uids
    assert cluster.state().restarts == {}
