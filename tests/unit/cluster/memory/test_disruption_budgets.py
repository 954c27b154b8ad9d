"""The status of PodDisruptionBudgets in a simulation equals that of the disruption controller."""

from typing import Any

import pytest

from scheduler.api.kinds import BATCH_JOB, DEPLOYMENT, DISRUPTION_BUDGET, POD, REPLICA_SET, Kind
from scheduler.cluster.memory.disruption_budgets import DisruptionBudgets
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer

WEB = {"app": "web"}


class Cluster:
    def __init__(self) -> None:
        self.server = MemoryServer()
        self.budgets = DisruptionBudgets(self.server)

    def add(self, kind: Kind, name: str, owner: Json | None = None, meta: Json | None = None, **rest: Any) -> Json:
        metadata: Json = {"name": name, "namespace": "ns", **(meta or {})}
        if owner is not None:
            reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
            reference |= {"uid": owner["metadata"]["uid"], "controller": True}
            metadata["ownerReferences"] = [reference]
        self.server.create(kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **rest})
        found = self.server.find(kind, "ns", name)
        assert found is not None
        return found

    def pods(self, number: int, owner: Json | None = None, phase: str = "Running", **status: Any) -> None:
        for _ in range(number):
            name = f"p{len(self.server.of(POD))}"
            self.add(POD, name, owner, {"labels": WEB}, spec={}, status={"phase": phase, **status})

    def budget(self, status: Json | None = None, **spec: Any) -> Json:
        """A PodDisruptionBudget with the given status."""
        spec = {"selector": {"matchLabels": WEB}, **spec}
        self.add(DISRUPTION_BUDGET, "b", spec=spec, **({"status": status} if status else {}))
        return self.after()

    def after(self) -> Json:
        self.budgets.run()
        found = self.server.find(DISRUPTION_BUDGET, "ns", "b")
        assert found is not None
        return dict(found["status"])


def budget_over_three_pods(**spec: Any) -> Json:
    """The status of a budget over a ReplicaSet with all of its three Pods."""
    cluster = Cluster()
    cluster.pods(3, cluster.add(REPLICA_SET, "w", spec={"replicas": 3}))
    return cluster.budget(**spec)


@pytest.mark.parametrize(
    ("spec", "allowed", "desired"),
    [
        ({"minAvailable": 2}, 1, 2),
        ({"minAvailable": "50%"}, 1, 2),
        ({"minAvailable": "100%"}, 0, 3),
        ({"maxUnavailable": 2}, 2, 1),
        ({"maxUnavailable": "30%"}, 1, 2),
        ({"maxUnavailable": 5}, 3, 0),
        ({"minAvailable": 5}, 0, 5),
    ],
)
def test_the_disruptions_that_a_budget_allows_follow_from_its_pods(spec: Json, allowed: int, desired: int) -> None:
    status = budget_over_three_pods(**spec)
    expected = {"currentHealthy": 3, "desiredHealthy": desired, "disruptionsAllowed": allowed, "expectedPods": 3}
    assert status == expected


def test_pods_that_are_not_ready_or_terminate_are_not_healthy() -> None:
    cluster = Cluster()
    owner = cluster.add(REPLICA_SET, "w", spec={"replicas": 4})
    cluster.pods(2, owner)
    cluster.pods(1, owner, conditions=[{"type": "Ready", "status": "False"}])
    cluster.pods(1, owner, "Pending")

    assert cluster.budget(maxUnavailable=2)["currentHealthy"] == 2
    assert cluster.after()["disruptionsAllowed"] == 0


def test_pods_missing_from_a_replica_set_are_unavailable() -> None:
    cluster = Cluster()
    cluster.pods(2, cluster.add(REPLICA_SET, "w", spec={"replicas": 3}))

    assert cluster.budget(maxUnavailable=1)["disruptionsAllowed"] == 0


def test_the_replica_sets_of_a_rollout_count_as_their_deployment() -> None:
    cluster = Cluster()
    deployment = cluster.add(DEPLOYMENT, "d", spec={"replicas": 3})
    for name in ("old", "new"):
        cluster.pods(2, cluster.add(REPLICA_SET, name, deployment, spec={"replicas": 2}))

    assert cluster.budget(maxUnavailable=1)["expectedPods"] == 3


def test_a_deployment_without_a_manifest_is_known_from_its_replica_sets() -> None:
    cluster = Cluster()
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "uid": "u"}}
    desired = {"annotations": {"deployment.kubernetes.io/desired-replicas": "3"}}
    for name in ("old", "new"):
        cluster.pods(2, cluster.add(REPLICA_SET, name, deployment, desired, spec={"replicas": 2}))

    assert cluster.budget(maxUnavailable=1)["expectedPods"] == 3


def test_an_absolute_min_available_needs_no_controller() -> None:
    cluster = Cluster()
    cluster.pods(3)
    assert cluster.budget(minAvailable=1)["disruptionsAllowed"] == 2


def test_without_a_known_number_of_replicas_no_disruption_is_allowed() -> None:
    cluster = Cluster()
    cluster.pods(3, cluster.add(BATCH_JOB, "j", spec={}))
    assert cluster.budget(maxUnavailable=1)["disruptionsAllowed"] == 0


def test_for_an_unknown_controller_the_expected_pods_of_the_stored_status_count() -> None:
    cluster = Cluster()
    cluster.pods(3, {"apiVersion": "example.com/v1", "kind": "Rollout", "metadata": {"name": "r", "uid": "u"}})
    assert cluster.budget({"expectedPods": 4, "disruptionsAllowed": 0}, maxUnavailable=2)["disruptionsAllowed"] == 1


@pytest.mark.parametrize("odd", ["many", "-1%", "1", [], None])
def test_a_malformed_budget_allows_no_disruption(odd: Any) -> None:
    assert budget_over_three_pods(maxUnavailable=odd)["disruptionsAllowed"] == 0


def test_a_stale_status_is_updated_and_follows_the_pods() -> None:
    cluster = Cluster()
    cluster.pods(3, cluster.add(REPLICA_SET, "w", spec={"replicas": 3}))
    assert cluster.budget({"disruptionsAllowed": 3, "expectedPods": 9}, minAvailable=2)["disruptionsAllowed"] == 1

    cluster.server.delete(POD, "ns", "p0")
    assert cluster.after()["disruptionsAllowed"] == 0
    assert not cluster.budgets.run()
