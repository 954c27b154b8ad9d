"""Devices on a real API server with its claim controller: a claim for every Pod, no device twice, released at the end.

The scheduler runs with the rights that the chart gives it and no others.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import build
from controlplane.manifests import ROOT
from controlplane.run import ControlPlane
from scheduler.api.names import CLAIM_FINALIZER, GROUP_NAME
from tests.device_builders import (
    claim,
    device_class,
    gpus,
    named,
    request,
    resource_slice,
    template,
    templated,
)
from tests.integration.test_scheduler import GROUPS, Daemon

pytestmark = pytest.mark.controlplane

RESOURCES = "/apis/resource.k8s.io/v1"
ACCOUNT = "system:serviceaccount:volcano-system:volcano-py-scheduler"
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: capacity}]
"""
CONTROLLERS = ("resourceclaim-controller", "garbage-collector-controller")


class Identity:
    """The control plane as the chart's scheduler may see it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.kubeconfig = plane.kubeconfig_for(ACCOUNT)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane whose claim controller and kubelets run, with the scheduler's roles of the chart."""
    try:
        started = ControlPlane().start()
    except build.BuildError as error:
        pytest.skip(f"no control plane: {error}")
    try:
        started.apply_crds()
        started.start_controller_manager(CONTROLLERS)
        started.start_kwok()
        started.admin.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
        manifests = yaml.safe_load_all((ROOT / "deploy" / "volcano-py.yaml").read_text(encoding="utf-8"))
        rights = [m for m in manifests if m and "Role" in m["kind"] and m["metadata"]["name"].find("scheduler") >= 0]
        started.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rights))
        yield started
    finally:
        started.stop()


class Devices:
    """Shorthand: a namespace with its nodes, devices, claims and Pods."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = plane.admin
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self.driver = f"{self.name}.example.com"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        self.add(device_class(self.name, f'device.driver == "{self.driver}"'))
        self.add(template("one", request(device_class=self.name)))

    # --- objects in ---
    def add(self, raw: dict[str, Any]) -> None:
        plural = {"DeviceClass": "deviceclasses"}.get(raw["kind"], f"{raw['kind'].lower()}s")
        where = f"namespaces/{self.name}/" if raw["metadata"].pop("namespace", None) else ""
        self.api.create(f"{RESOURCES}/{where}{plural}", raw)

    def node(self, number: int, devices: int) -> str:
        name = f"{self.name}-n{number}"
        amounts = {"cpu": "32", "memory": "64Gi", "pods": "110"}
        labels = {"pool": self.name, "kubernetes.io/hostname": name}
        status = {"allocatable": amounts, "capacity": amounts}
        self.api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})
        self.add(resource_slice(gpus(devices), name, driver=self.driver))
        return name

    def gang(self, name: str, number: int, claims: Sequence[dict[str, Any]], queue: str = "default") -> None:
        kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        body = {**kind, "metadata": {"name": name}, "spec": {"minMember": number, "queue": queue}}
        self.api.create(f"{GROUPS}/namespaces/{self.name}/podgroups", body)
        for i in range(number):
            spec = {
                "schedulerName": "volcano-py",
                "nodeSelector": {"pool": self.name},
                "terminationGracePeriodSeconds": 0,
                "resourceClaims": list(claims),
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example/train:1",
                        "resources": {"requests": {"cpu": "1"}, "claims": [{"name": c["name"]} for c in claims]},
                    }
                ],
            }
            meta = {"name": f"{name}-{i}", "annotations": {GROUP_NAME: name}}
            self.api.create(f"/api/v1/namespaces/{self.name}/pods", {"metadata": meta, "spec": spec})

    def delete_pods(self, *names: str) -> None:
        for name in names:
            self.api.delete(f"/api/v1/namespaces/{self.name}/pods/{name}?gracePeriodSeconds=0")

    # --- what has become of them ---
    def claims(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.get(f"{RESOURCES}/namespaces/{self.name}/resourceclaims")["items"]
        return items

    def given(self) -> list[tuple[str, str]]:
        """(pool, device) of every allocation."""
        allocations = [c["status"]["allocation"] for c in self.claims() if (c.get("status") or {}).get("allocation")]
        return [(r["pool"], r["device"]) for a in allocations for r in a["devices"]["results"]]

    def bound(self) -> dict[str, str]:
        pods = self.api.get(f"/api/v1/namespaces/{self.name}/pods")["items"]
        return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if p["spec"].get("nodeName")}

    def why(self, pod: str) -> str:
        conditions = self.api.get(f"/api/v1/namespaces/{self.name}/pods/{pod}")["status"].get("conditions") or ()
        return next((c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")

    def wait(self, condition: Callable[[], Any], timeout: float = 40.0) -> Any:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if found := condition():
                return found
            time.sleep(0.05)
        events = self.api.get(f"/api/v1/namespaces/{self.name}/events")["items"]
        raise AssertionError(f"not within {timeout:.0f} s; events: {[e['message'] for e in events][:20]}")


@pytest.fixture
def devices(plane: ControlPlane) -> Iterator[Devices]:
    made = Devices(plane)
    yield made
    admin = plane.admin
    admin.delete(f"/api/v1/namespaces/{made.name}/pods?gracePeriodSeconds=0")
    admin.delete(f"{GROUPS}/namespaces/{made.name}/podgroups")
    for path in ("/api/v1/nodes", f"{RESOURCES}/resourceslices"):
        for item in admin.get(path)["items"]:
            admin.delete(f"{path}/{item['metadata']['name']}")


@contextmanager
def scheduling(devices: Devices, tmp_path: Path) -> Iterator[Daemon]:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF, encoding="utf-8")
    options = ("--leader-elect=false", f"--scheduler-conf={conf}")
    daemon = Daemon(Identity(devices.plane), tmp_path / f"scheduler-{time.monotonic_ns()}.log", options)  # type: ignore[arg-type]
    try:
        yield daemon
    finally:
        daemon.stop()
        print(daemon.log.read_text(encoding="utf-8", errors="replace")[-4000:])


def test_every_pod_of_a_gang_has_its_devices_written_down_before_it_is_bound(devices: Devices, tmp_path: Path) -> None:
    nodes = [devices.node(i, devices=4) for i in range(2)]
    devices.gang("g", 8, templated("one"))

    def bound_with_devices() -> bool:
        bound = devices.bound()  # read first: what is bound now has had its devices for some time
        claims = {c["metadata"]["ownerReferences"][0]["name"]: c for c in devices.claims()}
        for pod, node in bound.items():
            assert claims[pod]["status"]["allocation"]["devices"]["results"][0]["pool"] == node
            assert [r["name"] for r in claims[pod]["status"]["reservedFor"]] == [pod]
        return len(bound) == 8

    with scheduling(devices, tmp_path):
        devices.wait(bound_with_devices)

    assert sorted(devices.given()) == sorted((node, f"gpu-{i}") for node in nodes for i in range(4))
    assert all(CLAIM_FINALIZER in c["metadata"]["finalizers"] for c in devices.claims())
    queue = devices.api.get(f"{GROUPS}/queues/default")
    assert queue["status"]["allocated"][f"deviceclass/{devices.name}"] == "8"


def test_a_gang_without_enough_devices_takes_none_and_gets_them_when_others_are_gone(
    devices: Devices, tmp_path: Path
) -> None:
    devices.node(0, devices=2)
    devices.gang("first", 2, templated("one"))

    with scheduling(devices, tmp_path):
        devices.wait(lambda: len(devices.bound()) == 2)
        devices.gang("second", 2, templated("one"))
        text = "cannot allocate all claims"
        devices.wait(lambda: any(text in devices.why(f"second-{i}") for i in range(2)))
        assert len(devices.given()) == 2

        devices.delete_pods("first-0")
        time.sleep(1)
        assert set(devices.bound()) == {"first-1"}, "one device is not enough for the gang"
        devices.delete_pods("first-1")
        devices.wait(lambda: set(devices.bound()) == {"second-0", "second-1"})

    assert len(set(devices.given())) == 2


def test_pods_that_share_a_claim_are_bound_where_its_device_is(devices: Devices, tmp_path: Path) -> None:
    for i in range(2):
        devices.node(i, devices=1)
    devices.add(claim("shared", request(device_class=devices.name)))
    devices.gang("g", 3, named("shared"))

    with scheduling(devices, tmp_path):
        bound = devices.wait(lambda: found if len(found := devices.bound()) == 3 else None)

    (shared,) = devices.claims()
    assert {r["name"] for r in shared["status"]["reservedFor"]} == set(bound)
    assert set(bound.values()) == {shared["status"]["allocation"]["devices"]["results"][0]["pool"]}


def test_no_device_is_given_twice_though_the_scheduler_is_killed_in_between(devices: Devices, tmp_path: Path) -> None:
    for i in range(4):
        devices.node(i, devices=4)
    for job in range(10):
        devices.gang(f"j{job}", 2, templated("one"))

    with scheduling(devices, tmp_path) as daemon:
        devices.wait(devices.given)
        daemon.kill()
    with scheduling(devices, tmp_path):
        devices.wait(lambda: len(devices.bound()) == 16)
        time.sleep(1)

    given = devices.given()
    assert len(given) == len(set(given)) == 16
    assert len(devices.bound()) == 16, "no more than there are devices"


def test_a_queue_gets_no_more_devices_than_its_capability_says(devices: Devices, tmp_path: Path) -> None:
    devices.node(0, devices=4)
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": devices.name}}
    capability = {f"deviceclass/{devices.name}": "2"}
    devices.api.create(f"{GROUPS}/queues", {**kind, "spec": {"weight": 1, "capability": capability}})
    for job in range(3):
        devices.gang(f"j{job}", 1, templated("one"), queue=devices.name)

    with scheduling(devices, tmp_path):
        devices.wait(lambda: len(devices.bound()) == 2)
        waiting = next(f"j{job}-0" for job in range(3) if f"j{job}-0" not in devices.bound())
        devices.wait(lambda: f"deviceclass/{devices.name}: asked 1, used 2, limit 2" in devices.why(waiting))

    assert len(devices.bound()) == 2
