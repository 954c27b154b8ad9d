"""The fields of Pods that the store keeps in memory."""

from typing import Any

import msgspec
import pytest

from scheduler.api.objects import AppliedResources, Pod, Quantity
from scheduler.controllers import store
from scheduler.controllers.store import PodParts


def pod(name: str, cpu: str = "1", **spec: Any) -> Pod:
    container = {
        "name": "c",
        "image": "i",
        "env": [{"name": "INDEX", "value": name}],
        "resources": {"limits": {"cpu": cpu}},
    }
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    statuses = [{"name": "c", "ready": True, "restartCount": 2, "state": {"terminated": {"exitCode": 3}}}]
    document = {
        "metadata": {"name": name, "namespace": "ns", "labels": {"a": name}, "ownerReferences": [owner]},
        "spec": {"containers": [container], "nodeName": "n1", "nodeSelector": {"zone": "z"}, **spec},
        "status": {"phase": "Running", "conditions": [condition], "containerStatuses": statuses},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def test_what_controllers_read_is_kept_as_it_is() -> None:
    volume = {"name": "ranks", "configMap": {"name": "c"}}
    original, kept = pod("p", volumes=[volume], priority=7), PodParts().of(pod("p", volumes=[volume], priority=7))
    assert kept.metadata == original.metadata
    assert (kept.status.phase, kept.status.container_statuses) == ("Running", original.status.container_statuses)
    for field in ("node_name", "node_selector", "volumes", "priority"):
        assert getattr(kept.spec, field) == getattr(original.spec, field) is not None
    assert kept.spec.containers[0].resources == original.spec.containers[0].resources


def test_what_no_controller_reads_is_left_out() -> None:
    affinity: dict[str, Any] = {"nodeAffinity": {}}
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    kept = PodParts().of(pod("p", tolerations=[{"key": "k"}], affinity=affinity, topologySpreadConstraints=spread))
    assert kept.status.conditions is None and kept.spec.containers[0].env is None
    assert (kept.spec.tolerations, kept.spec.affinity, kept.spec.topology_spread_constraints) == (None, None, None)


def test_what_a_resize_has_reached_is_left_out() -> None:
    found = pod("p")
    amounts: dict[str, Quantity] = {"cpu": "1"}
    for status in (found.status, *(found.status.container_statuses or ())):
        status.allocated_resources, status.resources = amounts, AppliedResources(requests=amounts)
    kept, plain = PodParts().of(found).status, PodParts().of(pod("p")).status
    assert kept == plain


def test_equal_containers_are_in_memory_once() -> None:
    parts = PodParts()
    one, same, other = (parts.of(each).spec.containers for each in (pod("a"), pod("b"), pod("c", cpu="2")))
    assert one is same
    assert other is not one and other != one


def test_the_number_of_known_containers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_KNOWN", 3)
    parts = PodParts()
    for number in range(1, 9):
        assert (
            parts.of(pod("p", cpu=str(number))).spec.containers == parts.of(pod("q", cpu=str(number))).spec.containers
        )
        assert len(parts) <= 3
