"""The controllers on a real API server with a scheduler and fake kubelets: killed, run twice, and given malformed
objects."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.manifests import NAMESPACE, RELEASE
from controlplane.run import ControlPlane
from tests.integration.programs import print_end
from tests.integration.rights import account
from tests.integration.stage import Role, a_control_plane, running, wait

pytestmark = pytest.mark.controlplane

BATCH = "/apis/batch.volcano.sh/v1alpha1"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
KILLS = 20
ELECTION = (
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=500ms",
)
"""A lease that expires soon, but not because the machine is busy."""
JOBS = 100


class Cluster:
    """A separate control plane, which only our controllers use."""

    def __init__(self, plane: ControlPlane, logs: Path) -> None:
        self.plane = plane
        self.api = plane.admin
        self.logs = logs

    def running(self, role: str, *options: str) -> AbstractContextManager[Role]:
        return running(role, account(self.plane, role), self.logs, *options)

    def start(self, role: str, *options: str) -> Role:
        return Role(role, account(self.plane, role), self.logs, *options)

    def namespace(self, name: str) -> str:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def job(
        self, namespace: str, name: str, replicas: int, *, annotations: dict[str, str] | None = None, **spec: Any
    ) -> None:
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "10m"}}}
        task = {
            "name": "w",
            "replicas": replicas,
            "template": {
                "metadata": {"annotations": annotations or {}},
                "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        }
        body = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"schedulerName": "volcano-py", "minAvailable": replicas, "tasks": [task], **spec},
        }
        self.api.create(f"{BATCH}/namespaces/{namespace}/jobs", body)

    def jobs(self, namespace: str) -> dict[str, dict[str, Any]]:
        items = self.api.get(f"{BATCH}/namespaces/{namespace}/jobs")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def phase(self, namespace: str, name: str) -> str:
        job = self.api.get(f"{BATCH}/namespaces/{namespace}/jobs/{name}")
        return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))

    def listed(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.api.get(path)["items"]
        return items

    def events(self, namespace: str) -> list[tuple[str, str, str]]:
        return [
            (e["involvedObject"]["kind"], e["reason"], e["message"])
            for e in self.listed(f"/api/v1/namespaces/{namespace}/events")
        ]

    def wait(self, condition: Callable[[], Any], timeout: float = 30.0) -> Any:
        return wait(condition, timeout)

    def command(self, namespace: str, action: str, target: dict[str, Any], kind: str, api_version: str) -> None:
        reference = {"apiVersion": api_version, "kind": kind, "controller": True}
        reference |= {"name": target["metadata"]["name"], "uid": target["metadata"]["uid"]}
        self.api.create(
            f"/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands",
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"generateName": "order-"},
                "action": action,
                "target": reference,
            },
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes with room, the controllers of Kubernetes, and our scheduler."""
    with a_control_plane() as plane:
        plane.start_kwok()
        plane.start_controller_manager()
        made = Cluster(plane, tmp_path_factory.mktemp("logs"))
        for i in range(4):
            amounts = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
            meta = {"name": f"n{i}", "labels": {"kubernetes.io/hostname": f"n{i}"}}
            plane.admin.create(
                "/api/v1/nodes", {"metadata": meta, "status": {"allocatable": amounts, "capacity": amounts}}
            )
        with made.running("scheduler", "--leader-elect=false", "--schedule-period=200ms"):
            yield made


@pytest.fixture
def controlled(cluster: Cluster) -> Iterator[Cluster]:
    with cluster.running("controllers", "--leader-elect=false"):
        yield cluster


def owned_by_jobs(cluster: Cluster, namespace: str, paths: Sequence[str] = ()) -> dict[str, list[str]]:
    """The names of all objects in a namespace that a job may have created, by collection."""
    core, net = f"/api/v1/namespaces/{namespace}", f"/apis/networking.k8s.io/v1/namespaces/{namespace}"
    places = paths or (
        f"{core}/pods",
        f"{core}/services",
        f"{core}/secrets",
        f"{core}/configmaps",
        f"{core}/persistentvolumeclaims",
        f"{net}/networkpolicies",
        f"{SCHEDULING}/namespaces/{namespace}/podgroups",
        f"{BATCH}/namespaces/{namespace}/jobs",
    )
    found = {}
    for place in places:
        names = [o["metadata"]["name"] for o in cluster.listed(place) if o["metadata"]["name"] != "kube-root-ca.crt"]
        if names:
            found[place.rpartition("/")[2]] = sorted(names)
    return found


def wait_until_nothing_is_owned(cluster: Cluster, namespace: str) -> None:
    """Waits until no object of jobs is left in a namespace. The error on a time-out names the remaining objects, the
    states of Pods, and the programs of the control plane that have ended: without these programs, nothing is
    deleted."""

    def said() -> str:
        pods = [
            {"name": pod["metadata"]["name"], "status": pod["status"], "node": pod["spec"].get("nodeName")}
            | {key: pod["metadata"].get(key) for key in ("creationTimestamp", "deletionTimestamp", "ownerReferences")}
            for pod in cluster.listed(f"/api/v1/namespaces/{namespace}/pods")
        ]
        return "\n".join([f"left: {owned_by_jobs(cluster, namespace)}", *map(str, pods), *cluster.plane.ended()])

    wait(lambda: not owned_by_jobs(cluster, namespace), timeout=60, said=said)


def test_a_vcjob_gets_its_podgroup_and_pods_runs_and_completes(controlled: Cluster) -> None:
    namespace = controlled.namespace("completes")
    path = f"/api/v1/namespaces/{namespace}/pods"
    controlled.job(namespace, "train", 3)

    controlled.wait(lambda: controlled.phase(namespace, "train") == "Running")
    pods = {pod["metadata"]["name"] for pod in controlled.listed(path)}
    (group,) = controlled.listed(f"{SCHEDULING}/namespaces/{namespace}/podgroups")
    for pod in pods:
        controlled.api.patch(f"{path}/{pod}", {"metadata": {"annotations": {"volcano-py.test/outcome": "succeed"}}})
    controlled.wait(lambda: controlled.phase(namespace, "train") == "Completed")

    assert pods == {"train-w-0", "train-w-1", "train-w-2"}
    uid = controlled.jobs(namespace)["train"]["metadata"]["uid"]
    assert group["metadata"]["name"] == f"train-{uid}"
    assert group["spec"]["minResources"]["requests.cpu"] == "30m"
    conditions = [c["status"] for c in controlled.jobs(namespace)["train"]["status"]["conditions"]]
    assert conditions == ["Pending", "Running", "Completed"]


def test_when_a_job_is_scaled_down_its_host_list_changes_first(controlled: Cluster) -> None:
    namespace = controlled.namespace("scaled-down")
    controlled.job(namespace, "train", 3, plugins={"svc": [], "ssh": ["--no-root"]})
    controlled.wait(lambda: controlled.phase(namespace, "train") == "Running")

    body = [
        {"op": "replace", "path": "/spec/minAvailable", "value": 1},
        {"op": "replace", "path": "/spec/tasks/0/replicas", "value": 1},
    ]
    controlled.api.patch(f"{BATCH}/namespaces/{namespace}/jobs/train", body, "json")
    controlled.wait(lambda: len(controlled.listed(f"/api/v1/namespaces/{namespace}/pods")) == 1)

    hosts = controlled.api.get(f"/api/v1/namespaces/{namespace}/configmaps/train-svc")
    (group,) = controlled.listed(f"{SCHEDULING}/namespaces/{namespace}/podgroups")
    written = [int(each["metadata"]["resourceVersion"]) for each in (hosts, group)]
    assert hosts["data"]["w.host"] == "train-w-0.train"
    assert group["spec"]["minMember"] == 1
    assert written == sorted(written)


def test_an_object_can_be_updated_with_the_version_that_its_creation_returned(controlled: Cluster) -> None:
    namespace = controlled.namespace("updated-at-once")
    flow = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{namespace}"
    created = {}
    template = {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": []}}}]}
    for path, kind, spec in (
        (f"{flow}/jobtemplates", "JobTemplate", template),
        (f"{flow}/jobflows", "JobFlow", {"jobRetainPolicy": "retain", "flows": [{"name": "missing"}]}),
        (f"{BATCH}/namespaces/{namespace}/cronjobs", "CronJob", {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {}}}),
    ):
        version = "batch.volcano.sh/v1alpha1" if kind == "CronJob" else "flow.volcano.sh/v1alpha1"
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
        created[path] = controlled.api.create(path, body)
    missing = 'jobtemplate.flow.volcano.sh "missing" not found'
    controlled.wait(lambda: any(missing in text for *_, text in controlled.events(namespace)))  # it has been reconciled

    for path, body in created.items():
        body["metadata"]["labels"] = {"changed": "at-once"}
        controlled.api.request("PUT", f"{path}/x", body)

    def state() -> dict[str, str]:
        found: dict[str, str] = (controlled.api.get(f"{flow}/jobflows/x").get("status") or {}).get("state") or {}
        return found

    controlled.wait(lambda: state().get("phase") == "Pending")
    assert state()["message"] == missing


def test_deleting_a_job_leaves_nothing_behind(controlled: Cluster) -> None:
    namespace = controlled.namespace("nothing-left")
    volumes = [
        {
            "mountPath": "/data",
            "volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
    plugins: dict[str, list[str]] = {"svc": [], "ssh": [], "env": []}
    controlled.job(namespace, "train", 2, plugins=plugins, volumes=volumes)
    controlled.wait(lambda: len(owned_by_jobs(controlled, namespace).get("podgroups", ())) == 1)
    controlled.wait(lambda: len(owned_by_jobs(controlled, namespace)) >= 7)

    controlled.api.delete(f"{BATCH}/namespaces/{namespace}/jobs/train")

    wait_until_nothing_is_owned(controlled, namespace)


def test_a_finished_job_is_deleted_after_its_time_to_live(controlled: Cluster) -> None:
    namespace = controlled.namespace("time-to-live")
    controlled.job(namespace, "short", 1, annotations={"volcano-py.test/outcome": "succeed"}, ttlSecondsAfterFinished=2)

    controlled.wait(lambda: "short" in controlled.jobs(namespace))
    wait_until_nothing_is_owned(controlled, namespace)


def test_a_job_is_aborted_and_resumed_by_commands(controlled: Cluster) -> None:
    namespace = controlled.namespace("commands")
    controlled.job(namespace, "train", 2)
    controlled.wait(lambda: controlled.phase(namespace, "train") == "Running")
    job = controlled.jobs(namespace)["train"]

    controlled.command(namespace, "AbortJob", job, "Job", "batch.volcano.sh/v1alpha1")
    controlled.wait(lambda: controlled.phase(namespace, "train") == "Aborted")
    assert controlled.listed(f"/api/v1/namespaces/{namespace}/pods") == []
    controlled.command(namespace, "ResumeJob", job, "Job", "batch.volcano.sh/v1alpha1")
    controlled.wait(lambda: controlled.phase(namespace, "train") == "Running")

    assert controlled.listed(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands") == []


def deploy(cluster: Cluster, namespace: str, name: str, replicas: int, queue: str = "") -> None:
    labels = {"app": name}
    annotations = {"scheduling.volcano.sh/queue-name": queue} if queue else {}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "10m"}}}
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"schedulerName": "volcano-py", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    cluster.api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", {"metadata": {"name": name}, "spec": spec})


def scale(cluster: Cluster, namespace: str, name: str, replicas: int) -> None:
    cluster.api.patch(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}", {"spec": {"replicas": replicas}})


def bound(cluster: Cluster, namespace: str, app: str) -> int:
    """The Pods of a Deployment that have a node and are not being deleted."""
    return sum(
        1
        for pod in cluster.listed(f"/api/v1/namespaces/{namespace}/pods")
        if pod["metadata"]["labels"]["app"] == app
        and pod["spec"].get("nodeName")
        and not pod["metadata"].get("deletionTimestamp")
    )


def test_a_deployment_runs_through_a_podgroup_of_its_replica_set(controlled: Cluster) -> None:
    namespace = controlled.namespace("deployment")
    deploy(controlled, namespace, "serve", 3)

    controlled.wait(lambda: bound(controlled, namespace, "serve") == 3)

    (replica_set,) = controlled.listed(f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    (group,) = controlled.wait(lambda: controlled.listed(f"{SCHEDULING}/namespaces/{namespace}/podgroups"))
    assert group["metadata"]["name"] == f"podgroup-{replica_set['metadata']['uid']}"
    assert group["spec"]["minMember"] == 1


def test_a_plain_pod_runs_although_no_controllers_do_and_gets_its_podgroup_from_them_later(cluster: Cluster) -> None:
    namespace = cluster.namespace("plain")
    container = {"name": "main", "image": "registry.example/serve:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "volcano-py", "containers": [container]}
    pods, groups = f"/api/v1/namespaces/{namespace}/pods", f"{SCHEDULING}/namespaces/{namespace}/podgroups"
    cluster.api.create(pods, {"metadata": {"name": "plain"}, "spec": spec})

    cluster.wait(lambda: cluster.listed(pods)[0]["status"].get("phase") == "Running")
    assert cluster.listed(groups) == []

    with cluster.running("controllers", "--leader-elect=false"):
        cluster.wait(lambda: [g["status"].get("phase") for g in cluster.listed(groups)] == ["Running"])
    (pod,) = cluster.listed(pods)
    assert pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == f"podgroup-{pod['metadata']['uid']}"
    assert not [event for event in cluster.events(namespace) if event[1] == "FailedScheduling"]


def test_scaling_up_past_the_quota_is_refused_and_scaling_down_gives_quota_back(controlled: Cluster) -> None:
    namespace = controlled.namespace("elastic")
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "elastic"}}
    controlled.api.create(f"{SCHEDULING}/queues", {**queue, "spec": {"weight": 1, "capability": {"cpu": "30m"}}})
    deploy(controlled, namespace, "serve", 2, "elastic")
    controlled.wait(lambda: bound(controlled, namespace, "serve") == 2)

    scale(controlled, namespace, "serve", 5)
    controlled.wait(lambda: bound(controlled, namespace, "serve") == 3)
    refusals = controlled.wait(
        lambda: [
            text
            for kind, _, text in controlled.events(namespace)
            if kind == "Pod" and "elastic" in text and "30m" in text
        ]
    )
    assert refusals
    assert bound(controlled, namespace, "serve") == 3

    scale(controlled, namespace, "serve", 1)
    controlled.wait(lambda: bound(controlled, namespace, "serve") == 1)
    deploy(controlled, namespace, "other", 2, "elastic")
    controlled.wait(lambda: bound(controlled, namespace, "other") == 2)


def test_a_queue_closes_when_its_last_podgroup_is_deleted_and_opens_again(controlled: Cluster) -> None:
    namespace = controlled.namespace("queues")
    queue = controlled.api.create(
        f"{SCHEDULING}/queues",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "closing"},
            "spec": {"weight": 1},
        },
    )
    controlled.job(namespace, "train", 1, queue="closing")
    controlled.wait(lambda: controlled.phase(namespace, "train") == "Running")

    def state() -> str:
        return str((controlled.api.get(f"{SCHEDULING}/queues/closing").get("status") or {}).get("state", ""))

    controlled.command(namespace, "CloseQueue", queue, "Queue", "scheduling.volcano.sh/v1beta1")
    controlled.wait(lambda: state() == "Closing")
    controlled.api.delete(f"{BATCH}/namespaces/{namespace}/jobs/train")
    controlled.wait(lambda: state() == "Closed")
    controlled.command(namespace, "OpenQueue", queue, "Queue", "scheduling.volcano.sh/v1beta1")
    controlled.wait(lambda: state() == "Open")


def test_a_queue_closed_by_its_owner_stays_closed_when_the_one_above_opens(controlled: Cluster) -> None:
    namespace = controlled.namespace("closed-twice")
    parents = {"team": "", "team-a": "team", "team-b": "team"}
    queues = {}
    for name, parent in parents.items():
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        spec = {"weight": 1, "parent": parent} if parent else {"weight": 1}
        queues[name] = controlled.api.create(f"{SCHEDULING}/queues", {**body, "spec": spec})

    def states() -> list[str]:
        found = [controlled.api.get(f"{SCHEDULING}/queues/{name}") for name in parents]
        return [(each.get("status") or {}).get("state", "") for each in found]

    def order(action: str, name: str) -> None:
        controlled.command(namespace, action, queues[name], "Queue", "scheduling.volcano.sh/v1beta1")
        commands = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands"
        controlled.wait(lambda: not controlled.listed(commands))

    controlled.wait(lambda: states() == ["Open"] * 3)
    order("CloseQueue", "team")
    controlled.wait(lambda: states() == ["Closed"] * 3)
    order("CloseQueue", "team-a")
    order("OpenQueue", "team")
    controlled.wait(lambda: states() == ["Open", "Closed", "Open"])


def test_a_malformed_object_gets_a_warning_and_others_proceed(controlled: Cluster) -> None:
    namespace = controlled.namespace("nonsense")
    policies = [{"event": "PodFailed", "action": "RestartJob", "timeout": "soon"}]
    try:
        controlled.job(namespace, "odd", 1, policies=policies)
    except ApiError as error:  # the schema may be strict enough
        assert error.status == 422
    controlled.job(namespace, "odd-plugin", 1, plugins={"no-such-plugin": []})
    controlled.job(namespace, "good", 1)

    controlled.wait(lambda: controlled.phase(namespace, "good") == "Running")
    controlled.wait(
        lambda: any(kind == "Job" and "no-such-plugin" in text for kind, _, text in controlled.events(namespace))
    )


def test_of_two_controllers_one_works_and_the_other_takes_over(cluster: Cluster) -> None:
    namespace = cluster.namespace("takeover")
    with cluster.running("controllers", *ELECTION) as first:
        cluster.job(namespace, "before", 1)
        cluster.wait(lambda: cluster.phase(namespace, "before") == "Running")
        with cluster.running("controllers", *ELECTION) as second:
            cluster.wait(lambda: "standing by" in second.log.read_text(encoding="utf-8"))
            first.kill()
            cluster.job(namespace, "after", 1)
            cluster.wait(lambda: cluster.phase(namespace, "after") == "Running")


def test_controllers_that_lose_the_lease_exit_and_the_other_takes_over(cluster: Cluster) -> None:
    namespace = cluster.namespace("usurped")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{RELEASE}-controllers"

    def holder() -> str:
        return str(cluster.api.get(lease)["spec"]["holderIdentity"])

    with cluster.running("controllers", *ELECTION) as first:
        cluster.job(namespace, "before", 1)
        cluster.wait(lambda: cluster.phase(namespace, "before") == "Running")
        leader = holder()
        with cluster.running("controllers", *ELECTION) as second:
            cluster.wait(lambda: "standing by" in second.log.read_text(encoding="utf-8"))
            cluster.api.patch(lease, {"spec": {"holderIdentity": "usurper"}})

            assert first.process.wait(20) == 1
            assert "leadership lost" in first.log.read_text(encoding="utf-8")
            cluster.wait(lambda: holder() not in (leader, "usurper"))
            cluster.job(namespace, "after", 1)
            cluster.wait(lambda: cluster.phase(namespace, "after") == "Running")


def test_twenty_kills_leave_no_duplicate_no_orphan_and_no_stuck_job(cluster: Cluster) -> None:
    namespace = cluster.namespace("kills")
    chance = random.Random(20261121)
    succeed = {"volcano-py.test/outcome": "succeed", "volcano-py.test/runs-for": "3s"}
    fail = {"volcano-py.test/outcome": "fail", "volcano-py.test/runs-for": "1s"}
    restart = [{"event": "PodFailed", "action": "RestartJob"}]
    restart_task = [{"event": "PodFailed", "action": "RestartTask"}]
    process = cluster.start("controllers", "--leader-elect=false")
    sizes = {}
    for i in range(JOBS):
        name = f"j{i:03d}"
        sizes[name] = 1 + i % 4
        kind = i % 5
        if kind == 0:
            cluster.job(namespace, name, sizes[name], annotations=succeed, plugins={"svc": [], "env": []})
        elif kind == 1:
            cluster.job(namespace, name, sizes[name], annotations=fail, policies=restart, maxRetry=2)
        elif kind == 2:
            cluster.job(namespace, name, sizes[name], annotations=fail, policies=restart_task, maxRetry=2)
        else:
            cluster.job(namespace, name, sizes[name])
        if i % (JOBS // KILLS) == JOBS // KILLS - 1:
            time.sleep(chance.uniform(0.0, 1.0))
            process.kill()
            process = cluster.start("controllers", "--leader-elect=false")
            time.sleep(chance.uniform(0.1, 0.8))
    ends = {0: "Completed", 1: "Failed", 2: "Failed", 3: "Running", 4: "Running"}
    wanted = {f"j{i:03d}": ends[i % 5] for i in range(JOBS)}

    def settled() -> bool:
        found = {
            name: ((job.get("status") or {}).get("state") or {}).get("phase")
            for name, job in cluster.jobs(namespace).items()
        }
        return found == wanted

    def groups() -> Counter[str]:
        listed = cluster.listed(f"{SCHEDULING}/namespaces/{namespace}/podgroups")
        return Counter(owner["name"] for group in listed for owner in group["metadata"]["ownerReferences"])

    def running_pods() -> Counter[str]:
        listed = cluster.listed(f"/api/v1/namespaces/{namespace}/pods")
        phases = ((pod["metadata"]["labels"]["volcano.sh/job-name"], pod["status"]["phase"]) for pod in listed)
        return Counter(job for job, phase in phases if phase == "Running")

    try:
        cluster.wait(settled, timeout=120)
        running = {name for name, phase in wanted.items() if phase == "Running"}
        # A job is finished before its last Pods and its PodGroup are deleted.
        cluster.wait(lambda: groups() == dict.fromkeys(running, 1), timeout=60)
        cluster.wait(lambda: running_pods() == {name: sizes[name] for name in running}, timeout=60)
        for name in wanted:
            cluster.api.delete(f"{BATCH}/namespaces/{namespace}/jobs/{name}")
        wait_until_nothing_is_owned(cluster, namespace)
    finally:
        process.stop()
        print_end(process.log)
