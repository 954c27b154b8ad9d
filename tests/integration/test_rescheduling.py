"""Faults of nodes, chips and Pods on a real API server, with the rights that the chart grants, while the scheduler and
the controllers are killed: no job is lost, ranks are kept, restarts and retries are counted exactly.

``LIVE_FAULTS`` in the environment sets the number of faults.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controlplane.run import ControlPlane
from scheduler.api.names import ASCEND_910, HCCL_RANK_INDEX, SIGNING_KEY_SECRET, SYSTEM_NAMESPACE
from tests.integration.rights import account
from tests.integration.stage import Role, a_control_plane, wait
from tests.unit.plugins.ascend.chips import names

pytestmark = pytest.mark.controlplane

FAULTS = int(os.environ.get("LIVE_FAULTS", "6"))
RETRIES = 50
ASCEND = "ascend"
"""The AscendJob; the others are vcjobs."""
JOBS = {
    "force": {"fault-scheduling": "force"},
    "grace": {"fault-scheduling": "grace"},
    "single": {"fault-scheduling": "force", "process-recover-enable": "on"},
    ASCEND: {"fault-scheduling": "grace"},
}
CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: volcano-npu_v6.0.0}, {name: priority}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
configurations:
- name: init-params
  arguments: {useClusterInfoManager: "false", prefer-previous-node: "true", grace-over-time: "20"}
"""
BATCH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
ACJOBS = "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/{}/configmaps"
NODES = [f"n{i}" for i in range(12)]


class Cluster:
    """Twelve servers of eight chips, four jobs of two Pods, and two programs that are killed."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._directory = directory
        self.api = plane.admin
        self._configuration = directory / "scheduler.yaml"
        self._configuration.write_text(CONFIGURATION, encoding="utf-8")
        self._accounts = {role: account(plane, role) for role in ("scheduler", "controllers")}
        secret = {"metadata": {"name": SIGNING_KEY_SECRET}}
        self.api.create(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/secrets", secret)
        for node in NODES:
            amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", ASCEND_910: "8"}
            meta = {"name": node, "labels": {"kubernetes.io/hostname": node, "accelerator": "huawei-Ascend910"}}
            self.api.create(
                "/api/v1/nodes", {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}}
            )
            metadata = {"name": f"mindx-dl-deviceinfo-{node}"}
            self.api.create(MAPS.format("kube-system"), {"metadata": metadata, "data": self._lists([])})
        self._roles = {role: self._start(role) for role in ("scheduler", "controllers")}
        for name, labels in JOBS.items():
            self._create_job(name, {**labels, "fault-retry-times": str(RETRIES)})

    def _start(self, role: str) -> Role:
        options = ["--leader-elect=false"]
        if role == "scheduler":
            options += [f"--scheduler-conf={self._configuration}", "--schedule-period=200ms"]
        return Role(role, self._accounts[role], self._directory, *options)

    def kill(self, role: str) -> None:
        self._roles[role].kill()
        self._roles[role] = self._start(role)

    def stop(self) -> str:
        """Stops the programs. Returns the end of their logs."""
        for role in self._roles.values():
            role.stop()
        return "\n".join(role.log.read_text(encoding="utf-8")[-3000:] for role in self._roles.values())

    def _create_job(self, name: str, labels: dict[str, str]) -> None:
        amounts = {"cpu": "1", ASCEND_910: "8"}
        container = {"name": "ascend", "image": "x", "resources": {"limits": amounts, "requests": amounts}}
        spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
        policies = [] if "process-recover-enable" in labels else [{"event": "PodEvicted", "action": "RestartJob"}]
        template = {"metadata": {"labels": labels}, "spec": {**spec, "schedulerName": "volcano-py"}}
        if name == ASCEND:
            metadata = {"name": name, "labels": {"framework": "pytorch", **labels}}
            roles = {role: {"restartPolicy": "Never", "template": template} for role in ("Master", "Worker")}
            job = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "metadata": metadata}
            self.api.create(ACJOBS, {**job, "spec": {"replicaSpecs": roles}})
            return
        self.api.create(
            BATCH,
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "metadata": {"name": name, "labels": labels},
                "spec": {
                    "schedulerName": "volcano-py",
                    "minAvailable": 2,
                    "maxRetry": 1000,
                    "policies": policies,
                    "tasks": [{"name": "t", "replicas": 2, "template": template}],
                },
            },
        )

    # --- faults ---
    @staticmethod
    def _lists(broken: list[int]) -> dict[str, str]:
        lists = {ASCEND_910: names(chip for chip in range(8) if chip not in broken)}
        lists |= {f"{ASCEND_910}-Unhealthy": names(broken), f"{ASCEND_910}-Fault": "[]"}
        return {"DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": lists, "UpdateTime": int(time.time())}})}

    def chips(self, node: str, broken: list[int]) -> None:
        self.api.patch(f"{MAPS.format('kube-system')}/mindx-dl-deviceinfo-{node}", {"data": self._lists(broken)})

    def unhealthy(self, node: str) -> None:
        report = json.dumps({"NodeInfo": {"FaultDevList": [], "NodeStatus": "UnHealthy"}})
        metadata = {"name": f"mindx-dl-nodeinfo-{node}", "labels": {"mx-consumer-cim": "true"}}
        self.api.create(MAPS.format("mindx-dl"), {"metadata": metadata, "data": {"NodeInfo": report}})

    def repair(self, node: str, kind: str) -> None:
        if kind == "chip":
            self.chips(node, [])
        elif kind == "node":
            self.api.delete(f"{MAPS.format('mindx-dl')}/mindx-dl-nodeinfo-{node}")

    # --- what there is ---
    def pods(self, job: str) -> list[dict[str, Any]]:
        return [pod for pod in self.api.get(PODS)["items"] if pod["metadata"]["name"].startswith(f"{job}-")]

    def running(self, job: str) -> bool:
        pods = [pod for pod in self.pods(job) if not pod["metadata"].get("deletionTimestamp")]
        return [pod["status"].get("phase") for pod in pods] == ["Running"] * 2

    def state(self) -> dict[str, Any]:
        data = self.api.get(f"{MAPS.format('volcano-system')}/vcjob-fault-npu-cm")["data"]
        return {key: json.loads(text or "{}") for key, text in data.items()}

    def history(self) -> dict[str, int]:
        """Maps each job to its restarts."""
        data = self.api.get(f"{MAPS.format('mindx-dl')}/job-reschedule-reason")["data"]
        found = json.loads(data["recent-reschedule-records"] or "{}")
        return {_job(key): each["TotalRescheduleTimes"] for key, each in found.items()}

    def condition(self) -> str:
        """The newest condition of the AscendJob."""
        return str(self.api.get(f"{ACJOBS}/{ASCEND}")["status"]["conditions"][-1]["type"])

    def settled(self, job: str, restarts: int) -> bool:
        """Whether all Pods of a job run after this number of restarts."""
        recorded = {_job(key): each for key, each in self.state()["restarts"].items()}.get(job, {})
        phases = [
            (g.get("status") or {}).get("phase")
            for g in self.api.get(GROUPS)["items"]
            if g["metadata"]["name"].startswith(job)
        ]
        done = recorded.get("number", 0) == restarts and not recorded.get("pods")
        return done and self.running(job) and phases == ["Running"]


def _job(key: str) -> str:
    return key.partition("/")[2].partition("-")[0]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_control_plane() as plane:
        plane.start_kwok()
        plane.start_controller_manager()
        made = Cluster(plane, tmp_path)
        try:
            yield made
        finally:
            print(made.stop())


def test_jobs_survive_faults_on_a_real_server_while_programs_are_killed(cluster: Cluster) -> None:
    random = Random(7)
    restarts, failures = Counter[str](), Counter[str]()
    for job in JOBS:
        wait(lambda job=job: cluster.running(job), 60)  # type: ignore[misc]
    wait(lambda: len(cluster.state()["remain-retry-times"]) == len(JOBS), 30)
    injected = 0
    while injected < FAULTS:
        broken: list[tuple[str, str]] = []
        for job in JOBS:
            pod = random.choice(cluster.pods(job))
            kind, node = random.choice(["chip", "node", "pod"]), pod["spec"]["nodeName"]
            injected += 1
            restarts[job] += 1
            if kind == "chip":
                cluster.chips(node, [random.randrange(8)])
            elif kind == "node":
                cluster.unhealthy(node)
            else:
                failures[job] += 1
                ended = {"name": "ascend", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
                state = {"terminated": {"exitCode": 1, "reason": "Error"}}
                body = {"status": {"phase": "Failed", "containerStatuses": [{**ended, "state": state}]}}
                cluster.api.patch(f"{PODS}/{pod['metadata']['name']}/status", body)
            broken.append((node, kind))
        for _ in range(random.randrange(3)):
            time.sleep(random.random())
            cluster.kill(random.choice(["scheduler", "controllers"]))
        for job in JOBS:
            wait(lambda job=job: cluster.settled(job, restarts[job]), 90, lambda: cluster.state()["restarts"])  # type: ignore[misc]
        for node, kind in broken:
            cluster.repair(node, kind)
        faulty = {node for node, kind in broken if kind != "pod"}
        assert not faulty & {pod["spec"]["nodeName"] for job in JOBS for pod in cluster.pods(job)}
    wait(lambda: cluster.history() == dict(restarts), 30, cluster.history)
    left = {_job(key): each["Times"] for key, each in cluster.state()["remain-retry-times"].items()}
    assert left == {job: RETRIES - failures[job] for job in JOBS}
    for job in JOBS:
        ranks = {pod["metadata"]["name"]: pod["metadata"]["annotations"][HCCL_RANK_INDEX] for pod in cluster.pods(job)}
        first, second = ("master-0", "worker-0") if job == ASCEND else ("t-0", "t-1")
        assert ranks == {f"{job}-{first}": "0", f"{job}-{second}": "1"}
    versions = {pod["metadata"]["labels"]["version"] for pod in cluster.pods(ASCEND)}
    assert versions == {str(restarts[ASCEND])}
    wait(lambda: cluster.condition() == "Running", 30, cluster.condition)
