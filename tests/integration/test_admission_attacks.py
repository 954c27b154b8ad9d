"""A tenant with the ClusterRole `edit` in one namespace tries to prevent the admission of other tenants' jobs."""

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError, Client
from controlplane.run import ControlPlane
from scheduler.api.names import ADMISSION_RECORD, SIGNING_KEY_SECRET, SYSTEM_NAMESPACE
from tests.integration.rights import account
from tests.integration.stage import GROUPS, Namespace, emptied, running
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane

HUGE = {"cpu": "1000000", "memory": "1Ei", "example.com/none": "1e30"}


class Attacker:
    """The tenant's namespace, and the tenant's actions there."""

    def __init__(self, plane: ControlPlane) -> None:
        self.stage = Namespace(plane)
        self.api: Client = tenant(plane, self.stage.name)
        self.path = f"{GROUPS}/namespaces/{self.stage.name}/podgroups"

    def group(self, name: str, minimum: Mapping[str, str], phase: str = "", annotations: Any = None) -> None:
        group = pod_group(name, minimum)
        group["metadata"]["annotations"] = annotations
        self.api.create(self.path, {**group, **({"status": {"phase": phase}} if phase else {})})

    def edit(self, name: str, body: Mapping[str, Any]) -> None:
        self.api.patch(f"{self.path}/{name}", body)

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{self.path}/{name}")
        return found

    def warned(self) -> set[str]:
        """The names of the PodGroups that got a Warning because their phase is ignored."""
        return {e["involvedObject"]["name"] for e in self.stage.events() if "no record of" in e["message"]}

    def phase(self, name: str) -> str:
        return str(self.get(name).get("status", {}).get("phase", ""))


def pod_group(name: str, minimum: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": 1, "queue": "default", "minResources": dict(minimum)},
    }


@pytest.fixture
def victim(control_plane: ControlPlane) -> Iterator[Namespace]:
    """A namespace beside the attacker's, a node of 8 cpu for both, and a signing key that has been in use for a long
    time."""
    emptied(control_plane)
    admin, secrets = control_plane.admin, f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets"
    with contextlib.suppress(ApiError):
        admin.create("/api/v1/namespaces", {"metadata": {"name": SYSTEM_NAMESPACE}})
    with contextlib.suppress(ApiError):
        admin.delete(f"{secrets}/{SIGNING_KEY_SECRET}")
    data = {"key": b"0123456789abcdef" * 2, "in-use-since": b"1700000000"}
    encoded = {name: base64.b64encode(value).decode() for name, value in data.items()}
    admin.create(secrets, {"metadata": {"name": SIGNING_KEY_SECRET}, "data": encoded})
    namespace = Namespace(control_plane)
    namespace.node("n")
    yield namespace
    admin.delete(f"{secrets}/{SIGNING_KEY_SECRET}")


@pytest.fixture
def attacker(control_plane: ControlPlane, victim: Namespace) -> Attacker:
    return Attacker(control_plane)


def runs(victim: Namespace, name: str = "job") -> None:
    """A job of another user that fits in the cluster is admitted and runs."""
    victim.api.create(f"{GROUPS}/namespaces/{victim.name}/podgroups", pod_group(name, {"cpu": "2"}))
    victim.pod(f"{name}-0", name, {"cpu": "2"})
    victim.wait(lambda: f"{name}-0" in victim.bound())


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_a_phase_written_with_huge_min_resources(
    victim: Namespace, attacker: Attacker, tmp_path: Path, phase: str
) -> None:
    attacker.group("before", HUGE, phase)
    with victim.scheduled(tmp_path):
        runs(victim, "first")
        attacker.group("after", HUGE)
        attacker.edit("after", {"status": {"phase": phase}})
        events = victim.wait(lambda: [e for e in attacker.stage.events() if "no record of" in e["message"]])
        runs(victim, "second")
    assert "cpu: asked 1000000" in events[0]["message"]
    assert {(e["type"], e["involvedObject"]["kind"]) for e in events} == {("Warning", "PodGroup")}


def test_a_pod_put_on_a_node_by_hand_and_phase_running(victim: Namespace, attacker: Attacker, tmp_path: Path) -> None:
    node = victim.api.get("/api/v1/nodes")["items"][0]["metadata"]["name"]
    attacker.group("a", HUGE)
    attacker.stage.pod("a-0", "a", {"cpu": "100m"}, nodeName=node, nodeSelector={})
    attacker.edit("a", {"status": {"phase": "Running"}})
    with victim.scheduled(tmp_path):
        victim.wait(lambda: attacker.get("a")["status"].get("running"))
        attacker.edit("a", {"status": {"phase": "Inqueue"}})
        runs(victim)


def test_min_resources_raised_after_admission(victim: Namespace, attacker: Attacker, tmp_path: Path) -> None:
    with victim.scheduled(tmp_path):
        attacker.group("a", {"cpu": "1"})
        victim.wait(lambda: attacker.phase("a") == "Inqueue")
        attacker.edit("a", {"spec": {"minResources": HUGE, "minMember": 5}})
        runs(victim, "first")
        attacker.edit("a", {"status": {"phase": "Running"}})
        runs(victim, "second")


def test_after_a_restart_of_the_scheduler(victim: Namespace, attacker: Attacker, tmp_path: Path) -> None:
    with victim.scheduled(tmp_path):
        attacker.group("unchanged", {"cpu": "1"})
        attacker.group("raised", {"cpu": "1"})
        victim.wait(lambda: {attacker.phase("unchanged"), attacker.phase("raised")} == {"Inqueue"})
        record = attacker.get("unchanged")["metadata"]["annotations"][ADMISSION_RECORD]
        attacker.edit("raised", {"spec": {"minResources": HUGE}})
    raised_record = {**json.loads(record), "minResources": HUGE}
    attacker.group("forged", HUGE, "Inqueue")
    attacker.group("copied", HUGE, "Inqueue", {ADMISSION_RECORD: record})
    attacker.group("altered", HUGE, "Running", {ADMISSION_RECORD: json.dumps(raised_record)})
    with victim.scheduled(tmp_path):
        runs(victim)
        assert attacker.phase("unchanged") == "Inqueue"
        assert attacker.get("unchanged")["metadata"]["annotations"][ADMISSION_RECORD] == record
        victim.wait(lambda: attacker.warned() >= {"forged", "copied", "altered"})
    assert attacker.warned() == {"forged", "copied", "altered"}


def test_pods_of_a_group_that_its_user_calls_admitted_wait(
    victim: Namespace, attacker: Attacker, tmp_path: Path
) -> None:
    pool = {"pool": victim.name}
    attacker.group("a", HUGE, "Inqueue")
    attacker.stage.pod("a-0", "a", {"cpu": "1"}, nodeSelector=pool)
    attacker.stage.pod("a-1", "a", {}, nodeSelector=pool)
    with victim.scheduled(tmp_path):
        victim.wait(lambda: attacker.phase("a") == "Pending")
        runs(victim)
        assert attacker.stage.bound() == {}


def test_pods_of_a_vcjob_that_its_user_calls_admitted_are_made_and_wait(
    victim: Namespace, attacker: Attacker, tmp_path: Path
) -> None:
    container = {"name": "main", "image": "registry.example/a:1", "resources": {"requests": {"cpu": "1000"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    tasks = [{"name": "t", "replicas": 1, "template": template}]
    vcjob = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"schedulerName": "volcano-py", "minAvailable": 1, "queue": "default", "tasks": tasks},
    }
    jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{attacker.stage.name}/jobs"
    controllers = running("controllers", account(victim.plane, "controllers"), tmp_path, "--leader-elect=false")
    with victim.scheduled(tmp_path), controllers:
        attacker.api.create(jobs, vcjob)
        (group,) = victim.wait(lambda: attacker.api.get(attacker.path)["items"])
        name = group["metadata"]["name"]
        victim.wait(lambda: attacker.phase(name) == "Pending")
        attacker.edit(name, {"status": {"phase": "Inqueue"}})
        victim.wait(attacker.stage.pods)
        victim.wait(lambda: attacker.phase(name) == "Pending")
        runs(victim)
        assert attacker.stage.bound() == {}
