"""What the tests on real nodes share: a namespace with jobs of real containers."""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import yaml

from controlplane.manifests import ROOT
from controlplane.node.cluster import Cluster
from controlplane.node.preflight import cgroup_roots
from scheduler.api.kinds import POD, VCJOB, object_path
from scheduler.api.names import JOB_NAME
from tests.integration import examples

BUSYBOX = "busybox:1.36.1"
PYTHON = "python:3.11-slim"
MPI = "volcanosh/example-mpi:0.0.3"
TIMEOUT = 90.0

_CHART_VALUES = yaml.safe_load((ROOT / "charts" / "volcano-py" / "values.yaml").read_text(encoding="utf-8"))
_CONFIGURATION: str = _CHART_VALUES["scheduler"]["configuration"]
_ON_FIRST = {"nodeSelector": {"kubernetes.io/hostname": "node-1"}}


def _role(cpu: str) -> dict[str, Any]:
    return {**_ON_FIRST, "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}, "limits": {"memory": "512Mi"}}}


VALUES: dict[str, Any] = {
    "scheduler": {
        **_role("100m"),
        "configuration": _CONFIGURATION.replace("allocate, backfill", "allocate, preempt, backfill"),
    },
    "controllers": _role("100m"),
    "webhooks": _role("50m"),
}
"""The values of the chart: the machine has few processors; the roles have limits, and the scheduler preempts."""


class Stage(examples.Stage):
    """A namespace for one test."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        super().__init__(cluster.plane, namespace)
        self.cluster = cluster
        self.marks = cluster.plane.directory / f"marks-{namespace}"
        self.marks.mkdir()
        self.marks.chmod(0o777)

    def clean(self) -> None:
        """Deletes the namespace, without waiting for the Pods."""
        self.api.delete(f"/api/v1/namespaces/{self.namespace}")

    def until(self, condition: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
        deadline = time.monotonic() + timeout
        while not (found := condition()):
            if time.monotonic() > deadline:
                found = self.kubectl("get", "vcjob,podgroup,pods,events", "--output=wide")
                raise AssertionError("\n".join((found, *self.cluster.role_logs())))
            time.sleep(0.1)
        return found

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        try:
            return self.cluster.plane.kubectl(*arguments, f"--namespace={self.namespace}", stdin=stdin)
        except CalledProcessError as error:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {error.stderr}") from None

    def end(self, *pods: str) -> None:
        """Does nothing: containers end by themselves."""

    # --- jobs ---
    def task(self, name: str, script: str, replicas: int = 1, image: str = BUSYBOX, **more: Any) -> dict[str, Any]:
        """A task whose container runs a shell script, or a Python script in the image with Python. The directory
        `marks` of this machine is mounted at /marks. ``more``: fields of the container in ``container``, ``policies``
        of the task, fields of the Pod."""
        command = ["python3", "-c", script] if image == PYTHON else ["sh", "-c", script]
        container = {
            "name": name,
            "image": image,
            "command": command,
            "resources": {"requests": {"cpu": "100m", "memory": "32Mi"}},
            "volumeMounts": [{"name": "marks", "mountPath": "/marks"}],
            **more.pop("container", {}),
        }
        task = {"name": name, "replicas": replicas}
        if policies := more.pop("policies", None):
            task["policies"] = policies
        volume = {"name": "marks", "hostPath": {"path": str(self.marks)}}
        volumes = [volume, *more.pop("volumes", ())]
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [container, *more.pop("containers", ())],
            "volumes": volumes,
            **more,
        }
        return {**task, "template": {"spec": pod}}

    def submit(self, name: str, *tasks: dict[str, Any], **spec: Any) -> None:
        """Creates a vcjob whose Pods start together."""
        minimum = sum(task["replicas"] for task in tasks)
        body = {
            "apiVersion": VCJOB.api_version,
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"schedulerName": "volcano-py", "minAvailable": minimum, "tasks": list(tasks), **spec},
        }
        self.api.create(object_path(VCJOB, self.namespace, "").rstrip("/"), body)

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(object_path(VCJOB, self.namespace, name))
        return found

    def reaches(self, name: str, phase: str, timeout: float = TIMEOUT) -> None:
        """Waits until a vcjob has a phase."""
        self.until(lambda: self.phase(name) == phase, timeout)

    # --- Pods ---
    def pod(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(object_path(POD, self.namespace, name))
        return found

    def pods_of(self, job: str) -> list[dict[str, Any]]:
        path = object_path(POD, self.namespace, "").rstrip("/")
        items: list[dict[str, Any]] = self.api.get(f"{path}?labelSelector={JOB_NAME}={job}")["items"]
        return items

    def log(self, pod: str, container: str = "") -> str:
        return self.kubectl("logs", pod, *([f"--container={container}"] if container else []))

    def marked(self, name: str) -> str:
        """The content of a file in `marks`; "" if there is none."""
        file = self.marks / name
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def command(self, action: str, job: str) -> None:
        """Creates a Command for a vcjob."""
        target = {"apiVersion": VCJOB.api_version, "kind": "Job", "name": job, "uid": self.job(job)["metadata"]["uid"]}
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": "command-"},
            "action": action,
            "target": target,
        }
        self.kubectl("create", "--filename=-", stdin=json.dumps(body))


def container_status(pod: dict[str, Any], kind: str = "containerStatuses", number: int = 0) -> dict[str, Any]:
    """The status of a container."""
    found: dict[str, Any] = pod["status"][kind][number]
    return found


def exit_codes(pods: Sequence[dict[str, Any]]) -> list[int]:
    """The exit codes of the first containers."""
    return [container_status(pod)["state"]["terminated"]["exitCode"] for pod in pods]


def limit_of(pid: int, controller: str, v1: str, v2: str) -> str:
    """The content of a file of the cgroup of a process: `v1` of the hierarchy of the controller, or `v2`."""
    lines = Path(f"/proc/{pid}/cgroup").read_text("ascii").splitlines()
    paths = {name: path for _, names, path in (line.split(":", 2) for line in lines) for name in names.split(",")}
    roots = {name: root for root in cgroup_roots() for name in root.name.split(",")}
    if controller in roots:
        return Path(f"{roots[controller]}{paths[controller]}", v1).read_text("ascii").strip()
    return Path(f"{cgroup_roots()[0]}{paths['']}", v2).read_text("ascii").strip()
