"""Volcano's metrics of vcjobs and JobFlows, from changes as the controllers receive them."""

from typing import Any

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.api.kinds import JOB_FLOW, POD, VCJOB, Kind
from scheduler.cluster.kube.operator.change_receiver import ChangeReceiver
from scheduler.cluster.kube.operator.role import JobObserver
from scheduler.controllers.store import Store
from scheduler.controllers.worklist import ReconcileQueue
from scheduler.observability.role_metrics import ControllerMetrics

Raw = dict[str, Any]
CREATED = "2026-01-01T00:00:00Z"
LATENCY = "volcano_controller_job_to_pod_creation_latency_milliseconds"


class Cluster:
    """Objects whose changes a receiver processes, and the metrics."""

    def __init__(self) -> None:
        self.metrics = ControllerMetrics()
        store = Store()
        self.receiver = ChangeReceiver(store, ReconcileQueue([]), JobObserver(store, self.metrics).observe)
        self._version = 0

    def holds(self, kind: Kind, name: str, uid: str = "", created: str = CREATED, **fields: Any) -> None:
        self._version += 1
        meta = fields.pop("metadata", {}) | {"name": name, "namespace": "research", "uid": uid or f"uid-{name}"}
        meta |= {"resourceVersion": str(self._version), "creationTimestamp": created}
        assert kind.struct is not None
        self.receiver.written(kind, msgspec.convert({"metadata": meta, **fields}, kind.struct))

    def job(self, name: str, *phases: str, uid: str = "") -> None:
        for phase in phases:
            self.holds(VCJOB, name, uid, spec={"queue": "gold"}, status={"state": {"phase": phase}})

    def flow(self, name: str, *phases: str) -> None:
        for phase in phases:
            self.holds(JOB_FLOW, name, status={"state": {"phase": phase}})

    def pod(self, name: str, owner: str, created: str) -> None:
        reference = {"apiVersion": VCJOB.api_version, "kind": "Job", "name": owner, "uid": f"uid-{owner}"}
        self.holds(POD, name, created=created, metadata={"ownerReferences": [{**reference, "controller": True}]})

    def delete(self, kind: Kind, name: str) -> None:
        self.receiver.removed(kind, "research", name)

    def series(self, name: str) -> dict[tuple[str, ...], float]:
        """Maps the values of labels to the value of a metric."""
        text = generate_latest(self.metrics.registry).decode()
        return {
            tuple(sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    def labels(self, name: str) -> set[frozenset[str]]:
        samples = (sample for family in self.metrics.registry.collect() for sample in family.samples)
        return {frozenset(sample.labels) for sample in samples if sample.name == name}


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.receiver.lead()
    return found


def test_jobs_that_complete_and_fail_are_counted_under_their_name_and_queue(cluster: Cluster) -> None:
    cluster.job("train", "Pending", "Running", "Completed")
    cluster.job("eval", "Running", "Failed")

    assert cluster.series("volcano_job_completed_phase_count") == {("research/train", "gold"): 1}
    assert cluster.series("volcano_job_failed_phase_count") == {("research/eval", "gold"): 1}
    assert cluster.labels("volcano_job_completed_phase_count") == {frozenset({"job_name", "queue_name"})}


def test_a_change_within_a_phase_is_not_counted_again(cluster: Cluster) -> None:
    cluster.job("train", "Running", "Completed", "Completed")

    assert cluster.series("volcano_job_completed_phase_count") == {("research/train", "gold"): 1}


def test_the_series_of_a_job_end_with_it_and_with_its_replacement(cluster: Cluster) -> None:
    cluster.job("train", "Running", "Completed")
    cluster.job("eval", "Running", "Completed")

    cluster.delete(VCJOB, "train")
    cluster.job("eval", "Running", uid="another")

    assert cluster.series("volcano_job_completed_phase_count") == {}


def test_jobs_that_had_ended_before_this_process_led_are_not_counted() -> None:
    cluster = Cluster()
    cluster.job("train", "Running", "Completed")

    cluster.receiver.lead()
    cluster.job("train", "Completed")

    assert cluster.series("volcano_job_completed_phase_count") == {}


def test_job_flows_are_counted_by_namespace_until_the_last_one_that_counted_is_gone(cluster: Cluster) -> None:
    cluster.flow("a", "Running", "Succeed")
    cluster.flow("b", "Running", "Failed", "Running", "Failed")

    assert cluster.series("volcano_jobflow_succeed_phase_count") == {("research",): 1}
    assert cluster.series("volcano_jobflow_failed_phase_count") == {("research",): 2}
    assert cluster.labels("volcano_jobflow_failed_phase_count") == {frozenset({"jobflow_namespace"})}
    cluster.delete(JOB_FLOW, "a")
    assert cluster.series("volcano_jobflow_failed_phase_count") == {("research",): 2}
    cluster.delete(JOB_FLOW, "b")
    assert cluster.series("volcano_jobflow_failed_phase_count") == {}


def test_the_time_from_a_job_to_each_of_its_pods_is_observed_once_per_pod(cluster: Cluster) -> None:
    cluster.job("train", "Pending")

    cluster.pod("train-0", "train", "2026-01-01T00:00:02Z")
    cluster.pod("train-0", "train", "2026-01-01T00:00:02Z")
    cluster.pod("train-1", "train", "2026-01-01T00:00:05Z")
    cluster.pod("other-0", "other", "2026-01-01T00:00:05Z")

    assert cluster.series(f"{LATENCY}_count") == {(): 2}
    assert cluster.series(f"{LATENCY}_sum") == {(): 7000}


def test_the_buckets_are_those_of_volcano(cluster: Cluster) -> None:
    bounds = [labels[0] for labels in cluster.series(f"{LATENCY}_bucket")]

    assert (bounds[0], bounds[-2], len(bounds)) == ("50.0", "60000.0", 31)
