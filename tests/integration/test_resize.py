"""Pods that are resized in place, and pod-level resources, on a real API server beside the real kube-scheduler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from controlplane.run import ControlPlane
from scheduler.api.kinds import POD
from scheduler.api.names import GROUP_NAME
from scheduler.cluster.memory.server import MemoryServer
from tests.integration.stage import Namespace, emptied
from tests.pod_level import cases

pytestmark = pytest.mark.controlplane

Raw = dict[str, Any]
OURS, KUBE = "volcano-py", "default-scheduler"
NODE: Final = 8000
"""The allocatable cpu of a node, in thousandths."""
RUNTIME: Final = "resized"
"""A RuntimeClass with an overhead of half a core."""
CONF: Final = """\
actions: "allocate"
tiers:
- plugins: [{name: gang}, {name: predicates}]
"""


class State(NamedTuple):
    """A Pod on a node in some state of a resize."""

    name: str
    holds: int
    """The thousandths of a core that a Pod holds according to kube-scheduler 1.36."""
    spec: Raw
    status: Raw


def container(cpu: str, name: str = "c", **rest: Any) -> Raw:
    return {"name": name, "image": "x", "resources": {"requests": {"cpu": cpu}}, **rest}


def reported(allocated: str | None, applied: str | None, name: str = "c") -> Raw:
    """A container status; None: the kubelet does not report the amount."""
    status: Raw = {"name": name, "ready": True, "restartCount": 0, "image": "x", "imageID": "x"}
    if allocated is not None:
        status["allocatedResources"] = {"cpu": allocated}
    if applied is not None:
        status["resources"] = {"requests": {"cpu": applied}}
    return status


def resize(*reasons: str) -> Raw:
    """The conditions of a resize that is in progress (without a reason) or pending."""
    pending = [{"type": "PodResizePending", "status": "True", "reason": reason} for reason in reasons]
    return {"conditions": pending or [{"type": "PodResizeInProgress", "status": "True"}]}


def state(name: str, holds: int, cpu: str, status: Raw, conditions: Raw | None = None) -> State:
    """The state of a Pod with one container."""
    return State(name, holds, {"containers": [container(cpu)]}, {"containerStatuses": [status], **(conditions or {})})


SIDECAR: Final = container("1", "side", restartPolicy="Always")
STATES: Final = [
    state("settled", 2000, "2", reported("2", "2")),
    state("nothing-reported", 2000, "2", reported(None, None)),
    state("shrinking", 6000, "1", reported("6", "6"), resize()),
    state("shrinking-applied-last", 6000, "1", reported("1", "6"), resize()),
    state("growing", 6000, "6", reported("6", "1"), resize()),
    state("deferred", 7000, "7", reported("1", "1"), resize("Deferred")),
    state("infeasible", 1000, "7", reported("1", "1"), resize("Infeasible")),
    state("infeasible-while-shrinking", 3000, "7", reported("1", "3"), resize("Infeasible")),
    state("infeasible-without-statuses", 7000, "7", reported(None, None), resize("Infeasible")),
    state("status-of-another-container", 2000, "2", reported("6", "6", "other"), resize()),
    State(
        "two-containers",
        3000 + 4000,
        {"containers": [container("1", "a"), container("4", "b")]},
        {"containerStatuses": [reported("3", "2", "a"), reported("1", "1", "b")], **resize()},
    ),
    State(
        "sidecar-and-init",
        3000 + 2000,
        {"containers": [container("1")], "initContainers": [SIDECAR, container("2", "first")]},
        {"initContainerStatuses": [reported("3", "3", "side"), reported("7", "7", "first")], **resize()},
    ),
    State(
        "pod-level",
        6000,
        {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}},
        {"allocatedResources": {"cpu": "6"}, "resources": {"requests": {"cpu": "5"}}, **resize()},
    ),
    State(
        "overhead",
        6000 + 500,
        {"containers": [container("1")], "runtimeClassName": RUNTIME},
        {"containerStatuses": [reported("6", "6")], **resize()},
    ),
    State(
        "overhead-and-pod-level",
        6000 + 500,
        {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}, "runtimeClassName": RUNTIME},
        {"allocatedResources": {"cpu": "6"}, "resources": {"requests": {"cpu": "5"}}, **resize()},
    ),
    State(
        "pod-level-infeasible",
        3000,
        {"containers": [container("1")], "resources": {"requests": {"cpu": "7"}}},
        {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}, **resize("Infeasible")},
    ),
]


class Stage(Namespace):
    """A node for each state and scheduler, with a Pod in that state."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane)
        self.group("probes", 1)

    def fill(self, number: int, state: State, scheduler: str) -> str:
        """Returns the Pod. The fake kubelets do not change it, because it is Running before it is on its node."""
        node = self.node(f"{state.name}-{scheduler}")
        name = f"held-{number}-{scheduler}"
        spec = {"schedulerName": "none", "terminationGracePeriodSeconds": 0, **state.spec}
        self.api.create(f"{self.path}/pods", {"metadata": {"name": name}, "spec": spec})
        self.set_status(name, {"phase": "Running", **state.status})
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.api.create(f"{self.path}/pods/{name}/binding", {"metadata": {"name": name}, "target": target})
        return name

    def set_status(self, pod: str, status: Raw) -> None:
        self.api.patch(f"{self.path}/pods/{pod}/status", {"status": status})

    def probe(self, name: str, node: str, scheduler: str, cpu: int) -> None:
        """A Pod for one node."""
        spec = {
            "schedulerName": scheduler,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [container(f"{cpu}m")],
        }
        metadata: Raw = {"name": name, "annotations": {GROUP_NAME: "probes"} if scheduler == OURS else {}}
        self.api.create(f"{self.path}/pods", {"metadata": metadata, "spec": spec})

    def verdicts(self, prefix: str) -> dict[str, bool]:
        """Whether the probes are bound; waits until each has been scheduled or refused."""
        found: dict[str, bool] = {}

        def decided() -> bool:
            for pod in self.pods():
                conditions = pod["status"].get("conditions") or ()
                scheduled = next((c for c in conditions if c["type"] == "PodScheduled"), None)
                if pod["metadata"]["name"].startswith(prefix):
                    if not pod["spec"].get("nodeName") and (scheduled is None or scheduled["status"] != "False"):
                        return False
                    found[pod["metadata"]["name"].removeprefix(prefix)] = bool(pod["spec"].get("nodeName"))
            return True

        self.wait(decided)
        return found


@pytest.fixture
def stage(control_plane: ControlPlane) -> Iterator[Stage]:
    emptied(control_plane)
    classes = "/apis/node.k8s.io/v1/runtimeclasses"
    overhead = {"podFixed": {"cpu": "500m"}}
    control_plane.admin.create(classes, {"metadata": {"name": RUNTIME}, "handler": "kata", "overhead": overhead})
    yield Stage(control_plane)
    control_plane.admin.delete(f"{classes}/{RUNTIME}")


@contextmanager
def both_schedulers(stage: Stage, directory: Path) -> Iterator[None]:
    conf = directory / "scheduler.conf"
    conf.write_text(CONF, encoding="utf-8")
    kube = stage.plane.start_kube_scheduler()
    try:
        with stage.scheduled(directory, f"--scheduler-conf={conf}"):
            yield
    finally:
        kube.stop()


def test_kube_scheduler_agrees_about_what_a_pod_holds_in_each_state_of_a_resize(stage: Stage, tmp_path: Path) -> None:
    tried = [(number, state, scheduler) for number, state in enumerate(STATES) for scheduler in (OURS, KUBE)]
    for each in tried:
        stage.fill(*each)

    def probe(prefix: str, cpu: Callable[[State], int]) -> dict[str, bool]:
        for _, state, scheduler in tried:
            node = f"{stage.name}-{state.name}-{scheduler}"
            stage.probe(f"{prefix}{state.name}-{scheduler}", node, scheduler, cpu(state))
        return stage.verdicts(prefix)

    with both_schedulers(stage, tmp_path):
        fits = probe("fits-", lambda state: NODE - state.holds)
        too_much = probe("more-", lambda state: 1)

    assert [name for name, bound in fits.items() if not bound] == []
    assert [name for name, bound in too_much.items() if bound] == []
    assert len(fits) == len(too_much) == 2 * len(STATES)


def test_a_waiting_pod_is_bound_when_a_resize_has_freed_room(stage: Stage, tmp_path: Path) -> None:
    shrinking = next(state for state in STATES if state.name == "shrinking")
    held = stage.fill(0, shrinking, OURS)
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONF, encoding="utf-8")
    with stage.scheduled(tmp_path, f"--scheduler-conf={conf}"):
        stage.probe("probe", f"{stage.name}-shrinking-{OURS}", OURS, 4000)
        stage.wait(lambda: "cpu: asked 4, most free on one node 2" in stage.condition("probe")["message"])
        stage.set_status(held, {"containerStatuses": [reported("1", "1")], "conditions": []})
        stage.wait(lambda: "probe" in stage.bound())


def test_a_cluster_in_memory_completes_pod_level_resources_as_the_api_server_does(stage: Stage) -> None:
    for case in cases():
        manifest = {"metadata": {"name": "p", "namespace": stage.name}, "spec": case.spec}
        stored = stage.api.create(f"{stage.path}/pods?dryRun=All", manifest)["spec"]
        server = MemoryServer()
        server.create(POD, {"apiVersion": "v1", "kind": "Pod", **manifest})
        found = server.find(POD, stage.name, "p")
        assert found is not None
        assert found["spec"]["resources"] == stored.get("resources", {}) == case.completed, case.name
        for field in ("containers", "initContainers"):
            here, there = found["spec"].get(field, []), stored.get(field, [])
            assert [c.get("resources", {}) for c in here] == [c.get("resources", {}) for c in there], case.name
