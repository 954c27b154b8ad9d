"""A control plane with our programs behind the fault proxy, and what a history does to it."""

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from controlplane import manifests, prepared
from controlplane.client import ApiError
from controlplane.manifests import NAMESPACE, RELEASE
from controlplane.run import ControlPlane
from scheduler.api.names import ASCEND_910, VGPU_CORES, VGPU_MEMORY, VGPU_NUMBER, VGPU_REGISTER
from tests.faults.proxy import FaultProxy
from tests.faults.replicas import Replicas
from tests.faults.revisions import OPTIONS, Change, Etcd
from tests.faults.schedule import CHIPS, GPU_NODES, NPU_NODES, QUOTA, Role, Work
from tests.integration.stage import GROUPS, or_skipped

BATCH: Final = "/apis/batch.volcano.sh/v1alpha1"
RBAC: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
GPU_MEMORY: Final = 10_000
"""The memory of each of the two GPUs of a GPU node."""
PATIENCE: Final = 40.0
"""Seconds for which a request of the history itself is repeated while the API server does not answer."""
_RIGHTS: Final = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret", "Lease"}
_CONFIGURATION: Final = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: ascend}]
- plugins:
  - {name: predicates}
  - {name: capacity}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
  - {name: nodeorder}
  - {name: binpack}
"""
_UNANSWERED: Final = (OSError, http.client.HTTPException)
T = TypeVar("T")


class Cluster:
    """Nodes, queues, work, and the programs."""

    def __init__(self, plane: ControlPlane, proxy: FaultProxy, directory: Path, *, measured: bool) -> None:
        """``measured``: whether the times of sessions are measured."""
        self.plane = plane
        self.proxy = proxy
        self.etcd = Etcd(plane.etcd_port)
        self._api = plane.admin
        configuration = directory / "scheduler.conf"
        configuration.write_text(_CONFIGURATION, encoding="utf-8")
        self._bindings = self._grant_rights()
        for number in range(NPU_NODES + GPU_NODES):
            self.create_node(number)
        options = {
            Role.SCHEDULER: [f"--scheduler-conf={configuration}", "--schedule-period=200ms"],
            Role.CONTROLLERS: [],
        }
        self.replicas = Replicas(plane, proxy, directory, options, measured=measured)

    # --- requests -----------------------------------------------------------------------------------------------------
    def persistently(self, request: Callable[[], T]) -> T | None:
        """Repeats a request while the API server does not answer. Returns None if the object exists already, or does
        not exist any more."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return request()
            except ApiError as error:
                if error.status in (404, 409):
                    return None
                if error.status < 500 or time.monotonic() > deadline:
                    raise
            except _UNANSWERED:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _create(self, path: str, body: dict[str, Any]) -> None:
        self.persistently(lambda: self._api.create(path, body))

    def _delete(self, path: str) -> None:
        self.persistently(lambda: self._api.delete(path))

    def items(self, path: str) -> list[dict[str, Any]]:
        """The objects of a collection."""
        found = self.persistently(lambda: self._api.get(path))
        return [] if found is None else list(found["items"])

    # --- rights -------------------------------------------------------------------------------------------------------
    def _grant_rights(self) -> dict[Role, list[dict[str, Any]]]:
        """Grants what the chart grants. Returns the cluster-wide grants of each role."""
        self._create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        objects = [raw for raw in yaml.safe_load_all(manifests.template(self.plane.binaries / "helm")) if raw]
        rights = [raw for raw in objects if raw["kind"] in _RIGHTS]
        self.plane.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(rights))
        bindings = [raw for raw in rights if raw["kind"] == "ClusterRoleBinding"]
        return {
            role: [raw for raw in bindings if any(each["name"] == f"{RELEASE}-{role}" for each in raw["subjects"])]
            for role in Role
        }

    def withdraw_rights(self, role: Role) -> None:
        for binding in self._bindings[role]:
            self._delete(f"{RBAC}/{binding['metadata']['name']}")

    def restore_rights(self, role: Role) -> None:
        for binding in self._bindings[role]:
            self._create(RBAC, binding)

    # --- nodes --------------------------------------------------------------------------------------------------------
    def create_node(self, number: int) -> None:
        """The first nodes have NPUs, the others GPUs that Pods share."""
        name = f"n{number}"
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        meta: dict[str, Any] = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        if number < NPU_NODES:
            amounts |= {ASCEND_910: str(CHIPS)}
        else:
            gpus = [f"{name}-gpu-{i},10,{GPU_MEMORY},NVIDIA-NVIDIA L4,true,hami-core:" for i in range(2)]
            meta["annotations"] = {VGPU_REGISTER: "".join(gpus)}
            amounts |= {VGPU_NUMBER: "20", VGPU_MEMORY: str(2 * GPU_MEMORY), VGPU_CORES: "200"}
        self._create("/api/v1/nodes", {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}})

    def nodes(self) -> list[Change]:
        """The nodes as they are now, as changes before a history."""
        return [Change(0, "Node", raw["metadata"]["name"], raw) for raw in self.items("/api/v1/nodes")]

    def delete_node(self, number: int) -> None:
        self._delete(f"/api/v1/nodes/n{number}")

    def delete_pods_of(self, number: int) -> list[dict[str, Any]]:
        """Deletes the Pods of a node that is gone, as the garbage collector of Pods does. Returns them."""
        found = [pod for pod in self.items("/api/v1/pods") if pod["spec"].get("nodeName") == f"n{number}"]
        for pod in found:
            meta = pod["metadata"]
            self._delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}?gracePeriodSeconds=0")
        return found

    # --- work ---------------------------------------------------------------------------------------------------------
    def prepare(self, name: str) -> None:
        """Creates the namespace and the queue of a history."""
        self._create("/api/v1/namespaces", {"metadata": {"name": name}})
        spec = {"weight": 1, "capability": {ASCEND_910: str(QUOTA), "cpu": "100", "memory": "500Gi"}}
        kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        self._create(f"{GROUPS}/queues", {**kind, "metadata": {"name": name}, "spec": spec})

    def submit(self, name: str, work: Work) -> None:
        """Creates a vcjob or a Pod in the namespace and the queue of a history."""
        requests = {"cpu": "1"}
        if work.chips:
            requests[ASCEND_910] = str(work.chips)
        if work.vgpus:
            requests |= {VGPU_NUMBER: str(work.vgpus), VGPU_MEMORY: "4000", VGPU_CORES: "30"}
        container = {"name": "main", "image": "x", "resources": {"requests": requests, "limits": requests}}
        annotations = {
            "volcano-py.test/outcome": "fail" if work.fails else "succeed",
            "volcano-py.test/runs-for": f"{work.runs_for}s",
        }
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        if not work.pods:
            annotations["scheduling.volcano.sh/queue-name"] = name
            metadata = {"name": work.name, "annotations": annotations}
            body = {"metadata": metadata, "spec": {**pod, "schedulerName": "volcano-py"}}
            self._create(f"/api/v1/namespaces/{name}/pods", body)
            return
        restart = [{"event": event, "action": "RestartJob"} for event in ("PodEvicted", "PodFailed")]
        spec = {
            "schedulerName": "volcano-py",
            "queue": name,
            "minAvailable": work.pods,
            "maxRetry": 2 if work.fails else 50,
            "policies": restart,
            "tasks": [
                {
                    "name": "w",
                    "replicas": work.pods,
                    "template": {"metadata": {"annotations": annotations}, "spec": pod},
                }
            ],
        }
        job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": work.name}, "spec": spec}
        self._create(f"{BATCH}/namespaces/{name}/jobs", job)

    def unfinished(self, name: str, work: tuple[Work, ...], deleted: set[str]) -> list[str]:
        """What is not done yet. ``deleted``: Pods, by ``namespace/name``, that were deleted with their node."""
        phases = {
            job["metadata"]["name"]: ((job.get("status") or {}).get("state") or {}).get("phase")
            for job in self.items(f"{BATCH}/namespaces/{name}/jobs")
        }
        pods = {pod["metadata"]["name"]: pod for pod in self.items(f"/api/v1/namespaces/{name}/pods")}
        found = []
        for each in work:
            if each.pods:
                wanted, phase = "Failed" if each.fails else "Completed", phases.get(each.name)
                if phase != wanted:
                    found.append(f"job {each.name} is {phase}, not {wanted}")
            elif each.name in pods:
                phase = pods[each.name]["status"].get("phase")
                if phase != "Succeeded":
                    found.append(f"Pod {each.name} is {phase}, on {pods[each.name]['spec'].get('nodeName')}")
            elif f"{name}/{each.name}" not in deleted:
                found.append(f"Pod {each.name} is lost")
        return found

    def remove(self, name: str) -> None:
        """Deletes the work of a history."""
        self._delete(f"{BATCH}/namespaces/{name}/jobs")
        self._delete(f"/api/v1/namespaces/{name}/pods")

    def left(self, name: str) -> list[str]:
        """What exists of a history whose work was deleted."""
        places = {
            "Job": f"{BATCH}/namespaces/{name}/jobs",
            "Pod": f"/api/v1/namespaces/{name}/pods",
            "PodGroup": f"{GROUPS}/namespaces/{name}/podgroups",
        }
        return [f"{kind} {raw['metadata']['name']}" for kind, path in places.items() for raw in self.items(path)]

    def forget(self, name: str) -> None:
        """Deletes the queue and the namespace of a history."""
        self._delete(f"{GROUPS}/queues/{name}")
        self._delete(f"/api/v1/namespaces/{name}")


@contextmanager
def a_cluster(directory: Path, *, measured: bool = False) -> Iterator[Cluster]:
    """A cluster whose history can be read, with all programs running."""
    with or_skipped():
        plane = ControlPlane(data=prepared.with_definitions(), apiserver_options=OPTIONS).start()
    try:
        plane.start_kwok()
        plane.start_controller_manager()
        port = int(plane.url.rpartition(":")[2])
        proxy = FaultProxy(port, plane.authority.client_context(), plane.authority.issue("fault-proxy"))
        proxy.start()
        cluster = Cluster(plane, proxy, directory, measured=measured)
        try:
            cluster.replicas.start_all()
            yield cluster
        finally:
            cluster.replicas.stop()
            proxy.stop()
    finally:
        plane.stop()
