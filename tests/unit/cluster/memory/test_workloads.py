"""Workloads of a simulation get the Pods that Kubernetes' controllers create, with the same owners."""

import copy
from collections import Counter
from typing import Any

import pytest

from scheduler.api.kinds import BATCH_JOB, CLAIM, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer
from scheduler.cluster.memory.workloads import Workloads
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, manifests, node

TEMPLATE = {"metadata": {"labels": {"app": "a"}, "annotations": {"note": "x"}}, "spec": {"containers": [{"name": "c"}]}}


def workload(
    kind: Kind, name: str = "w", *, owner: Json | None = None, status: Json | None = None, **spec: Any
) -> Json:
    """A workload; ``owner``: the object that controls it."""
    metadata: Json = {"name": name, "namespace": "ns", "annotations": {"volcano.sh/preemptable": "true"}}
    if owner is not None:
        metadata["ownerReferences"] = [controlled_by(owner)]
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return {**body, "spec": {"template": copy.deepcopy(TEMPLATE), **spec}, **({"status": status} if status else {})}


def controlled_by(owner: Json) -> Json:
    meta = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
            "controller": True}  # fmt: skip


def existing_pod(name: str, owner: Json, phase: str = "Running", **metadata: Any) -> Json:
    """A Pod that was created on another cluster."""
    meta = {"name": name, "namespace": "ns", "ownerReferences": [controlled_by(owner)], **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": "n"}, "status": {"phase": phase}}


class Cluster:
    """A server with the workload controllers and one workload."""

    def __init__(self, kind: Kind, **spec: Any) -> None:
        self.server = MemoryServer()
        self.workloads = Workloads(self.server)
        self.workload = self.add(workload(kind, **spec), kind)

    def add(self, raw: Json, kind: Kind) -> Json:
        self.server.create(kind, raw)
        found = self.server.find(kind, "ns", raw["metadata"]["name"])
        assert found is not None
        return found

    def add_pods(self, owner: Json, *names: str, phase: str = "Running", **metadata: Any) -> None:
        for name in names:
            self.add(existing_pod(name, owner, phase, **metadata), POD)

    def pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.server.of(POD)]


def test_a_deployment_gets_a_replica_set_with_its_annotations_which_gets_the_pods() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=2)

    assert cluster.workloads.run()

    (replica_set,) = cluster.server.of(REPLICA_SET)
    assert replica_set["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
    assert [pod["metadata"]["ownerReferences"][0]["uid"] for pod in cluster.server.of(POD)] == [
        replica_set["metadata"]["uid"]
    ] * 2
    assert cluster.server.of(POD)[0]["metadata"]["annotations"] == {"note": "x"}


def test_existing_pods_are_not_created_again() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=2)
    cluster.workloads.run()
    before = cluster.pods()

    assert not cluster.workloads.run()
    assert cluster.pods() == before


def test_a_stateful_set_numbers_its_pods() -> None:
    cluster = Cluster(STATEFUL_SET, replicas=3)

    cluster.workloads.run()

    assert cluster.pods() == ["w-0", "w-1", "w-2"]


def test_each_pod_of_a_stateful_set_gets_its_own_claims_that_outlive_it() -> None:
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    cluster = Cluster(STATEFUL_SET, replicas=2, volumeClaimTemplates=[template, "odd"])

    cluster.workloads.run()
    cluster.workloads.run()
    cluster.server.delete(POD, "ns", "w-0")

    assert [claim["metadata"]["name"] for claim in cluster.server.of(CLAIM)] == ["data-w-0", "data-w-1"]
    (pod,) = cluster.server.of(POD)
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-1"}}]


def test_a_batch_job_has_as_many_pods_as_its_parallelism() -> None:
    cluster = Cluster(BATCH_JOB, parallelism=2, completions=10)

    cluster.workloads.run()

    assert len(cluster.pods()) == 2


def test_a_workload_without_replicas_has_one_pod() -> None:
    cluster = Cluster(BATCH_JOB)

    cluster.workloads.run()

    assert len(cluster.pods()) == 1


# --- objects read from a cluster --------------------------------------------------------------------------------------
def test_existing_pods_with_generated_names_are_not_created_a_second_time() -> None:
    cluster = Cluster(REPLICA_SET, replicas=3)
    cluster.add_pods(cluster.workload, "w-4x2zt", "w-q9rvb", "w-zzzzz")

    assert not cluster.workloads.run()
    assert len(cluster.pods()) == 3


def test_only_missing_pods_are_created() -> None:
    cluster = Cluster(REPLICA_SET, replicas=3)
    cluster.add_pods(cluster.workload, "w-4x2zt", "w-q9rvb")

    assert cluster.workloads.run()
    assert len(cluster.pods()) == 3


def test_an_existing_replica_set_of_a_deployment_is_used_whatever_its_name() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=3)
    replica_set = cluster.add(workload(REPLICA_SET, "w-6d4f9c8b7", owner=cluster.workload, replicas=3), REPLICA_SET)
    cluster.add_pods(replica_set, "w-6d4f9c8b7-aaaaa", "w-6d4f9c8b7-bbbbb", "w-6d4f9c8b7-ccccc")

    assert not cluster.workloads.run()
    assert (len(cluster.server.of(REPLICA_SET)), len(cluster.pods())) == (1, 3)


def test_a_missing_replica_set_is_made_from_the_pods_that_it_owns() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=3, selector={"matchLabels": {"app": "a"}})
    owner = {**workload(REPLICA_SET, "w-6d4f9c8b7"), "metadata": {"name": "w-6d4f9c8b7", "uid": "rs-1"}}
    labels = {"app": "a", "pod-template-hash": "6d4f9c8b7"}
    cluster.add_pods(owner, "w-6d4f9c8b7-aaaaa", "w-6d4f9c8b7-bbbbb", labels=labels)
    other_owner = {**owner, "metadata": {"name": "v-1", "uid": "rs-2"}}
    cluster.add_pods(other_owner, "v-1-aaaaa", labels={"app": "b"})

    assert cluster.workloads.run()

    (replica_set,) = cluster.server.of(REPLICA_SET)
    assert (replica_set["metadata"]["name"], replica_set["metadata"]["uid"]) == ("w-6d4f9c8b7", "rs-1")
    assert replica_set["spec"]["selector"]["matchLabels"] == labels
    assert len(cluster.pods()) == 4  # one is created


def test_missing_replica_sets_of_a_rollout_keep_the_pods_they_have() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=3, selector={"matchLabels": {"app": "a"}})
    for number in (1, 2):
        owner = {**workload(REPLICA_SET), "metadata": {"name": f"w-{number}", "uid": f"rs-{number}"}}
        cluster.add_pods(owner, *(f"w-{number}-{i}" for i in range(number)), labels={"app": "a"})

    cluster.workloads.run()

    assert [raw["spec"]["replicas"] for raw in cluster.server.of(REPLICA_SET)] == [1, 2]
    assert len(cluster.pods()) == 3


def test_two_replica_sets_of_a_rollout_keep_the_replicas_they_have() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=3)
    old = cluster.add(workload(REPLICA_SET, "w-old", owner=cluster.workload, replicas=2), REPLICA_SET)
    new = cluster.add(workload(REPLICA_SET, "w-new", owner=cluster.workload, replicas=2), REPLICA_SET)
    cluster.add_pods(old, "w-old-1", "w-old-2")
    cluster.add_pods(new, "w-new-1")

    cluster.workloads.run()

    assert sorted(name[:5] for name in cluster.pods()) == ["w-new", "w-new", "w-old", "w-old"]


def test_a_replica_set_scaled_to_zero_stays_at_zero() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=1)
    cluster.add(workload(REPLICA_SET, "w-old", owner=cluster.workload, replicas=0), REPLICA_SET)
    new = cluster.add(workload(REPLICA_SET, "w-new", owner=cluster.workload, replicas=1), REPLICA_SET)
    cluster.add_pods(new, "w-new-1")

    assert not cluster.workloads.run()


def test_a_paused_deployment_creates_no_replica_set_and_keeps_an_existing_one() -> None:
    paused = Cluster(DEPLOYMENT, replicas=2, paused=True)
    assert not paused.workloads.run()

    replica_set = paused.add(workload(REPLICA_SET, "w-1", owner=paused.workload, replicas=2), REPLICA_SET)
    paused.add_pods(replica_set, "w-1-a", "w-1-b")
    assert not paused.workloads.run()


def test_a_deployment_that_is_scaled_scales_its_replica_set() -> None:
    cluster = Cluster(DEPLOYMENT, replicas=1)
    cluster.workloads.run()
    for replicas in (3, 2):
        cluster.server.patch(DEPLOYMENT, "ns", "w", {"spec": {"replicas": replicas}})
        assert cluster.workloads.run()
        assert len(cluster.pods()) == replicas


def test_surplus_pods_without_a_node_are_deleted_first() -> None:
    cluster = Cluster(REPLICA_SET, replicas=2)
    cluster.workloads.run()
    (first, _) = cluster.pods()
    cluster.server.patch(POD, "ns", first, {"spec": {"nodeName": "n"}})
    cluster.server.patch(REPLICA_SET, "ns", "w", {"spec": {"replicas": 1}})

    cluster.workloads.run()

    assert cluster.pods() == [first]


def test_a_failed_or_terminating_pod_is_replaced() -> None:
    cluster = Cluster(REPLICA_SET, replicas=2)
    cluster.add_pods(cluster.workload, "w-failed", phase="Failed")
    cluster.add_pods(cluster.workload, "w-leaving", deletionTimestamp="2020-01-01T00:00:00Z")

    cluster.workloads.run()
    assert len(cluster.pods()) == 4
    assert not cluster.workloads.run()


def test_pods_of_another_controller_do_not_count() -> None:
    cluster = Cluster(REPLICA_SET, replicas=1)
    other = cluster.add(workload(REPLICA_SET, "v", replicas=0), REPLICA_SET)
    cluster.add_pods(other, "w-4x2zt", deletionTimestamp="2020-01-01T00:00:00Z")

    cluster.workloads.run()

    assert len(cluster.pods()) == 2


def test_a_finished_pod_of_a_stateful_set_is_created_again_with_its_name() -> None:
    cluster = Cluster(STATEFUL_SET, replicas=2)
    cluster.add_pods(cluster.workload, "w-0")
    cluster.add({**existing_pod("w-1", cluster.workload, "Failed"), "spec": {}}, POD)

    cluster.workloads.run()

    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in cluster.server.of(POD)}
    assert phases == {"w-0": "Running", "w-1": "Pending"}


def test_an_ordered_stateful_set_creates_no_pod_after_a_pending_one() -> None:
    cluster = Cluster(STATEFUL_SET, replicas=3, podManagementPolicy="OrderedReady")
    cluster.add_pods(cluster.workload, "w-0")
    cluster.add({**existing_pod("w-1", cluster.workload, "Pending"), "spec": {}}, POD)

    assert not cluster.workloads.run()


def test_the_ordinals_of_a_stateful_set_begin_at_its_start_and_end_with_its_replicas() -> None:
    cluster = Cluster(STATEFUL_SET, replicas=2, ordinals={"start": 5})
    cluster.workloads.run()
    assert cluster.pods() == ["w-5", "w-6"]

    cluster.server.patch(STATEFUL_SET, "ns", "w", {"spec": {"replicas": 1}})
    cluster.workloads.run()
    assert cluster.pods() == ["w-5"]


def test_a_batch_job_creates_no_pod_for_completions_that_succeeded() -> None:
    cluster = Cluster(BATCH_JOB, parallelism=3, completions=4)
    cluster.add_pods(cluster.workload, "w-a", "w-b", phase="Succeeded")
    cluster.add_pods(cluster.workload, "w-c")

    cluster.workloads.run()

    assert len(cluster.pods()) == 4


def test_a_finished_or_suspended_batch_job_creates_no_pods() -> None:
    over = {"conditions": [{"type": "Complete", "status": "True"}], "succeeded": 1}
    assert not Cluster(BATCH_JOB, status=over, completions=2).workloads.run()
    assert not Cluster(BATCH_JOB, suspend=True).workloads.run()
    assert not Cluster(BATCH_JOB, managedBy="example.com/queue").workloads.run()


def test_an_indexed_batch_job_creates_pods_for_the_missing_indices() -> None:
    index = "batch.kubernetes.io/job-completion-index"
    status = {"succeeded": 2, "completedIndexes": "0,2"}
    cluster = Cluster(BATCH_JOB, status=status, parallelism=3, completions=5, completionMode="Indexed")
    cluster.add_pods(cluster.workload, "w-1-abcde", annotations={index: "1"})

    cluster.workloads.run()

    assert [pod["metadata"]["annotations"][index] for pod in cluster.server.of(POD)] == ["1", "3", "4"]


@pytest.mark.parametrize("odd", ["x", 7, ["x"], {"x": "x"}])
@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET, BATCH_JOB])
def test_fields_of_wrong_types_count_as_absent(kind: Kind, odd: Any) -> None:
    fields = ("ordinals", "paused", "completionMode", "volumeClaimTemplates", "podManagementPolicy")
    cluster = Cluster(kind, status={"succeeded": "x", "conditions": odd}, **dict.fromkeys(fields, odd))
    cluster.add({**workload(kind, "v"), "spec": {"template": {"metadata": odd, "spec": odd}}}, kind)

    cluster.workloads.run()


# --- selectors and labels ---------------------------------------------------------------------------------------------
def test_a_replica_set_selects_the_pods_of_its_template_and_no_others() -> None:
    cluster = Cluster(DEPLOYMENT, selector={"matchLabels": {"app": "a"}})
    cluster.workloads.run()

    (replica_set,) = cluster.server.of(REPLICA_SET)
    (pod,) = cluster.server.of(POD)
    assert replica_set["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert set(pod["metadata"]["labels"]) == {"app", "pod-template-hash"}


def test_pods_of_jobs_and_stateful_sets_have_the_labels_of_their_controllers() -> None:
    job, stateful_set = Cluster(BATCH_JOB), Cluster(STATEFUL_SET)
    job.workloads.run()
    stateful_set.workloads.run()

    assert job.server.of(POD)[0]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "w"
    assert stateful_set.server.of(POD)[0]["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"


def test_the_pods_of_a_deployment_spread_over_nodes_of_unequal_size() -> None:
    deployment = workload(DEPLOYMENT, replicas=9, selector={"matchLabels": {"app": "a"}})
    deployment["metadata"]["namespace"] = "default"
    resources = {"requests": {"cpu": "500m"}}
    deployment["spec"]["template"]["spec"] = {
        "schedulerName": NAME, "containers": [{"name": "c", "resources": resources}]}  # fmt: skip
    nodes = [node(f"n{number}", f"{cpu}c+64Gi") for number, cpu in enumerate([32, 8, 8])]
    simulation = Simulation(manifests(*nodes, deployment), parse_configuration(DEFAULT_CONFIGURATION), [NAME])

    simulation.run()

    placed = Counter(pod["spec"]["nodeName"] for pod in simulation.cluster.server.of(POD))
    assert placed == {"n0": 3, "n1": 3, "n2": 3}
