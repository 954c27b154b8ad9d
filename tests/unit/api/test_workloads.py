"""Which Pods are online, and which object owns a Pod."""

import pytest

from scheduler.api.names import OFFLINE, ONLINE, POD_TEMPLATE_HASH, WORKLOAD
from scheduler.api.objects import ObjectMeta, OwnerReference
from scheduler.api.workloads import is_online, owner_of


def meta(kind: str = "", name: str = "web", labels: dict[str, str] | None = None) -> ObjectMeta:
    """The metadata of a Pod that an object of a kind manages."""
    owner = OwnerReference(kind=kind, name=name, controller=True)
    return ObjectMeta(labels=labels, owner_references=[owner] if kind else None)


def labelled(value: str, kind: str = "") -> ObjectMeta:
    return meta(kind, labels={WORKLOAD: value})


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet", "CloneSet"])
def test_pods_of_services_are_online(kind: str) -> None:
    assert is_online(meta(kind))


@pytest.mark.parametrize("kind", ["", "Job", "AscendJob", "PodGroup", "RayCluster", "Workflow", "Node"])
def test_pods_of_other_owners_and_of_none_are_offline(kind: str) -> None:
    assert not is_online(meta(kind))


def test_an_owner_that_does_not_manage_the_pod_does_not_count() -> None:
    owners = [OwnerReference(kind="ReplicaSet", name="other"), OwnerReference(kind="Job", name="j", controller=True)]
    assert not is_online(ObjectMeta(owner_references=owners))
    assert owner_of(ObjectMeta(owner_references=owners)) == "Job/j"


@pytest.mark.parametrize("kind", ["", "ReplicaSet", "Job"])
def test_the_label_overrides_the_owner(kind: str) -> None:
    assert is_online(labelled(ONLINE, kind))
    assert not is_online(labelled(OFFLINE, kind))


@pytest.mark.parametrize("value", ["", "Online", "training", "x" * 63])
def test_an_invalid_label_is_reported_and_the_owner_counts(value: str) -> None:
    found: list[tuple[str, str]] = []

    assert is_online(labelled(value, "StatefulSet"), lambda *problem: found.append(problem))
    assert not is_online(labelled(value, "Job"))

    assert found == [(f"metadata.labels[{WORKLOAD}]", f"{value!r} is neither online nor offline")]


def test_the_owner_of_the_pods_of_a_deployment_is_the_deployment() -> None:
    of_deployment = meta("ReplicaSet", "web-6d4f9c8b7", {POD_TEMPLATE_HASH: "6d4f9c8b7"})
    assert owner_of(of_deployment) == "Deployment/web"
    assert owner_of(meta("ReplicaSet", "web-6d4f9c8b7")) == "ReplicaSet/web-6d4f9c8b7"
    assert owner_of(meta("DaemonSet", "agent")) == "DaemonSet/agent"
    assert owner_of(meta()) == ""
