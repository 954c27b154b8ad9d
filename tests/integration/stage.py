"""The parts that the tests on a real API server share: the server itself, our programs beside it, and one namespace per
test."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from controlplane import build, prepared
from controlplane.client import Client
from controlplane.run import ControlPlane
from scheduler.api.names import GROUP_NAME
from tests.integration.audit import audited
from tests.integration.programs import Program, print_end
from tests.integration.rights import account

GROUPS = "/apis/scheduling.volcano.sh/v1beta1"


@contextmanager
def or_skipped() -> Iterator[None]:
    """Skips the tests if the binaries of a control plane are not available. In the CI the tests fail instead: a skip
    would count as a pass."""
    try:
        yield
    except build.BuildError as error:
        reason = f"no control plane: {error}"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@contextmanager
def a_control_plane() -> Iterator[ControlPlane]:
    """A control plane with our resource definitions, stopped at the end."""
    with audited() as audit:
        with or_skipped():
            plane = ControlPlane(data=prepared.with_definitions(), apiserver_options=audit.options).start()
        try:
            yield plane
        finally:
            plane.stop()


def wait(condition: Callable[[], Any], timeout: float = 30.0, said: Callable[[], object] = lambda: "") -> Any:
    """Returns the first true result of ``condition``; ``said`` returns details for the error on a time-out."""
    deadline = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout:.0f} s; {said()}")
        time.sleep(0.05)
    return found


class Role:
    """One of our programs, as a process."""

    def __init__(self, name: str, kubeconfig: Path, directory: Path, *options: str) -> None:
        self.log = directory / f"{name}-{time.monotonic_ns()}.log"
        command = [name, "--kubeconfig", str(kubeconfig), "--enable-metrics=false", "--enable-healthz=false"]
        self.log.touch()
        self.process = Program([*command, *options], self.log)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(40)  # a role may take 30 s, see `liveness`


@contextmanager
def running(name: str, kubeconfig: Path, directory: Path, *options: str) -> Iterator[Role]:
    """Runs a program for the duration of the block; shows the end of its log when the test fails."""
    role = Role(name, kubeconfig, directory, *options)
    try:
        yield role
    finally:
        role.stop()
        print_end(role.log)


class Namespace:
    """A namespace with nodes that only its Pods select, PodGroups and Pods."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.api = plane.admin
        self.name = f"t{uuid4().hex[:8]}"
        self.path = f"/api/v1/namespaces/{self.name}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.name}})

    # --- objects in ---
    def node(self, name: str, **amounts: str) -> str:
        """Returns the Node's full name."""
        full = f"{self.name}-{name}"
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **amounts}
        meta = {"name": full, "labels": {"pool": self.name, "kubernetes.io/hostname": full}}
        self.api.create("/api/v1/nodes", {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}})
        return full

    def group(self, name: str, minimum: int, queue: str = "default", **metadata: Any) -> None:
        self.api.create(
            f"{GROUPS}/namespaces/{self.name}/podgroups",
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": name, **metadata},
                "spec": {"minMember": minimum, "queue": queue},
            },
        )

    def pod(
        self,
        name: str,
        group: str,
        requests: Mapping[str, str],
        annotations: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Creates a Pod with one container. Pass ``resources`` that are not in ``requests`` as part of ``spec``."""
        container = {
            "name": "main",
            "image": "registry.example/train:1",
            "resources": {"requests": requests, "limits": requests, **spec.pop("resources", {})},
        }
        self.api.create(
            f"{self.path}/pods",
            {
                "metadata": {"name": name, "annotations": {GROUP_NAME: group, **(annotations or {})}},
                "spec": {
                    "schedulerName": "volcano-py",
                    "nodeSelector": {"pool": self.name},
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                    **spec,
                },
            },
        )

    # --- what has become of them ---
    def pods(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.get(f"{self.path}/pods")["items"]
        return items

    def bound(self) -> dict[str, str]:
        """Maps each Pod to its node."""
        return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in self.pods() if p["spec"].get("nodeName")}

    def condition(self, pod: str) -> dict[str, str]:
        """Returns why a Pod is not scheduled: ``reason`` and ``message``, both "" before the condition is written."""
        conditions = self.api.get(f"{self.path}/pods/{pod}")["status"].get("conditions") or ()
        found = (c for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False")
        return next(found, {"reason": "", "message": ""})

    def get_group(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{GROUPS}/namespaces/{self.name}/podgroups/{name}")
        return found

    def events(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.get(f"{self.path}/events")["items"]
        return items

    def wait(self, condition: Callable[[], Any], timeout: float = 40.0) -> Any:
        return wait(condition, timeout, self._state)

    def _state(self) -> str:
        """The phases and conditions of the Pods, and the Events, for the error of a time-out."""
        pods = {
            pod["metadata"]["name"]: (
                pod["status"].get("phase"),
                {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()},
            )
            for pod in self.pods()[:20]
        }
        return f"pods: {pods}; events: {[event['message'] for event in self.events()][:20]}"

    @contextmanager
    def scheduled(self, directory: Path, *options: str, kubeconfig: Path | None = None) -> Iterator[Role]:
        """A running scheduler. It is the only one and leads at once, unless ``options`` say otherwise. By default, it
        has the rights that the chart grants."""
        options = ("--schedule-period=200ms", "--leader-elect=false", *options)
        with running("scheduler", kubeconfig or account(self.plane, "scheduler"), directory, *options) as role:
            yield role


def client_of(plane: ControlPlane, user: str) -> Client:
    """A client with the identity of a user."""
    token = json.loads(plane.kubeconfig_for(user).read_text(encoding="utf-8"))["users"][0]["user"]["token"]
    port = int(plane.url.rpartition(":")[2])
    return Client("127.0.0.1", port, token, plane.authority.client_context())


def emptied(plane: ControlPlane) -> None:
    """Deletes the nodes, queues, Pods and PodGroups of other tests: a scheduler takes the whole cluster into
    account."""
    admin = plane.admin
    for path in ("/api/v1/nodes", f"{GROUPS}/queues"):
        for item in admin.get(path)["items"]:
            if item["metadata"]["name"] not in ("default", "root"):
                admin.delete(f"{path}/{item['metadata']['name']}")
    for item in admin.get("/api/v1/namespaces")["items"]:
        name = item["metadata"]["name"]
        admin.delete(f"{GROUPS}/namespaces/{name}/podgroups")
        admin.delete(f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
