"""The expected result of each file in `deploy/examples` on a cluster with the chart: one function per file, with the
file's name.

The fake kubelets let Pods run for ever; a function for an example whose containers end ends them.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from subprocess import CalledProcessError
from typing import Any

from controlplane.client import ApiError
from controlplane.run import ControlPlane
from scheduler.api.kinds import ACJOB, CRON_JOB, HYPER_NODE, JOB_FLOW, POD, POD_GROUP, SERVICE, VCJOB, Kind, object_path
from scheduler.api.names import GROUP_NAME, JOB_NAME, TASK_SPEC
from tests.integration.installation import EXAMPLES

Json = dict[str, Any]
TIMEOUT = 60.0


class Stage:
    """A namespace for one example."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane = plane
        self.namespace = namespace
        self.api = plane.admin

    def create(self, example: str) -> None:
        try:
            self._plane.kubectl("create", "--namespace", self.namespace, "-f", EXAMPLES / f"{example}.yaml")
        except CalledProcessError as error:
            raise AssertionError(error.stderr) from None

    def get(self, kind: Kind, name: str) -> Json | None:
        try:
            found: Json = self.api.get(object_path(kind, self.namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def pods(self, labels: Mapping[str, str] | None = None, *, running: bool = True) -> list[str]:
        """The names of the Pods with these labels."""
        selector = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
        items = self.api.get(f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={selector}")["items"]
        return sorted(
            pod["metadata"]["name"] for pod in items if not running or pod["status"].get("phase") == "Running"
        )

    def messages(self) -> list[str]:
        """The messages of Events."""
        return [event["message"] for event in self.api.get(f"/api/v1/namespaces/{self.namespace}/events")["items"]]

    def end(self, *pods: str) -> None:
        """Makes Pods succeed."""
        for pod in pods:
            annotations = {"volcano-py.test/outcome": "succeed"}
            self.api.patch(object_path(POD, self.namespace, pod), {"metadata": {"annotations": annotations}})

    def phase(self, job: str) -> str:
        """The phase of a vcjob."""
        found = self.get(VCJOB, job) or {}
        return str(((found.get("status") or {}).get("state") or {}).get("phase", ""))

    def until(self, condition: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + TIMEOUT
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(self._plane.kubectl("get", "vcjob,podgroup,pods,events", "-n", self.namespace))
            time.sleep(0.1)
        return found

    def runs(self, job: str, *pods: str) -> None:
        """Waits until a vcjob runs with exactly these Pods."""
        self.until(lambda: self.phase(job) == "Running" and self.pods({JOB_NAME: job}) == sorted(pods))

    def completes(self, job: str) -> None:
        self.until(lambda: self.phase(job) == "Completed")


def vcjob(stage: Stage) -> None:
    stage.create("vcjob")
    workers = [f"gang-worker-{i}" for i in range(4)]
    stage.runs("gang", *workers)
    assert stage.get(SERVICE, "gang")
    workers.append("gang-worker-4")
    paths = ("/spec/minAvailable", "/spec/tasks/0/replicas", "/spec/tasks/0/minAvailable")
    scaled = [{"op": "replace", "path": path, "value": len(workers)} for path in paths]
    stage.api.patch(object_path(VCJOB, stage.namespace, "gang"), scaled, "json")
    stage.runs("gang", *workers)
    stage.end(*workers)
    stage.completes("gang")


def mpi(stage: Stage) -> None:
    stage.create("mpi")
    stage.runs("demo-vc-job", "demo-vc-job-mpimaster-0", "demo-vc-job-mpiworker-0", "demo-vc-job-mpiworker-1")
    stage.end("demo-vc-job-mpimaster-0")
    stage.completes("demo-vc-job")
    stage.until(lambda: not stage.pods({TASK_SPEC: "mpiworker"}, running=False))


def pytorch(stage: Stage) -> None:
    stage.create("pytorch")
    stage.runs("pytorch", "pytorch-master-0", "pytorch-worker-0", "pytorch-worker-1")
    (container,) = stage.api.get(object_path(POD, stage.namespace, "pytorch-worker-1"))["spec"]["containers"]
    assert {"name": "RANK", "value": "2"} in container["env"]
    stage.end("pytorch-master-0")
    stage.completes("pytorch")


def tensorflow(stage: Stage) -> None:
    stage.create("tensorflow")
    stage.runs("tensorflow", "tensorflow-ps-0", "tensorflow-worker-0", "tensorflow-worker-1")
    stage.end("tensorflow-worker-0", "tensorflow-worker-1")
    stage.completes("tensorflow")
    stage.until(lambda: not stage.pods({TASK_SPEC: "ps"}, running=False))


def ray(stage: Stage) -> None:
    stage.create("ray")
    stage.runs("ray", "ray-head-0", "ray-worker-0", "ray-worker-1")
    assert stage.get(SERVICE, "ray-head-svc")


def mxnet(stage: Stage) -> None:
    stage.create("mxnet")
    pods = ["mxnet-scheduler-0", *(f"mxnet-{role}-{i}" for role in ("server", "worker") for i in range(2))]
    stage.runs("mxnet", *pods)
    assert stage.get(SERVICE, "mxnet")  # the scheduler is found as mxnet-scheduler-0.mxnet
    pod = stage.api.get(object_path(POD, stage.namespace, "mxnet-scheduler-0"))["spec"]
    assert (pod["hostname"], pod["subdomain"]) == ("mxnet-scheduler-0", "mxnet")
    stage.end(*pods)
    stage.completes("mxnet")


def paddlepaddle(stage: Stage) -> None:
    stage.create("paddlepaddle")
    trainers = [f"paddlepaddle-trainer-{i}" for i in range(2)]
    stage.runs("paddlepaddle", "paddlepaddle-pserver-0", "paddlepaddle-pserver-1", *trainers)
    (container,) = stage.api.get(object_path(POD, stage.namespace, trainers[1]))["spec"]["containers"]
    assert {"TRAINING_ROLE", "VC_PSERVER_HOSTS", "VC_TRAINER_NUM", "VC_TASK_INDEX"} <= {
        each["name"] for each in container["env"]
    }
    stage.end(*trainers)
    stage.completes("paddlepaddle")
    stage.until(lambda: not stage.pods({TASK_SPEC: "pserver"}, running=False))


def horovod(stage: Stage) -> None:
    stage.create("horovod")
    stage.runs("horovod", "horovod-master-0", *(f"horovod-worker-{i}" for i in range(3)))
    stage.end("horovod-master-0")
    stage.completes("horovod")
    stage.until(lambda: not stage.pods({TASK_SPEC: "worker"}, running=False))


def spark(stage: Stage) -> None:
    stage.create("spark")
    driver, *executors = "spark-pi-driver", "spark-pi-exec-1", "spark-pi-exec-2"
    stage.until(lambda: stage.pods() == [driver])
    found = stage.api.get(object_path(POD, stage.namespace, driver))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": driver, "uid": found["metadata"]["uid"], "controller": True}
    for number, name in enumerate(executors, 1):  # as the driver creates them
        labels = {"spark-role": "executor", "spark-exec-id": str(number), "spark-app-name": "spark-pi"}
        annotations = {GROUP_NAME: "spark-pi"}
        meta = {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [owner]}
        requests = {"cpu": "1", "memory": "1408Mi"}
        container = {"name": "spark-kubernetes-executor", "image": "spark", "resources": {"requests": requests}}
        spec = {"schedulerName": "volcano-py", "restartPolicy": "Never", "containers": [container]}
        stage.api.create(object_path(POD, stage.namespace, "").rstrip("/"), {"metadata": meta, "spec": spec})
    stage.until(lambda: stage.pods() == [driver, *executors])
    stage.until(lambda: _status(stage.get(POD_GROUP, "spark-pi")).get("phase") == "Running")
    stage.end(*executors, driver)
    stage.until(lambda: _status(stage.get(POD_GROUP, "spark-pi")).get("phase") == "Completed")


def flink(stage: Stage) -> None:
    stage.create("flink")
    stage.until(lambda: len(stage.pods({"app": "flink"})) == 3)
    stage.until(lambda: _status(stage.get(POD_GROUP, "flink")).get("phase") == "Running")
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/flink-taskmanager"
    stage.api.patch(path, {"spec": {"replicas": 3}})
    stage.until(lambda: len(stage.pods({"component": "taskmanager"})) == 3)
    groups = stage.api.get(object_path(POD_GROUP, stage.namespace, "").rstrip("/"))["items"]
    assert [group["metadata"]["name"] for group in groups] == ["flink"]


def cronjob(stage: Stage) -> None:
    stage.create("cronjob")
    yesterday = (datetime.now(UTC) - timedelta(hours=24)).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = {"status": {"lastScheduleTime": yesterday}}
    stage.api.patch(f"{object_path(CRON_JOB, stage.namespace, 'nightly')}/status", status)
    active = stage.until(lambda: _status(stage.get(CRON_JOB, "nightly")).get("active"))
    job = active[0]["name"]
    stage.runs(job, f"{job}-report-0", f"{job}-report-1")
    stage.end(f"{job}-report-0", f"{job}-report-1")
    stage.until(lambda: _status(stage.get(CRON_JOB, "nightly")).get("lastSuccessfulTime"))
    stage.completes(job)


def jobflow(stage: Stage) -> None:
    stage.create("jobflow")
    for job, replicas in (("experiment-prepare", 1), ("experiment-train", 2), ("experiment-evaluate", 1)):
        pods = [f"{job}-main-{i}" for i in range(replicas)]
        stage.runs(job, *pods)
        stage.end(*pods)
    stage.until(lambda: (_status(stage.get(JOB_FLOW, "experiment")).get("state") or {}).get("phase") == "Succeed")
    stage.until(lambda: not stage.phase("experiment-train"))


def queues(stage: Stage) -> None:
    stage.create("queues")
    stage.runs("segmentation", "segmentation-worker-0", "segmentation-worker-1")
    (group,) = stage.api.get(object_path(POD_GROUP, stage.namespace, "").rstrip("/"))["items"]
    assert group["spec"]["queue"] == "research-vision"


def cards(stage: Stage) -> None:
    stage.create("cards")
    stage.runs("cr-job", "cr-job-master-0", "cr-job-worker-0")
    stage.until(lambda: len(stage.pods({"app": "cr-deployment"})) == 1)
    path = f"/apis/apps/v1/namespaces/{stage.namespace}/deployments/cr-deployment"
    stage.api.patch(path, {"spec": {"replicas": 2}})
    stage.until(lambda: any("insufficient <NVIDIA-H200> quota" in text for text in stage.messages()))
    assert len(stage.pods({"app": "cr-deployment"})) == 1
    stage.end("cr-job-master-0")  # the first task that completes ends the job and deletes the other's Pods
    stage.completes("cr-job")
    stage.until(lambda: len(stage.pods({"app": "cr-deployment"})) == 2)


def alternatives(stage: Stage) -> None:
    stage.create("alternatives")
    stage.runs("any-card", "any-card-worker-0", "any-card-worker-1")
    (container,) = stage.api.get(object_path(POD, stage.namespace, "any-card-worker-0"))["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert {"name": "BACKEND", "value": "nccl"} in container["env"]
    stage.end("any-card-worker-0", "any-card-worker-1")
    stage.completes("any-card")


def deployment(stage: Stage) -> None:
    stage.create("deployment")
    stage.until(lambda: len(stage.pods({"app": "web"})) == 3)
    (group,) = stage.api.get(object_path(POD_GROUP, stage.namespace, "").rstrip("/"))["items"]
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "default")


def statefulset(stage: Stage) -> None:
    stage.create("statefulset")
    stage.until(lambda: stage.pods({"app": "store"}) == ["store-0", "store-1", "store-2"])


def job(stage: Stage) -> None:
    stage.create("job")
    pods = stage.until(lambda: len(names := stage.pods()) == 3 and names)
    stage.end(*pods)
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs/sum"
    stage.until(lambda: stage.api.get(path)["status"].get("succeeded") == 3)


def pod(stage: Stage) -> None:
    stage.create("pod")
    stage.until(lambda: stage.pods() == ["shell"])


def podgroup(stage: Stage) -> None:
    stage.create("podgroup")
    stage.until(lambda: stage.pods() == ["pair-0", "pair-1"])
    stage.until(lambda: _status(stage.get(POD_GROUP, "pair")).get("phase") == "Running")


def command(stage: Stage) -> None:
    stage.create("vcjob")
    stage.runs("gang", *(f"gang-worker-{i}" for i in range(4)))
    stage.create("command")
    stage.until(lambda: stage.phase("gang") == "Aborted" and not stage.pods(running=False))
    stage.until(
        lambda: not stage.api.get(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{stage.namespace}/commands")["items"]
    )


def hypernodes(stage: Stage) -> None:
    stage.create("hypernodes")
    assert stage.api.get(object_path(HYPER_NODE, "", "spine"))["spec"]["tier"] == 2


def _status(found: Json | None) -> Json:
    return (found or {}).get("status") or {}


NEEDS_CARDS = (cards, alternatives)
"""The examples that need the plugin capacity-card."""


def acjob(stage: Stage) -> None:
    stage.create("acjob")

    job = stage.until(lambda: (found := stage.get(ACJOB, "resnet")) and "status" in found and found)
    group = stage.until(lambda: stage.get(POD_GROUP, f"resnet-{job['metadata']['uid']}"))
    assert group["spec"]["minTaskMember"] == {"master": 1, "worker": 1}
    assert group["spec"]["minResources"] == {"huawei.com/Ascend910": "16"}
    assert stage.pods(running=False) == []  # the cluster of these tests has no chips, so the PodGroup waits
    assert stage.get(SERVICE, "resnet-master-0") is None

    path = object_path(POD_GROUP, stage.namespace, group["metadata"]["name"])

    def admitted() -> bool:
        """Admits the PodGroup. The scheduler may revert this before the controllers have seen it."""
        stage.api.patch(path, {"status": {"phase": "Inqueue"}})
        return len(stage.pods(running=False)) == 2 and stage.get(SERVICE, "resnet-master-0") is not None

    stage.until(admitted)
    service = stage.get(SERVICE, "resnet-master-0")
    assert service is not None and service["spec"]["selector"]["replica-type"] == "master"

    limits = {"activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 0}
    stage.api.patch(object_path(ACJOB, stage.namespace, "resnet"), {"spec": {"runPolicy": limits}})
    stage.until(lambda: stage.get(ACJOB, "resnet") is None)


def scaling_rule(stage: Stage) -> None:
    stage.create("scaling-rule")

    def reasons(job: str) -> str:
        """Why a job has no Pods."""
        return str(((stage.get(ACJOB, job) or {}).get("status") or {}).get("conditions"))

    def group_of(job: str) -> Json | None:
        uid = (stage.get(ACJOB, job) or {})["metadata"]["uid"]
        return stage.get(POD_GROUP, f"{job}-{uid}")

    decode = stage.until(lambda: group_of("chat-decode"))
    prefill = stage.until(lambda: group_of("chat-prefill"))
    assert decode["spec"]["minTaskMember"] == prefill["spec"]["minTaskMember"] == {"master": 1, "worker": 1}

    path = object_path(POD_GROUP, stage.namespace, decode["metadata"]["name"])

    def waits() -> bool:
        """Admits the PodGroup of the second instance; the cluster of these tests has no chips."""
        stage.api.patch(path, {"status": {"phase": "Inqueue"}})
        return "0 of 0 jobs of group decode run" in reasons("chat-decode")

    stage.until(waits)
    assert stage.pods(running=False) == []


OTHERS = (
    acjob,
    scaling_rule,
    vcjob,
    mpi,
    pytorch,
    tensorflow,
    mxnet,
    paddlepaddle,
    horovod,
    ray,
    spark,
    flink,
    cronjob,
    jobflow,
    queues,
    deployment,
    statefulset,
    job,
    pod,
    podgroup,
    command,
    hypernodes,
)
