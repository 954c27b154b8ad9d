"""A cluster read from its own dump: the Pods that workloads created there are not created again."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.api.kinds import POD, find_kind
from scheduler.api.times import parse_timestamp
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import ManifestError, Simulation
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, manifests, node, pod

DEFAULT = parse_configuration(DEFAULT_CONFIGURATION)
CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"schedulerName": NAME, "restartPolicy": "Never", "containers": [CONTAINER]},
}
REPLICAS = {"replicas": 3, "selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
VCJOB = {"schedulerName": NAME, "minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": TEMPLATE}]}
BATCH, FLOW = "batch.volcano.sh/v1alpha1", "flow.volcano.sh/v1alpha1"
CRON_JOB = {"schedule": "@every 2s", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": VCJOB}}


def workload(api_version: str, kind: str, **spec: Any) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "it", "namespace": "default"}, "spec": spec}


def names(simulation: Simulation) -> Counter[tuple[str, str]]:
    found = [raw for raw in simulation.cluster.objects() if raw["kind"] != "Event"]
    return Counter((raw["kind"], raw["metadata"]["name"]) for raw in found)


@pytest.mark.parametrize(
    "workload",
    [
        [workload("apps/v1", "Deployment", **REPLICAS)],
        [workload("apps/v1", "StatefulSet", **REPLICAS)],
        [workload("batch/v1", "Job", parallelism=3, completions=5, template=TEMPLATE)],
        [workload(BATCH, "Job", **VCJOB)],
        [workload(BATCH, "CronJob", **CRON_JOB)],
        [workload(FLOW, "JobTemplate", **VCJOB), workload(FLOW, "JobFlow", flows=[{"name": "it"}])],
    ],
    ids=lambda workload: workload[-1]["apiVersion"] + "/" + workload[-1]["kind"],
)
def test_existing_objects_are_not_created_a_second_time(workload: list[Raw]) -> None:
    first = Simulation(manifests(node("n0", "8c+64Gi"), *workload), DEFAULT, [NAME])
    first.run()
    made = names(first)
    assert any(kind == "Pod" for kind, _ in made)

    read = [raw for raw in first.cluster.objects() if raw["kind"] != "Event"]
    again = [Manifest("the cluster", find_kind(raw["apiVersion"], raw["kind"]), raw) for raw in read]
    second = Simulation(again, DEFAULT, [NAME], start=first.cluster.server.clock, lenient=True)
    second.run()

    assert names(second) == made


def test_pods_that_are_loaded_later_make_the_same_cluster() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    first = Simulation(
        manifests(node("n0", "8c+64Gi"), workload("apps/v1", "Deployment", **REPLICAS), pod("p", "1"), claim),
        DEFAULT,
        [NAME],
    )
    first.run()
    read = [raw for raw in first.cluster.objects() if raw["kind"] != "Event"]
    every = [Manifest("the cluster", find_kind(raw["apiVersion"], raw["kind"]), raw) for raw in read]
    pods = [each for each in every if each.kind is POD]
    others = [each for each in every if each.kind is not POD]
    start = first.cluster.server.clock

    whole = Simulation([*others, *pods], DEFAULT, [NAME], start=start, lenient=True)
    parts = Simulation(others, DEFAULT, [NAME], start=start, lenient=True, more=True)
    for each in pods:
        parts.cluster.load([each], lenient=True, more=True)
    parts.cluster.load((), lenient=True)

    assert len(pods) == 4
    assert parts.cluster.objects() == whole.cluster.objects()
    assert parts.cluster.now == whole.cluster.now
    whole.run()
    parts.run()
    assert parts.cluster.objects() == whole.cluster.objects()


def test_the_condition_of_a_pod_that_has_a_node_is_kept_as_the_api_server_has_it() -> None:
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 2,
    }
    running = pod("p", "1", on="n0")
    running["status"] = {"phase": "Running", "conditions": [scheduled]}

    simulation = Simulation(manifests(node("n0", "8c+64Gi"), running), DEFAULT, [NAME])

    namespace = running["metadata"].get("namespace", "default")
    stored = simulation.cluster.get("v1", "Pod", namespace, "p")
    assert stored is not None
    assert stored["status"]["conditions"] == [scheduled]


@pytest.mark.parametrize("last", ["2026-01-01T00:01:00Z", None, 7, "soon", "9999-01-01T00:00:00Z"])
def test_the_clock_begins_after_the_last_run_of_a_cron_job(last: object) -> None:
    """The job is deleted, so its creation is not the latest time."""
    cron = workload(BATCH, "CronJob", **{**CRON_JOB, "schedule": "@every 10s"})
    cron["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
    begins = 60 * (last == "2026-01-01T00:01:00Z")
    loaded = manifests(node("n0", "8c+64Gi"), {**cron, "status": {"lastScheduleTime": last}})
    start = parse_timestamp("2026-01-01T00:00:00Z")
    assert start is not None
    if not isinstance(last, str | None):
        with pytest.raises(ManifestError, match="lastScheduleTime"):
            Simulation(loaded, DEFAULT, [NAME])
        return

    simulation = Simulation(loaded, DEFAULT, [NAME])

    assert start + begins <= simulation.cluster.now <= start + begins + 3


def test_a_cron_job_of_a_dump_starts_its_next_job_in_time() -> None:
    cron = workload(BATCH, "CronJob", **{**CRON_JOB, "schedule": "@every 10s"})
    cron["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z"}
    last = {"lastScheduleTime": "2026-01-01T00:10:00Z"}
    simulation = Simulation(manifests(node("n0", "8c+64Gi"), {**cron, "status": last}), DEFAULT, [NAME])

    simulation.run(cycles=8)
    assert not [kind for kind, _ in names(simulation) if kind == "Pod"]
    simulation.run(cycles=4)

    assert len([kind for kind, _ in names(simulation) if kind == "Pod"]) == 2


def test_the_clock_of_a_cluster_whose_time_is_known_follows_no_status() -> None:
    cron = workload(BATCH, "CronJob", **CRON_JOB)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    status = {"lastScheduleTime": "2027-01-01T00:00:00Z"}
    simulation = Simulation(manifests({**cron, "status": status}), DEFAULT, [NAME], start=now)
    assert simulation.cluster.now < now.timestamp() + 60
