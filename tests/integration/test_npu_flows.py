"""From a vcjob, an AscendJob or a Deployment to Pods that run with NPUs, on a real API server: the objects after each
step.

The steps are those of MindCluster's documentation: the device plugin reports chips, a controller creates PodGroup and
Pods, the scheduler writes the chips of each Pod to its annotations, and the device plugin mounts them and reports them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controlplane.run import ControlPlane
from scheduler.api.names import (
    ASCEND_310P,
    ASCEND_710,
    ASCEND_910,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    DISTRIBUTED_JOB,
    GROUP_NAME,
    HCCL_RANK_INDEX,
    NPU_CORE,
    PREDICATE_TIME,
)
from scheduler.cli.main import main
from scheduler.playground.objects import RUNS_FOR
from tests.integration.playground import Playground, playing
from tests.integration.rights import account
from tests.integration.stage import GROUPS, Namespace, a_control_plane, running

pytestmark = pytest.mark.controlplane

ACJOBS = "/apis/mindxdl.gitee.com/v1"
BATCH = "/apis/batch.volcano.sh/v1alpha1"
CONSUMED = "18446744073709551615"
CONFIGURATION = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: gang
  - name: ascend
  - name: priority
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
configurations:
- name: init-params
  arguments: {"presetVirtualDevice": "%s", "grace-over-time": "900"}
"""
Raw = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A way to use chips."""

    family: str
    resource: str
    amount: int
    """The requests of each of two Pods."""
    labels: Mapping[str, str]
    division: str = ""

    @property
    def chips(self) -> str:
        """The resource of the chips themselves."""
        return {"310p-8": ASCEND_310P, "710-8": ASCEND_710}.get(self.family, ASCEND_910)


WHOLE = Way("910b-8", ASCEND_910, 4, {"ring-controller.atlas": "ascend-910b"})
STATIC = Way("910-8", f"{ASCEND_910}-2c", 1, {"ring-controller.atlas": "ascend-910"}, "2c")
DYNAMIC = Way("310p-8", NPU_CORE, 2, {"ring-controller.atlas": "ascend-310P"}, "dynamic")
WAYS = [pytest.param(WHOLE, id="whole-chips"), pytest.param(STATIC, id="static"), pytest.param(DYNAMIC, id="dynamic")]


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """The cluster runs without KWOK: the playground simulates kubelets."""
    with a_control_plane() as found:
        found.start_controller_manager()
        found.admin.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})  # of the scheduler
        yield found


class Flow(Namespace):
    """A namespace beside a running playground of one family, with scheduler and controllers."""

    def __init__(self, plane: ControlPlane, way: Way) -> None:
        super().__init__(plane)
        self.way = way
        self.playground: Playground

    @contextmanager
    def running(self, directory: Path, nodes: int = 1) -> Iterator[None]:
        """Waits until the device plugins have reported (steps 1 and 2), then runs the nodes for the duration of the
        block."""
        way = self.way
        configuration = directory / "scheduler.conf"
        configuration.write_text(CONFIGURATION % str(way.division not in ("", "dynamic")).lower(), encoding="utf-8")
        divided = [f"--vnpu={way.division}"] if way.division else []
        with ExitStack() as stack:
            self.playground = stack.enter_context(
                playing(self.plane, directory, f"--nodes={nodes}", f"--family={way.family}", *divided)
            )
            self.nodes = [f"npu-{way.family}-{i}" for i in range(nodes)]
            self.wait(lambda: all(self.playground.devices(node) for node in self.nodes))
            stack.enter_context(self.scheduled(directory, f"--scheduler-conf={configuration}"))
            stack.enter_context(
                running("controllers", account(self.plane, "controllers"), directory, "--leader-elect=false")
            )
            try:
                yield
            finally:
                self.emptied()

    def emptied(self) -> None:
        """Deletes the jobs of the namespace, which would get Pods on the nodes of the next test."""
        apps = "/apis/apps/v1"
        for group, kind in ((BATCH, "jobs"), (ACJOBS, "ascendjobs"), (apps, "deployments")):
            self.api.delete(f"{group}/namespaces/{self.name}/{kind}?propagationPolicy=Background")
        self.wait(lambda: not self.pods())

    def template(self, **labels: str) -> Raw:
        """The template of a Pod."""
        amounts = {"cpu": "1", self.way.resource: str(self.way.amount)}
        kind = {"accelerator-type": "module-910b-8"} if self.way.family == WHOLE.family else {}
        container = {"name": "ascend", "image": "registry.example/train:1"}
        spec = {
            "schedulerName": "volcano-py",
            "nodeSelector": kind,
            "containers": [{**container, "resources": {"requests": amounts, "limits": amounts}}],
        }
        return {"metadata": {"labels": {**self.way.labels, **labels}}, "spec": spec}

    def vcjob(self, name: str, replicas: int, **labels: str) -> None:
        template = self.template()
        template["spec"]["restartPolicy"] = "Never"
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {**self.way.labels, **labels}},
            "spec": {
                "schedulerName": "volcano-py",
                "minAvailable": replicas,
                "plugins": {"env": [], "svc": []},
                "policies": [{"event": "PodFailed", "action": "Ignore"}],
                "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
            },
        }
        self.api.create(f"{BATCH}/namespaces/{self.name}/jobs", body)

    def acjob(self, name: str, **labels: str) -> None:
        """A PyTorch job of a Master and a Worker."""
        role = {"replicas": 1, "restartPolicy": "Never", "template": self.template()}
        body = {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "metadata": {"name": name, "labels": {"framework": "pytorch", **self.way.labels, **labels}},
            "spec": {
                "schedulerName": "volcano-py",
                "runPolicy": {"schedulingPolicy": {"minAvailable": 2, "queue": "default"}},
                "replicaSpecs": {"Master": role, "Worker": role},
            },
        }
        self.api.create(f"{ACJOBS}/namespaces/{self.name}/ascendjobs", body)

    def mindspore_job(self, name: str, seconds: int) -> None:
        """A MindSpore job of a Scheduler without chips, which runs for ever, and a Worker, which ends. Its success
        policy is AllWorkers."""
        scheduler, worker = self.template(), self.template()
        amounts = {"cpu": "1"}
        scheduler["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        worker["metadata"]["annotations"] = {RUNS_FOR: f"{seconds}s"}
        body = {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "metadata": {"name": name, "labels": {"framework": "mindspore", **self.way.labels}},
            "spec": {
                "schedulerName": "volcano-py",
                "successPolicy": "AllWorkers",
                "replicaSpecs": {
                    role: {"replicas": 1, "restartPolicy": "Never", "template": template}
                    for role, template in (("Scheduler", scheduler), ("Worker", worker))
                },
            },
        }
        self.api.create(f"{ACJOBS}/namespaces/{self.name}/ascendjobs", body)

    def change(self, acjob: str, **spec: Any) -> None:
        self.api.patch(f"{ACJOBS}/namespaces/{self.name}/ascendjobs/{acjob}", {"spec": spec})

    def scale(self, acjob: str, workers: int) -> None:
        """Changes the number of workers, and the smallest number of Pods with it."""
        policy = {"schedulingPolicy": {"minAvailable": 1 + workers}}
        self.change(acjob, replicaSpecs={"Worker": {"replicas": workers}}, runPolicy=policy)

    def status(self, acjob: str) -> Raw:
        """The status of an AscendJob."""
        return self.api.get(f"{ACJOBS}/namespaces/{self.name}/ascendjobs/{acjob}").get("status") or {}

    def states(self, acjob: str) -> list[str]:
        """The conditions of an AscendJob that are True."""
        return [c["type"] for c in self.status(acjob).get("conditions", ()) if c["status"] == "True"]

    def suspend(self, acjob: str, value: bool) -> None:
        self.change(acjob, runPolicy={"suspend": value})

    def deployment(self, name: str, replicas: int, **more: str) -> None:
        labels = {"app": name, "deploy-name": name, **more}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": self.template(**labels)}
        metadata = {"name": name, "labels": {**self.way.labels, **labels}}
        self.api.create(f"/apis/apps/v1/namespaces/{self.name}/deployments", {"metadata": metadata, "spec": spec})

    def urgent(self, name: str, amount: int) -> None:
        """A Pod of the PriorityClass with the name of the namespace."""
        spec = self.template()["spec"] | {"priorityClassName": self.name}
        resources = {"requests": {"cpu": "1", self.way.resource: str(amount)}}
        resources["limits"] = resources["requests"]
        spec["containers"] = [spec["containers"][0] | {"resources": resources}]
        metadata = {"name": name, "labels": dict(self.way.labels)}
        self.api.create(f"{self.path}/pods", {"metadata": metadata, "spec": spec})

    def events(self) -> list[Raw]:
        items: list[Raw] = self.api.get(f"{self.path}/events")["items"]
        return items

    def rank_table(self, job: str) -> None:
        """The ConfigMap that a user creates for the rank table of a job."""
        metadata = {"name": f"rings-config-{job}", "labels": dict(self.way.labels)}
        self.api.create(f"{self.path}/configmaps", {"metadata": metadata, "data": {"hccl.json": ""}})

    # --- what has become of them ---
    def groups(self) -> list[Raw]:
        items: list[Raw] = self.api.get(f"{GROUPS}/namespaces/{self.name}/podgroups")["items"]
        return items

    def phase(self) -> str:
        """The phase of the only PodGroup; "" if there is none yet."""
        return str((self.groups()[0].get("status") or {}).get("phase")) if self.groups() else ""

    def all_run(self, number: int) -> bool:
        pods = self.pods()
        real = [ASCEND_REAL in (pod["metadata"].get("annotations") or {}) for pod in pods]
        return [pod["status"].get("phase") for pod in pods] == ["Running"] * number and all(real)

    def table(self, job: str) -> Raw:
        """The rank table of a job; empty before it is written."""
        found: Raw = json.loads(self.api.get(f"{self.path}/configmaps/rings-config-{job}")["data"]["hccl.json"] or "{}")
        return found

    def table_of_pods(self, *, by_host: bool) -> Raw:
        """The rank table that follows from the annotations of the Pods. ``by_host``: every Pod has a node of its
        own."""
        servers = []
        for pod in sorted(self.pods(), key=lambda pod: int(annotations(pod)[HCCL_RANK_INDEX])):
            configuration = json.loads(annotations(pod)[ASCEND_910_CONFIGURATION])
            first = int(annotations(pod)[HCCL_RANK_INDEX]) * len(configuration["devices"])
            servers.append(
                {
                    "server_id": pod["status"]["hostIP"] if by_host else pod["metadata"]["uid"],
                    "host_ip": pod["status"]["hostIP"],
                    "container_ip": pod["status"]["podIP"],
                    "device": [
                        {key: device[key] for key in ("device_id", "device_ip")} | {"rank_id": str(first + i)}
                        for i, device in enumerate(configuration["devices"])
                    ],
                }
            )
        head = {"status": "completed", "version": "1.0", "server_count": str(len(servers))}
        return {**head, "server_list": servers}

    def cluster_info(self, node: str) -> Raw:
        """The report of ClusterD about the devices of a node."""
        data = self.api.get("/api/v1/namespaces/mindx-dl/configmaps/cluster-info-device-0")["data"]
        found: Raw = json.loads(data["cluster-info-device-0"]).get(f"mindx-dl-deviceinfo-{node}", {})
        return found


def annotations(pod: Raw) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"]["annotations"]
    return found


def check_devices(flow: Flow) -> None:
    """Checks the annotations that scheduler and device plugin wrote to the Pods (steps 6 and 7), and the following
    reports."""
    way, pods = flow.way, flow.pods()
    assert not [news for news in flow.playground.news() if news["kind"] == "error" or "predicate-time" in news["text"]]
    mounted = [name for pod in pods for name in annotations(pod)[ASCEND_REAL].split(",")]
    assert len(set(mounted)) == len(mounted)
    for pod in pods:
        found = annotations(pod)
        assert found[DISTRIBUTED_JOB] == "true"
        if way is WHOLE:
            assert found[ASCEND_REAL] == found[ASCEND_910]
            assert found[PREDICATE_TIME] == CONSUMED
            configuration = json.loads(found[ASCEND_910_CONFIGURATION])
            assert [f"Ascend910-{device['device_id']}" for device in configuration["devices"]] == found[
                ASCEND_910
            ].split(",")
            assert configuration["server_id"] == pod["metadata"]["uid"]
            assert configuration["host_ip"] == pod["status"]["hostIP"]
        elif way is STATIC:
            assert found[ASCEND_REAL].startswith("Ascend910-2c-")
            assert json.loads(found[ASCEND_910_CONFIGURATION])["devices"][0]["device_ip"] == "127.0.0.1"
        else:
            chip, _, template = found[NPU_CORE].partition("-")
            assert template == "vir02_1c"
            assert found[ASCEND_REAL].startswith("Ascend310P-2c.1cpu-")
            assert found[ASCEND_REAL].rpartition("-")[2].partition("_")[0] == chip
            assert found[PREDICATE_TIME] == CONSUMED
    assert sorted(annotations(pod)[HCCL_RANK_INDEX] for pod in pods) == ["0", "1"]
    node = flow.nodes[0]
    key = way.resource if way is not DYNAMIC else way.chips
    used = set(mounted) if way is not DYNAMIC else {f"Ascend310P-{annotations(pod)[NPU_CORE][0]}" for pod in pods}
    flow.wait(lambda: used.isdisjoint(flow.playground.devices(node)[key].split(",")))
    flow.wait(lambda: flow.cluster_info(node).get("DeviceList") == flow.playground.devices(node))


def run(flow: Flow, name: str, create: Callable[[], None], owner: str) -> Raw:
    """Creates a workload of two Pods, with the ConfigMap of its rank table, and checks its devices and this table once
    it runs. Returns its PodGroup, which an ``owner`` of this kind has."""
    flow.rank_table(name)
    create()
    flow.wait(lambda: flow.all_run(2))
    flow.wait(lambda: flow.phase() == "Running")
    (group,) = flow.groups()
    assert [each["kind"] for each in group["metadata"]["ownerReferences"]] == [owner]
    check_devices(flow)
    check_table(flow, name)
    return group


def check_table(flow: Flow, name: str) -> None:
    """The rank table of Pods with whole chips that share a node."""
    if flow.way is WHOLE:
        flow.wait(lambda: flow.table(name) == flow.table_of_pods(by_host=False))


@pytest.mark.parametrize("way", WAYS)
def test_a_vcjob_gets_its_pods_when_there_is_room_and_they_run_with_their_devices(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    flow = Flow(plane, way)
    with flow.running(tmp_path):
        node = flow.api.get(f"/api/v1/nodes/{flow.nodes[0]}")
        assert int(node["status"]["allocatable"][way.resource]) >= 2 * way.amount
        assert json.loads(node["metadata"]["annotations"]["baseDeviceInfos"])
        # No chip works: the PodGroup exists, and the controller creates no Pod.
        broken = [f"--chip={chip}" for chip in range(8)]
        flow.playground.command("fail", flow.nodes[0], *broken)
        flow.wait(lambda: flow.playground.devices(flow.nodes[0])[way.chips] == "")
        flow.rank_table("train")
        flow.vcjob("train", 2)
        flow.wait(lambda: flow.phase() == "Pending")
        assert flow.groups()[0]["spec"]["minResources"][way.resource] == str(2 * way.amount)
        assert not flow.pods()
        # They work again: the PodGroup is admitted, Pods are created and bound, and their devices are mounted.
        flow.playground.command("recover", flow.nodes[0])
        flow.wait(lambda: flow.all_run(2))
        flow.wait(lambda: flow.phase() == "Running")
        check_devices(flow)
        ranks = {pod["metadata"]["name"]: annotations(pod)[HCCL_RANK_INDEX] for pod in flow.pods()}
        assert ranks == {"train-worker-0": "0", "train-worker-1": "1"}
        check_table(flow, "train")
        check_fault(flow, "train")


def check_fault(flow: Flow, job: str) -> None:
    """A chip breaks under the first Pod of a vcjob, which does not restart after faults: Events and a condition."""
    pod = flow.pods()[0]
    prefix = flow.way.chips.partition("/")[2]
    first = annotations(pod)[ASCEND_REAL].split(",")[0]
    chip = annotations(pod)[NPU_CORE][0] if flow.way is DYNAMIC else first.rpartition("-")[2]
    flow.playground.command("fail", flow.nodes[0], "--chip", chip)
    flow.wait(lambda: "DeviceUnhealthy" in device_condition(flow))
    name, node = pod["metadata"]["name"], flow.nodes[0]
    assert f"{prefix}-{chip} of node {node} is unhealthy (Pod {name})" in device_condition(flow)

    def kinds() -> Counter[str]:
        found = [each for place in (flow.name, "default") for each in events(flow, place)]
        about = {each["involvedObject"]["uid"]: each["involvedObject"]["kind"] for each in found}
        ours = {flow.api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"], pod["metadata"]["uid"]}
        ours |= {group["metadata"]["uid"] for group in flow.groups()}
        ours |= {owner["uid"] for group in flow.groups() for owner in group["metadata"]["ownerReferences"]}
        return Counter(kind for uid, kind in about.items() if uid in ours)

    flow.wait(lambda: set(kinds()) == {"Pod", "PodGroup", "Job", "Node"})
    line = ["job", "view", job, "--kubeconfig", str(flow.plane.kubeconfig), "-n", flow.name]
    assert f"Device Fault:       {prefix}-{chip}" in CliRunner().invoke(main, line, prog_name="volcano-py").stdout
    flow.playground.command("recover", node)
    flow.wait(lambda: "DevicesHealthy" in device_condition(flow))
    assert all(each["count"] == 1 for each in events(flow, flow.name))
    assert [pod["metadata"]["uid"]] == [each["metadata"]["uid"] for each in flow.pods()][:1]


def device_condition(flow: Flow) -> str:
    """The reason and message of the condition about failed devices."""
    conditions = (flow.groups()[0].get("status") or {}).get("conditions") or ()
    return "".join(f"{c['reason']} {c.get('message', '')}" for c in conditions if c["type"] == "DeviceUnhealthy")


def events(flow: Flow, namespace: str) -> list[Raw]:
    """The Events about failed devices."""
    items: list[Raw] = flow.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return [each for each in items if each["reason"] == "DeviceUnhealthy"]


@pytest.mark.parametrize("way", WAYS)
def test_the_pods_of_a_deployment_get_one_podgroup_and_run_with_their_devices(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    flow = Flow(plane, way)
    with flow.running(tmp_path):
        group = run(flow, "serve", lambda: flow.deployment("serve", 2), "ReplicaSet")
        assert group["spec"]["minMember"] == 1
        assert group["spec"]["minResources"][way.resource] == str(way.amount)
        assert {annotations(pod)[GROUP_NAME] for pod in flow.pods()} == {group["metadata"]["name"]}


@pytest.mark.parametrize("way", WAYS)
def test_an_acjob_gets_its_objects_and_its_pods_run_with_their_devices(
    way: Way, plane: ControlPlane, tmp_path: Path
) -> None:
    flow = Flow(plane, way)
    with flow.running(tmp_path):
        group = run(flow, "train", lambda: flow.acjob("train"), "AscendJob")
        flow.wait(lambda: flow.states("train") == ["Created", "Running"])
        assert group["spec"]["minTaskMember"] == {"master": 1, "worker": 1}
        assert group["spec"]["minResources"][way.resource] == str(2 * way.amount)
        pods = {pod["metadata"]["name"]: pod for pod in flow.pods()}
        assert {name: annotations(pod)[HCCL_RANK_INDEX] for name, pod in pods.items()} == {
            "train-master-0": "0",
            "train-worker-0": "1",
        }
        service = flow.api.get(f"{flow.path}/services/train-master-0")
        variables = {v["name"]: v.get("value") for v in pods["train-worker-0"]["spec"]["containers"][0]["env"]}
        assert (variables["MASTER_ADDR"], variables["RANK"]) == (service["spec"]["clusterIP"], "1")


def test_a_running_acjob_is_scaled_and_its_pod_group_and_rank_table_follow(plane: ControlPlane, tmp_path: Path) -> None:
    flow = Flow(plane, Way("910b-8", ASCEND_910, 2, WHOLE.labels))
    with flow.running(tmp_path):
        flow.rank_table("train")
        flow.acjob("train")
        flow.wait(lambda: flow.all_run(2))
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=False))
        before = {pod["metadata"]["uid"] for pod in flow.pods()}
        for workers in (3, 1):
            flow.scale("train", workers)
            flow.wait(lambda: flow.all_run(1 + workers))  # noqa: B023
            flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=False))
            assert flow.table("train")["server_count"] == str(1 + workers)
            (group,) = flow.groups()
            assert group["spec"]["minMember"] == 1 + workers
            assert group["spec"]["minTaskMember"] == {"master": 1, "worker": workers}
            assert group["spec"]["minResources"][ASCEND_910] == str(2 * (1 + workers))
        assert {pod["metadata"]["uid"] for pod in flow.pods()} == before
        flow.wait(lambda: flow.states("train") == ["Created", "Running"])


def test_the_jobs_of_a_service_start_in_the_order_of_its_scaling_rule(plane: ControlPlane, tmp_path: Path) -> None:
    flow = Flow(plane, Way("910b-8", ASCEND_910, 1, WHOLE.labels))

    def instance(name: str, group: str) -> None:
        names = {"mind-cluster/scaling-rule": "rule", "mind-cluster/group-name": group, "jobID": "service"}
        flow.acjob(name, **names, app="mindie-ms-server")

    def running_jobs() -> set[str]:
        pods = flow.pods() if all(pod["status"].get("phase") == "Running" for pod in flow.pods()) else []
        return {pod["metadata"]["labels"]["job-name"] for pod in pods}

    states = [{"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}]
    groups = [
        [{"group_name": k, "group_num": str(n), "server_num_per_group": "2"} for k, n in s.items()] for s in states
    ]
    rule = {"version": "1.0", "elastic_scaling_list": [{"group_list": each} for each in groups]}
    with flow.running(tmp_path):
        instance("p0", "group0")
        flow.wait(lambda: "does not exist" in str(flow.status("p0").get("conditions")))
        data = {"elastic_scaling.json": json.dumps(rule)}
        flow.api.create(f"{flow.path}/configmaps", {"metadata": {"name": "rule"}, "data": data})
        flow.wait(lambda: running_jobs() == {"p0"})
        flow.wait(lambda: flow.phase() == "Running")
        instance("p1", "group0")
        reason = "state 2 of 2 of the scaling rule is not reached: 1 of 1 jobs of group group0 run"
        flow.wait(lambda: reason in str(flow.status("p1").get("conditions")))
        assert running_jobs() == {"p0"}
        instance("d0", "group1")
        flow.wait(lambda: running_jobs() == {"p0", "d0", "p1"})


def test_pods_get_the_chips_that_an_old_device_plugin_reports_as_ascend710(plane: ControlPlane, tmp_path: Path) -> None:
    flow = Flow(plane, Way("710-8", ASCEND_710, 3, {}))
    with flow.running(tmp_path):
        flow.vcjob("infer", 2)
        flow.wait(lambda: flow.all_run(2))
        assert sorted(annotations(pod)[ASCEND_REAL] for pod in flow.pods()) == [
            "Ascend710-0,Ascend710-1,Ascend710-2",
            "Ascend710-3,Ascend710-4,Ascend710-5",
        ]


def test_a_vcjob_that_ignores_failures_restarts_when_all_its_pods_fail(plane: ControlPlane, tmp_path: Path) -> None:
    flow = Flow(plane, Way("910b-8", ASCEND_910, 4, WHOLE.labels))
    with flow.running(tmp_path):
        flow.vcjob("train", 2, **{"fault-scheduling": "force", "fault-retry-times": "100000000"})
        flow.wait(lambda: flow.all_run(2))
        flow.wait(lambda: flow.phase() == "Running")
        before = {pod["metadata"]["uid"] for pod in flow.pods()}
        for pod in flow.pods():
            path = f"{flow.path}/pods/{pod['metadata']['name']}/status"
            flow.api.patch(path, {"status": {"phase": "Failed"}})
        flow.wait(lambda: flow.all_run(2) and before.isdisjoint(pod["metadata"]["uid"] for pod in flow.pods()))
        job = flow.api.get(f"{BATCH}/namespaces/{flow.name}/jobs/train")
        assert job["status"]["state"]["phase"] == "Running"


def test_a_mindspore_job_succeeds_with_its_workers_and_its_scheduler_is_deleted(
    plane: ControlPlane, tmp_path: Path
) -> None:
    flow = Flow(plane, Way("910b-8", ASCEND_910, 4, WHOLE.labels))
    with flow.running(tmp_path):
        flow.mindspore_job("train", 2)
        flow.wait(lambda: flow.states("train") == ["Created", "Succeeded"])
        flow.wait(lambda: [pod["metadata"]["name"] for pod in flow.pods()] == ["train-worker-0"])
        assert not flow.groups()


def test_a_pod_whose_virtual_npu_cannot_be_created_gets_another_chip_and_preemption_frees_one_chip(
    plane: ControlPlane, tmp_path: Path
) -> None:
    flow = Flow(plane, DYNAMIC)
    with flow.running(tmp_path):
        flow.playground.command("fail", flow.nodes[0], "--chip=0", "--division")
        flow.acjob("infer")
        flow.wait(lambda: flow.all_run(2), timeout=60)
        assert {annotations(pod)[NPU_CORE] for pod in flow.pods()} == {"1-vir02_1c"}
        (group,) = flow.groups()
        failures = json.loads(group["metadata"]["annotations"]["volcano-py/vnpu-failures"])
        assert {(each["node"], each["chip"]) for each in failures} == {(flow.nodes[0], 0)}
        flow.wait(lambda: flow.states("infer") == ["Created", "Running"])
        found = [each for each in flow.events() if each["reason"] == "VirtualNPUFailed"]
        assert "NPUSegmentFailed" in found[0]["message"]
        # 28 more parts fill all chips, then a Pod of higher priority needs a whole chip.
        flow.playground.command("recover", flow.nodes[0])
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        flow.api.create(classes, {"metadata": {"name": flow.name}, "value": 1000})
        flow.deployment("fill", 28)
        flow.wait(lambda: flow.all_run(30), timeout=90)
        before = {pod["metadata"]["uid"]: annotations(pod)[NPU_CORE] for pod in flow.pods()}
        flow.urgent("train", 8)
        flow.wait(lambda: "train" in flow.bound(), timeout=60)
        (chip,) = (annotations(pod)[NPU_CORE] for pod in flow.pods() if pod["metadata"]["name"] == "train")
        gone = [part for uid, part in before.items() if uid not in {pod["metadata"]["uid"] for pod in flow.pods()}]
        assert {part[0] for part in gone} == {chip}
        assert len(gone) == sum(part[0] == chip for part in before.values())
        flow.api.delete(f"{flow.path}/pods/train")


def test_an_acjob_restarts_with_its_ranks_when_a_chip_breaks_in_mid_run(plane: ControlPlane, tmp_path: Path) -> None:
    flow = Flow(plane, Way("910b-8", ASCEND_910, 8, WHOLE.labels))
    with flow.running(tmp_path, nodes=3):
        flow.rank_table("train")
        flow.acjob("train", **{"fault-scheduling": "force"})
        flow.wait(lambda: flow.all_run(2))
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=True))
        flow.wait(lambda: "Running" in flow.states("train"))
        before = {pod["metadata"]["name"]: pod for pod in flow.pods()}
        failed = before["train-worker-0"]["spec"]["nodeName"]
        flow.playground.command("fail", failed, "--chip", "3")

        def restarted() -> bool:
            pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in flow.pods()}
            return flow.all_run(2) and all(pods[name] != pod["metadata"]["uid"] for name, pod in before.items())

        flow.wait(restarted, timeout=90)
        assert failed not in flow.bound().values()
        for pod in flow.pods():
            name = pod["metadata"]["name"]
            assert annotations(pod)[HCCL_RANK_INDEX] == annotations(before[name])[HCCL_RANK_INDEX]
            assert pod["metadata"]["labels"]["version"] == "1"
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=True))
        flow.wait(lambda: flow.states("train") == ["Created", "Running"])
        # Suspended and resumed: other Pods with the ranks and the number of restarts of before, and another table.
        flow.suspend("train", True)
        flow.wait(lambda: not flow.pods() and not flow.groups())
        assert flow.status("train")["restarts"] == 1
        flow.wait(lambda: flow.table("train")["status"] == "initializing")
        flow.suspend("train", False)
        flow.wait(lambda: flow.all_run(2), timeout=90)
        assert {pod["metadata"]["labels"]["version"] for pod in flow.pods()} == {"1"}
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=True))
        flow.wait(lambda: flow.states("train") == ["Created", "Running"])


def test_a_vcjob_restarts_with_its_ranks_when_a_chip_breaks_in_mid_run(plane: ControlPlane, tmp_path: Path) -> None:
    way = Way("910b-8", ASCEND_910, 8, WHOLE.labels)
    flow = Flow(plane, way)
    with flow.running(tmp_path, nodes=3):
        flow.rank_table("train")
        flow.vcjob("train", 2, **{"fault-scheduling": "force"})
        flow.wait(lambda: flow.all_run(2))
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=True))
        before = {pod["metadata"]["name"]: pod for pod in flow.pods()}
        failed = before["train-worker-1"]["spec"]["nodeName"]
        flow.playground.command("fail", failed, "--chip", "3")

        def restarted() -> bool:
            pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in flow.pods()}
            return flow.all_run(2) and pods["train-worker-1"] != before["train-worker-1"]["metadata"]["uid"]

        flow.wait(restarted, timeout=90)
        after = {pod["metadata"]["name"]: pod for pod in flow.pods()}
        assert failed not in flow.bound().values()
        for name, pod in after.items():
            assert annotations(pod)[HCCL_RANK_INDEX] == annotations(before[name])[HCCL_RANK_INDEX]
            assert annotations(pod)[ASCEND_REAL] == ",".join(f"Ascend910-{chip}" for chip in range(8))
            assert json.loads(annotations(pod)[ASCEND_910_CONFIGURATION])["server_id"] == pod["metadata"]["uid"]
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=True))
        assert {server["host_ip"] for server in flow.table("train")["server_list"]}.isdisjoint(
            {before["train-worker-1"]["status"]["hostIP"]}
        )


def test_the_pods_of_a_deployment_are_replaced_with_their_ranks_when_a_chip_breaks_in_mid_run(
    plane: ControlPlane, tmp_path: Path
) -> None:
    flow = Flow(plane, Way("910b-8", ASCEND_910, 8, WHOLE.labels))
    with flow.running(tmp_path, nodes=3):
        flow.rank_table("serve")
        flow.deployment("serve", 2, **{"fault-scheduling": "force"})
        flow.wait(lambda: flow.all_run(2))
        flow.wait(lambda: flow.table("serve") == flow.table_of_pods(by_host=True))
        before = {pod["metadata"]["uid"]: pod for pod in flow.pods()}
        failed = min(pod["spec"]["nodeName"] for pod in before.values())
        flow.playground.command("fail", failed, "--chip", "3")

        def replaced() -> bool:
            gone = before.keys().isdisjoint(pod["metadata"]["uid"] for pod in flow.pods())
            return gone and flow.all_run(2)

        flow.wait(replaced, timeout=90)
        assert failed not in flow.bound().values()
        assert sorted(annotations(pod)[HCCL_RANK_INDEX] for pod in flow.pods()) == ["0", "1"]
        flow.wait(lambda: flow.table("serve") == flow.table_of_pods(by_host=True))


def test_a_backup_takes_the_place_of_an_acjobs_pod_whose_chip_is_sub_healthy(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """The test writes the annotations by which ClusterD requests each step."""
    flow = Flow(plane, Way("910b-8", ASCEND_910, 8, WHOLE.labels))
    old = "train-worker-0"

    def annotate(**marks: str) -> None:
        flow.api.patch(f"{flow.path}/pods/{old}", {"metadata": {"annotations": marks}})

    def named() -> dict[str, Raw]:
        return {pod["metadata"]["name"]: pod for pod in flow.pods()}

    with flow.running(tmp_path, nodes=3):
        flow.rank_table("train")
        flow.acjob("train", **{"fault-scheduling": "force", "subHealthyStrategy": "hotSwitch"})
        flow.wait(lambda: flow.all_run(2))
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=True))
        flow.wait(lambda: "Running" in flow.states("train"))
        before, table = named(), flow.table("train")
        node = before[old]["spec"]["nodeName"]
        flow.playground.command("fail", node, "--chip=3", "--level=SubHealthFault")
        annotate(inHotSwitchFlow="true", needOperatorOpe="create")
        flow.wait(lambda: flow.all_run(3), timeout=90)
        (backup,) = named().keys() - before.keys()
        flow.wait(lambda: annotations(named()[old]).get("backupNewPodName") == backup)
        new = named()[backup]
        assert new["spec"]["nodeName"] not in {pod["spec"]["nodeName"] for pod in before.values()}
        assert annotations(new)[HCCL_RANK_INDEX] == annotations(before[old])[HCCL_RANK_INDEX] == "1"
        assert flow.table("train") == table
        annotate(needVolcanoOpe="delete")
        flow.wait(lambda: named().keys() == {"train-master-0", backup}, timeout=90)
        flow.wait(lambda: flow.table("train") == flow.table_of_pods(by_host=True))
        flow.wait(lambda: "podType" not in annotations(named()[backup]))
        uids = {name: pod["metadata"]["uid"] for name, pod in named().items()}
        assert uids == {
            "train-master-0": before["train-master-0"]["metadata"]["uid"],
            backup: new["metadata"]["uid"],
        }
        assert flow.states("train") == ["Created", "Running"]
