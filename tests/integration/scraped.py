"""All roles with jobs of every kind, in a Prometheus that scrapes them: for the tests and the images of dashboards."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from controlplane.manifests import CHART, NAMESPACE, RELEASE
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from scheduler.api.kinds import NODE, POD, QUEUE, VCJOB, object_path
from scheduler.api.names import ASCEND_910, CARD_QUOTA, QUEUE_NAME, QUEUE_NAME_ANNOTATION
from tests.integration.installation import ROLES, Installation, started_installation
from tests.integration.prometheus import Prometheus
from tests.integration.stage import or_skipped, wait

GPU = "nvidia.com/gpu"
CARD = "NVIDIA-H200"
DEFAULT = "default"
JOBS = object_path(VCJOB, DEFAULT, "").rstrip("/")
DASHBOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (CHART / "dashboards").glob("*.json")}
"""Maps the name of a file to its dashboard."""
_QUEUE_KEYS = f"{QUEUE_NAME_ANNOTATION},{QUEUE_NAME}"
_VARIABLES = {"$__rate_interval": "30s", "$queue": ".*", "$resource": ".*", "$node": ".*"}
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: volcano-py
      containers: [{name: c, image: nginx, resources: {requests: {cpu: 250m, memory: 64Mi}}}]
"""


def with_values(query: str) -> str:
    """The query of a dashboard with a value for each variable."""
    for variable, value in _VARIABLES.items():
        query = query.replace(variable, value)
    return query


def job(name: str, replicas: int, minimum: int, requests: dict[str, str], **more: Any) -> dict[str, Any]:
    """A vcjob. ``more``: annotations of its Pods."""
    container = {"name": "c", "image": "busybox", "resources": {"requests": requests, "limits": requests}}
    annotations = {f"volcano-py.test/{key}": value for key, value in more.items()}
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    spec: dict[str, Any] = {
        "schedulerName": "volcano-py",
        "queue": "research",
        "minAvailable": minimum,
        "maxRetry": 1,
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
    }
    return {"apiVersion": VCJOB.api_version, "kind": "Job", "metadata": {"name": name}, "spec": spec}


def configuration() -> str:
    """The chart's configuration with card quotas that queues borrow from each other."""
    text: str = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["scheduler"]["configuration"]
    configuration = yaml.safe_load(text)
    card_quota = {"name": "capacity-card", "arguments": {"cardBorrowing": True}}
    configuration["tiers"][-1]["plugins"].append(card_quota)
    return yaml.safe_dump(configuration)


def queue(name: str, spec: dict[str, Any], cards: int) -> dict[str, Any]:
    """``cards``: the quota of the card of all nodes with GPUs."""
    metadata = {"name": name, "annotations": {CARD_QUOTA: json.dumps({CARD: cards})}}
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": metadata, "spec": spec}


def create_nodes(installed: Installation) -> None:
    """One node without devices, two nodes with GPUs, and two nodes with NPUs of which one chip is unhealthy."""
    for name, devices in (
        ("cpu", {}),
        ("gpu-0", {GPU: "8"}),
        ("gpu-1", {GPU: "8"}),
        ("npu-0", {ASCEND_910: "8"}),
        ("npu-1", {ASCEND_910: "8"}),
    ):
        amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", **devices}
        metadata: dict[str, Any] = {"name": name}
        if GPU in devices:
            model = {"product": CARD, "count": "8", "memory": "143771"}
            metadata["labels"] = {f"{GPU}.{key}": value for key, value in model.items()}
        if ASCEND_910 in devices:
            metadata["labels"] = {"accelerator-type": "module"}
            metadata["annotations"] = {
                ASCEND_910: ",".join(f"Ascend910-{chip}" for chip in range(7)),
                f"{ASCEND_910}-Unhealthy": "Ascend910-7",
            }
        installed.api.create(NODE.path, {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}})


def create_jobs(installed: Installation, suffix: str) -> None:
    """Jobs with devices that run, complete and fail."""
    for each in (
        job(f"npu{suffix}", 1, 1, {ASCEND_910: "4", "cpu": "1"}),
        job(f"gpu{suffix}", 1, 1, {GPU: "1", "cpu": "1", "memory": "1Gi"}),
        job(f"completes{suffix}", 1, 1, {"cpu": "1"}, outcome="succeed", **{"runs-for": "3s"}),
        job(f"fails{suffix}", 1, 1, {"cpu": "1"}, outcome="fail"),
    ):
        installed.api.create(JOBS, each)


def create_old_pod(installed: Installation) -> None:
    """A Pod with a GPU that another scheduler has bound, and that belongs to no queue."""
    container = {"name": "c", "image": "nginx", "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}}}
    spec = {"schedulerName": "default-scheduler", "nodeName": "gpu-1", "containers": [container]}
    installed.api.create(object_path(POD, DEFAULT, "").rstrip("/"), {"metadata": {"name": "old"}, "spec": spec})


def others(plane: ControlPlane) -> list[dict[str, Any]]:
    """Starts kube-state-metrics. Returns how Prometheus scrapes it and the API server, under the names of jobs that
    Volcano's dashboards select."""
    (port,) = free_ports(1)
    shown = {"labels": "namespaces=[kubernetes.io/metadata.name]", "annotations": f"pods=[{_QUEUE_KEYS}]"}
    with or_skipped():
        plane.start_kube_state_metrics(port, [f"--metric-{what}-allowlist={keys}" for what, keys in shown.items()])
    kubeconfig = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))
    api_server = {
        "scheme": "https",
        "tls_config": {"ca_file": str(plane.authority.path)},
        "authorization": {"credentials": kubeconfig["users"][0]["user"]["token"]},
        "scrape_interval": "5s",
        "scrape_timeout": "5s",
    }
    return [
        {"job_name": "kube-state-metrics", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]},
        {
            "job_name": "kubernetes-apiservers",
            "static_configs": [{"targets": [plane.url.removeprefix("https://")]}],
            **api_server,
        },
    ]


def impatient_alerts(directory: Path) -> Path:
    """The alerting rules of the chart, where alerts that fire after a minute do so after two seconds."""
    file = directory / "impatient-alerts.yaml"
    text = (CHART / "rules" / "volcano-py.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("for: 1m", "for: 2s"), encoding="utf-8")
    return file


@contextmanager
def scraped_installation(directory: Path) -> Iterator[tuple[Installation, Prometheus, float]]:
    """An installed chart, a Prometheus that has scraped all roles while jobs came, and when it began. Skips the test if
    there is no control plane."""
    with started_installation(directory) as installed:
        api = installed.api
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        create_nodes(installed)
        values = directory / "values.yaml"
        values.write_text(yaml.safe_dump({"scheduler": {"configuration": configuration()}}), encoding="utf-8")
        installed.helm("install", RELEASE, CHART, "--set=dashboards.enabled=true", f"--values={values}")
        for role in ROLES:
            installed.start(role)
        targets = {role: installed.roles[role].metrics for role in ROLES}
        binary = installed.plane.binaries / "prometheus"
        rules = [CHART / "rules" / "volcano-dashboards.yaml", impatient_alerts(directory)]
        with Prometheus(binary, directory, targets, more=others(installed.plane), rules=rules) as prometheus:
            began = time.time()

            def has(query: str) -> None:
                """Waits until a query returns data."""
                wait(lambda: prometheus.numbers(query, began, time.time()), 60, lambda: query)

            capability = {"cpu": "64", "memory": "512Gi", GPU: "16", ASCEND_910: "16"}
            api.create(QUEUE.path, queue("research", {"weight": 2, "capability": capability}, 32))
            api.wait(object_path(QUEUE, "", "research"), lambda it: it.get("status", {}).get("state") == "Open", 60)
            api.create(JOBS, job("elastic", 1, 1, {"cpu": "1"}))
            api.create(JOBS, job("no-admission", 4, 4, {ASCEND_910: "8"}))
            api.create(JOBS, job("no-node", 3, 3, {GPU: "5"}))
            installed.plane.kubectl("apply", "--namespace", DEFAULT, "-f", "-", stdin=DEPLOYMENT)
            create_old_pod(installed)
            create_jobs(installed, "-first")
            # A rate needs a scrape before and one after a change.
            for phase in ("completed", "failed"):
                has(f"volcano_job_{phase}_phase_count")
            has("volcano_py_admission_seconds_count")
            api.create(JOBS, job("no-node-either", 3, 3, {GPU: "5"}))
            replicas = json.dumps([{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3}])
            installed.plane.kubectl("patch", "vcjob", "elastic", "-n", DEFAULT, "--type=json", f"--patch={replicas}")
            create_jobs(installed, "-second")
            for phase in ("completed", "failed"):
                has(f'volcano_job_{phase}_phase_count{{job_name=~".*-second"}}')
            has("volcano_job_retry_counts")
            has('increase(volcano_e2e_job_scheduling_duration{job_name="elastic"}[1h]) != 0')
            yield installed, prometheus, began
