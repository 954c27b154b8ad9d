"""Workloads of a simulation get the Pods that Kubernetes' own controllers would make, under the same owners."""

from typing import Any

from scheduler.api.kinds import BATCH_JOB, CLAIM, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind
from scheduler.cluster.memory.server import MemoryServer
from scheduler.cluster.memory.workloads import make_pods

TEMPLATE = {"metadata": {"labels": {"app": "a"}, "annotations": {"note": "x"}}, "spec": {"containers": [{"name": "c"}]}}


def with_workload(kind: Kind, **spec: Any) -> MemoryServer:
    server = MemoryServer()
    metadata = {"name": "w", "namespace": "ns", "annotations": {"volcano.sh/preemptable": "true"}}
    body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    server.create(kind, {**body, "spec": {"template": TEMPLATE, **spec}})
    return server


def pod_names(server: MemoryServer) -> list[str]:
    return [pod["metadata"]["name"] for pod in server.of(POD)]


def test_a_deployment_gets_a_replica_set_with_its_annotations_and_that_one_the_pods():
    server = with_workload(DEPLOYMENT, replicas=2)

    assert make_pods(server)

    (replica_set,) = server.of(REPLICA_SET)
    assert replica_set["metadata"]["annotations"] == {"volcano.sh/preemptable": "true"}
    assert [pod["metadata"]["ownerReferences"][0]["uid"] for pod in server.of(POD)] == [
        replica_set["metadata"]["uid"]
    ] * 2
    assert server.of(POD)[0]["metadata"]["annotations"] == {"note": "x"}


def test_pods_that_are_there_are_not_made_again():
    server = with_workload(DEPLOYMENT, replicas=2)
    make_pods(server)
    before = pod_names(server)

    assert not make_pods(server)
    assert pod_names(server) == before


def test_a_stateful_set_numbers_its_pods():
    server = with_workload(STATEFUL_SET, replicas=3)

    make_pods(server)

    assert pod_names(server) == ["w-0", "w-1", "w-2"]


def test_each_pod_of_a_stateful_set_gets_claims_of_its_own_that_stay_when_it_goes():
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    server = with_workload(STATEFUL_SET, replicas=2, volumeClaimTemplates=[template, "odd"])

    make_pods(server)
    make_pods(server)
    server.delete(POD, "ns", "w-0")

    assert [claim["metadata"]["name"] for claim in server.of(CLAIM)] == ["data-w-0", "data-w-1"]
    (pod,) = server.of(POD)
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-1"}}]


def test_a_job_has_as_many_pods_as_run_at_once():
    server = with_workload(BATCH_JOB, parallelism=2, completions=10)

    make_pods(server)

    assert len(pod_names(server)) == 2


def test_a_workload_that_says_no_number_has_one_pod():
    server = with_workload(BATCH_JOB)

    make_pods(server)

    assert len(pod_names(server)) == 1
