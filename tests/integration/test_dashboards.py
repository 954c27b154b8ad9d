"""Every query of a dashboard or an alert of the chart, and those of Volcano's dashboards, in a Prometheus that scrapes
all roles; and the alerts with invented series, as `promtool test rules` runs them."""

import json
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane import build
from controlplane.manifests import CHART, NAMESPACE, RELEASE
from scheduler.api.kinds import NODE, QUEUE, VCJOB, object_path
from scheduler.api.names import ASCEND_910
from tests.integration.installation import ROLES, Installation, started_installation
from tests.integration.prometheus import Prometheus
from tests.integration.stage import or_skipped, wait

pytestmark = pytest.mark.controlplane

RULES = CHART / "rules" / "volcano-py.yaml"
UNIT_TESTS = Path(__file__).with_name("alerts.test.yaml")
PUBLISHED = yaml.safe_load(Path(__file__).with_name("volcano_dashboards.yaml").read_text(encoding="utf-8"))
DASHBOARDS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in (CHART / "dashboards").glob("*.json")}
ALERTS = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
VARIABLES = {"$__rate_interval": "30s", "$queue": ".*", "$resource": ".*", "$node": ".*"}
THRESHOLD = re.compile(r" (?:[<>]=?|==) [0-9.]+")
METRIC = re.compile(r"\bvolcano_[a-zA-Z0-9_]+")
GPU = "nvidia.com/gpu"
DEFAULT = "default"
JOBS = object_path(VCJOB, DEFAULT, "").rstrip("/")


def queries() -> dict[str, str]:
    """Name -> query with example values of the variables."""
    found = {
        f"{name}/{panel['title']}/{target['refId']}": target["expr"]
        for name, dashboard in DASHBOARDS.items()
        for panel in dashboard["panels"]
        for target in panel.get("targets", ())
    }
    for name, dashboard in DASHBOARDS.items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found[f"{name}/${variable['name']}"] = variable["definition"]
    found |= {f"Volcano/{title}/{i}": query for title, those in PUBLISHED.items() for i, query in enumerate(those)}
    found |= {f"alerts/{name}": THRESHOLD.sub("", expression) for name, expression in ALERTS.items()}
    for variable, value in VARIABLES.items():
        found = {name: query.replace(variable, value) for name, query in found.items()}
    return found


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


def create_nodes(installed: Installation) -> None:
    """One without devices, two with GPUs, and two with NPUs of which a chip is broken."""
    for name, devices in (
        ("cpu", {}),
        ("gpu-0", {GPU: "8"}),
        ("gpu-1", {GPU: "8"}),
        ("npu-0", {ASCEND_910: "8"}),
        ("npu-1", {ASCEND_910: "8"}),
    ):
        amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", **devices}
        metadata: dict[str, Any] = {"name": name}
        if ASCEND_910 in devices:
            metadata["labels"] = {"accelerator-type": "module"}
            metadata["annotations"] = {
                ASCEND_910: ",".join(f"Ascend910-{chip}" for chip in range(7)),
                f"{ASCEND_910}-Unhealthy": "Ascend910-7",
            }
        installed.api.create(NODE.path, {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}})


def create_jobs(installed: Installation, suffix: str) -> None:
    """Jobs that run with devices, complete and fail."""
    for each in (
        job(f"npu{suffix}", 1, 1, {ASCEND_910: "4", "cpu": "1"}),
        job(f"gpu{suffix}", 1, 1, {GPU: "1", "cpu": "1", "memory": "1Gi"}),
        job(f"completes{suffix}", 1, 1, {"cpu": "1"}, outcome="succeed"),
        job(f"fails{suffix}", 1, 1, {"cpu": "1"}, outcome="fail"),
    ):
        installed.api.create(JOBS, each)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """A Prometheus that has scraped all roles while jobs came, and when it began."""
    with started_installation(tmp_path_factory.mktemp("dashboards")) as installed:
        api = installed.api
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        create_nodes(installed)
        installed.helm("install", RELEASE, CHART, "--set=dashboards.enabled=true")
        for role in ROLES:
            installed.start(role)
        directory = tmp_path_factory.mktemp("prometheus")
        targets = {role: installed.roles[role].metrics for role in ROLES}
        with Prometheus(installed.plane.binaries / "prometheus", directory, targets) as prometheus:
            began = time.time()

            def has(query: str) -> None:
                """Waits until a query returns data."""
                wait(lambda: prometheus.numbers(query, began, time.time()), 60, lambda: query)

            queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "research"}}
            capability = {"cpu": "64", "memory": "512Gi", GPU: "16", ASCEND_910: "16"}
            api.create(QUEUE.path, {**queue, "spec": {"weight": 2, "capability": capability}})
            api.wait(object_path(QUEUE, "", "research"), lambda it: it.get("status", {}).get("state") == "Open", 60)
            api.create(JOBS, job("elastic", 1, 1, {"cpu": "1"}))
            api.create(JOBS, job("no-admission", 4, 4, {ASCEND_910: "8"}))
            api.create(JOBS, job("no-node", 3, 3, {GPU: "5"}))
            installed.plane.kubectl("apply", "--namespace", DEFAULT, "-f", "-", stdin=DEPLOYMENT)
            create_jobs(installed, "-first")
            # A rate needs a scrape before and one after a change.
            for phase in ("completed", "failed"):
                has(f"volcano_job_{phase}_phase_count")
            api.create(JOBS, job("no-node-either", 3, 3, {GPU: "5"}))
            replicas = json.dumps([{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3}])
            installed.plane.kubectl("patch", "vcjob", "elastic", "-n", DEFAULT, "--type=json", f"--patch={replicas}")
            create_jobs(installed, "-second")
            for phase in ("completed", "failed"):
                has(f'volcano_job_{phase}_phase_count{{job_name=~".*-second"}}')
            has("volcano_job_retry_counts")
            has('increase(volcano_e2e_job_scheduling_duration{job_name=~"elastic-.*"}[1h]) != 0')
            yield prometheus, began


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


def test_every_query_returns_data(scraped: tuple[Prometheus, float]) -> None:
    prometheus, began = scraped
    known = prometheus.names()
    empty: dict[str, str] = {}
    unknown: dict[str, set[str]] = {}
    for name, query in queries().items():
        variable = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
        if variable:
            found: Sequence[object] = prometheus.get(f"label/{variable[2]}/values", **{"match[]": variable[1]})
        else:
            found = prometheus.numbers(query, began, time.time())
        if not found:
            empty[name] = query
        if missing := set(METRIC.findall(query)) - known:
            unknown[name] = missing
    assert not empty
    assert not unknown


def promtool(*arguments: str | Path) -> str:
    with or_skipped():
        binaries = build.ensure()
    done = subprocess.run([binaries / "promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid() -> None:
    assert f"SUCCESS: {len(ALERTS)} rules found" in promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    cases = yaml.safe_load(UNIT_TESTS.read_text(encoding="utf-8"))
    fires: dict[str, set[bool]] = {name: set() for name in ALERTS}
    for case in cases["tests"]:
        for expectation in case["alert_rule_test"]:
            fires[expectation["alertname"]].add(bool(expectation["exp_alerts"]))
    assert all(both == {True, False} for both in fires.values()), fires
    text = UNIT_TESTS.read_text(encoding="utf-8").replace("RULES", str(RULES))
    file = tmp_path / "alerts.yaml"
    file.write_text(text, encoding="utf-8")
    promtool("test", "rules", file)
