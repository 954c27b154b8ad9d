"""Devices on a real API server with its claim controller: a claim for every Pod, no device allocated twice, devices
released at the end. The scheduler runs with the permissions that the chart grants and no others."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from controlplane.run import ControlPlane
from scheduler.api.names import CLAIM_FINALIZER
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
from tests.integration.stage import GROUPS, Namespace, Role, a_control_plane, emptied

pytestmark = pytest.mark.controlplane

RESOURCES = "/apis/resource.k8s.io/v1"
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder}, {name: capacity}]
"""
CONTROLLERS = ("resourceclaim-controller", "garbage-collector-controller")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane whose claim controller and kubelets run."""
    with a_control_plane() as started:
        started.start_controller_manager(CONTROLLERS)
        started.start_kwok()
        yield started


class Devices(Namespace):
    """A namespace with devices and claims of them."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.driver = f"{self.name}.example.com"
        self.add(device_class(self.name, f'device.driver == "{self.driver}"'))
        self.add(template("one", request(device_class=self.name)))

    # --- objects in ---
    def add(self, raw: dict[str, Any]) -> None:
        plural = {"DeviceClass": "deviceclasses"}.get(raw["kind"], f"{raw['kind'].lower()}s")
        where = f"namespaces/{self.name}/" if raw["metadata"].pop("namespace", None) else ""
        self.api.create(f"{RESOURCES}/{where}{plural}", raw)

    def with_devices(self, name: str, devices: int) -> str:
        """Creates a node with this number of devices; returns its full name."""
        node = self.node(name)
        self.add(resource_slice(gpus(devices), node, driver=self.driver))
        return node

    def gang(self, name: str, number: int, claims: Sequence[dict[str, Any]], queue: str = "default") -> None:
        """Pods that start together, all with ``claims``."""
        self.group(name, number, queue)
        used = {"claims": [{"name": c["name"]} for c in claims]}
        for i in range(number):
            self.pod(f"{name}-{i}", name, {"cpu": "1"}, resources=used, resourceClaims=list(claims))

    def delete_pods(self, *names: str) -> None:
        for name in names:
            self.api.delete(f"{self.path}/pods/{name}?gracePeriodSeconds=0")

    # --- what has become of them ---
    def claims(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.get(f"{RESOURCES}/namespaces/{self.name}/resourceclaims")["items"]
        return items

    def given(self) -> list[tuple[str, str]]:
        """The (pool, device) of every allocation."""
        allocations = [c["status"]["allocation"] for c in self.claims() if (c.get("status") or {}).get("allocation")]
        return [(r["pool"], r["device"]) for a in allocations for r in a["devices"]["results"]]

    def scheduler(self, directory: Path) -> AbstractContextManager[Role]:
        """A running scheduler."""
        conf = directory / "scheduler.conf"
        conf.write_text(CONF, encoding="utf-8")
        return self.scheduled(directory, f"--scheduler-conf={conf}")


@pytest.fixture
def devices(plane: ControlPlane) -> Devices:
    emptied(plane)
    for item in plane.admin.get(f"{RESOURCES}/resourceslices")["items"]:
        plane.admin.delete(f"{RESOURCES}/resourceslices/{item['metadata']['name']}")
    return Devices(plane)


def test_the_devices_of_every_pod_of_a_gang_are_recorded_before_it_is_bound(devices: Devices, tmp_path: Path) -> None:
    nodes = [devices.with_devices(f"n{i}", 4) for i in range(2)]
    devices.gang("g", 8, templated("one"))

    def bound_with_devices() -> bool:
        bound = devices.bound()  # read first: what is bound now has had its devices for some time
        claims = {c["metadata"]["ownerReferences"][0]["name"]: c for c in devices.claims()}
        for pod, node in bound.items():
            assert claims[pod]["status"]["allocation"]["devices"]["results"][0]["pool"] == node
            assert [r["name"] for r in claims[pod]["status"]["reservedFor"]] == [pod]
        return len(bound) == 8

    def allocated() -> str | None:
        status: dict[str, Any] = devices.api.get(f"{GROUPS}/queues/default").get("status") or {}
        return (status.get("allocated") or {}).get(f"deviceclass/{devices.name}")

    with devices.scheduler(tmp_path):
        devices.wait(bound_with_devices)
        devices.wait(lambda: allocated() == "8")

    assert sorted(devices.given()) == sorted((node, f"gpu-{i}") for node in nodes for i in range(4))
    assert all(CLAIM_FINALIZER in c["metadata"]["finalizers"] for c in devices.claims())


def test_a_gang_without_enough_devices_takes_none_until_others_release_them(devices: Devices, tmp_path: Path) -> None:
    devices.with_devices("n0", 2)
    devices.gang("first", 2, templated("one"))

    with devices.scheduler(tmp_path):
        devices.wait(lambda: len(devices.bound()) == 2)
        devices.gang("second", 2, templated("one"))
        text = "cannot allocate all claims"
        devices.wait(lambda: any(text in devices.condition(f"second-{i}")["message"] for i in range(2)))
        assert len(devices.given()) == 2

        devices.delete_pods("first-0")
        time.sleep(1)
        assert set(devices.bound()) == {"first-1"}, "one device is not enough for the gang"
        devices.delete_pods("first-1")
        devices.wait(lambda: set(devices.bound()) == {"second-0", "second-1"})

    assert len(set(devices.given())) == 2


def test_pods_that_share_a_claim_are_bound_where_its_device_is(devices: Devices, tmp_path: Path) -> None:
    for i in range(2):
        devices.with_devices(f"n{i}", 1)
    devices.add(claim("shared", request(device_class=devices.name)))
    devices.gang("g", 3, named("shared"))

    with devices.scheduler(tmp_path):
        bound = devices.wait(lambda: found if len(found := devices.bound()) == 3 else None)

    (shared,) = devices.claims()
    assert {r["name"] for r in shared["status"]["reservedFor"]} == set(bound)
    assert set(bound.values()) == {shared["status"]["allocation"]["devices"]["results"][0]["pool"]}


def test_no_device_is_allocated_twice_when_the_scheduler_is_killed(devices: Devices, tmp_path: Path) -> None:
    for i in range(4):
        devices.with_devices(f"n{i}", 4)
    for job in range(10):
        devices.gang(f"j{job}", 2, templated("one"))

    with devices.scheduler(tmp_path) as daemon:
        devices.wait(devices.given)
        daemon.kill()
    with devices.scheduler(tmp_path):
        devices.wait(lambda: len(devices.bound()) == 16)
        time.sleep(1)

    given = devices.given()
    assert len(given) == len(set(given)) == 16
    assert len(devices.bound()) == 16, "no more than there are devices"


def test_the_capability_of_a_queue_limits_its_devices(devices: Devices, tmp_path: Path) -> None:
    devices.with_devices("n0", 4)
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": devices.name}}
    capability = {f"deviceclass/{devices.name}": "2"}
    devices.api.create(f"{GROUPS}/queues", {**kind, "spec": {"weight": 1, "capability": capability}})
    for job in range(3):
        devices.gang(f"j{job}", 1, templated("one"), queue=devices.name)

    with devices.scheduler(tmp_path):
        devices.wait(lambda: len(devices.bound()) == 2)
        waiting = next(f"j{job}-0" for job in range(3) if f"j{job}-0" not in devices.bound())
        text = f"deviceclass/{devices.name}: asked 1, used 2, limit 2"
        devices.wait(lambda: text in devices.condition(waiting)["message"])

    assert len(devices.bound()) == 2
