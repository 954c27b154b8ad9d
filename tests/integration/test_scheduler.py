"""The scheduler process on a real API server, observed through the API only."""

import json
import subprocess
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401
from controlplane.manifests import RELEASE
from controlplane.run import ControlPlane
from scheduler.api.names import (
    ASCEND_910,
    CARD_NAME,
    CARD_QUOTA,
    CARD_REQUEST,
    HCCL_RANK_INDEX,
    PREDICATE_TIME,
    QUEUE_ALLOCATION_GATE,
)
from scheduler.record.journal import SUFFIX
from scheduler.record.replay import replay
from tests.integration.stage import GROUPS, Namespace, emptied

pytestmark = pytest.mark.controlplane

QUEUE_CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: ascend}, {name: capacity-card}, {name: nodeorder}, {name: binpack}]
"""


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Namespace:
    emptied(control_plane)
    return Namespace(control_plane)


def test_a_gang_is_bound_whole_and_a_gang_too_big_not_at_all(cluster: Namespace, tmp_path: Path) -> None:
    cluster.node("n1")
    cluster.node("n2")
    cluster.group("fits", 4)
    cluster.group("too-big", 3)
    for i in range(4):
        cluster.pod(f"fits-{i}", "fits", {"cpu": "2"})
    for i in range(3):
        cluster.pod(f"too-big-{i}", "too-big", {"cpu": "6"})

    with cluster.scheduled(tmp_path):
        cluster.wait(lambda: cluster.get_group("fits").get("status", {}).get("phase") == "Running")
        waiting = cluster.wait(lambda: cluster.get_group("too-big").get("status", {}).get("conditions"))
        wanted = {("Pod", "Scheduled"), ("Pod", "FailedScheduling"), ("PodGroup", "Unschedulable")}
        cluster.wait(lambda: wanted <= {(e["involvedObject"]["kind"], e["reason"]) for e in cluster.events()})

    assert set(cluster.bound()) == {f"fits-{i}" for i in range(4)}
    assert waiting[0]["type"] == "Unschedulable"
    assert "cpu: asked 6" in waiting[0]["message"]


def test_a_gang_that_waited_for_nodes_is_unschedulable_no_longer_once_it_runs(
    cluster: Namespace, tmp_path: Path
) -> None:
    def unschedulable() -> str | None:
        conditions = cluster.get_group("late").get("status", {}).get("conditions") or ()
        return next((c["status"] for c in conditions if c["type"] == "Unschedulable"), None)

    cluster.node("n1")
    cluster.group("late", 2)
    for i in range(2):
        cluster.pod(f"late-{i}", "late", {"cpu": "6"})
    with cluster.scheduled(tmp_path):
        cluster.wait(lambda: unschedulable() == "True")

    cluster.node("n2")
    with cluster.scheduled(tmp_path):  # another process, which finds what the one before has written
        cluster.wait(lambda: unschedulable() == "False")
        cluster.wait(lambda: cluster.get_group("late")["status"]["phase"] == "Running")

    assert set(cluster.bound()) == {"late-0", "late-1"}


def test_a_watcher_never_sees_a_bound_pod_without_its_chips(cluster: Namespace, tmp_path: Path) -> None:
    for i in range(4):
        cluster.node(f"npu-{i}", **{ASCEND_910: "8"})
    cluster.group("train", 4)
    for i in range(4):
        cluster.pod(f"train-{i}", "train", {"cpu": "1", ASCEND_910: "8"})
    seen: list[dict[str, Any]] = []
    stop = threading.Event()
    watcher = threading.Thread(target=_watch, args=(cluster, seen, stop), daemon=True)
    watcher.start()

    with cluster.scheduled(tmp_path):
        cluster.wait(lambda: len(cluster.bound()) == 4)
        names = cluster.bound().keys()
        cluster.wait(lambda: {p["metadata"]["name"] for p in list(seen) if p["spec"].get("nodeName")} == names)
    stop.set()
    watcher.join(10)

    bound = [pod for pod in seen if pod["spec"].get("nodeName")]
    for pod in bound:
        annotations = pod["metadata"]["annotations"]
        assert annotations[ASCEND_910] == ",".join(f"Ascend910-{chip}" for chip in range(8))
        assert annotations[PREDICATE_TIME].isdecimal()
    for pod in seen:
        for key in (ASCEND_910, HCCL_RANK_INDEX):
            assert (key in pod["metadata"]["annotations"]) == bool(pod["spec"].get("nodeName"))
    assert {pod["metadata"]["annotations"][HCCL_RANK_INDEX] for pod in bound} == {"0", "1", "2", "3"}
    assert len(set(cluster.bound().values())) == 4


def _watch(cluster: Namespace, seen: list[dict[str, Any]], stop: threading.Event) -> None:
    """Collects every version of the namespace's Pods, through its own watch."""
    command = [str(cluster.plane.binaries / "kubectl"), f"--kubeconfig={cluster.plane.kubeconfig}", "get", "--raw"]
    path = f"/api/v1/namespaces/{cluster.name}/pods?watch=true&resourceVersion=0"
    process = subprocess.Popen([*command, path], stdout=subprocess.PIPE, text=True)

    def end() -> None:
        stop.wait()
        process.terminate()

    threading.Thread(target=end, daemon=True).start()
    assert process.stdout is not None
    for line in process.stdout:  # one by one, because the test reads them meanwhile
        seen.append(json.loads(line)["object"])  # noqa: PERF401


CR_QUEUE1: dict[str, Any] = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {
        "name": "cr-queue1",
        "annotations": {
            CARD_QUOTA: json.dumps(
                {
                    "NVIDIA-H200": 3,
                    "NVIDIA-H800": 2,
                    "NVIDIA-GeForce-RTX-4090": 2,
                    "NVIDIA-H800/mps-80g*1/2": 2,
                    "NVIDIA-H200/mig-1g.18gb-mixed": 3,
                    "NVIDIA-H200/mig-3g.71gb-mixed": 1,
                }
            )
        },
    },
    "spec": {
        "weight": 1,
        "capability": {"cpu": 4, "memory": "4Gi"},
        "guarantee": {"resource": {"cpu": 2, "memory": "2Gi"}},
    },
}
"""The queue of the card quota design."""


def test_an_exceeded_quota_is_reported_on_the_podgroup_and_on_the_pod(cluster: Namespace, tmp_path: Path) -> None:
    node = cluster.node("gpu", **{"nvidia.com/gpu": "8"})
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "143771"}
    cluster.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    cluster.api.create(f"{GROUPS}/queues", CR_QUEUE1)
    cluster.group("no-pods", 1, "cr-queue1", annotations={CARD_REQUEST: json.dumps({"NVIDIA-H200": 5})})
    conf = tmp_path / "scheduler.conf"
    conf.write_text(QUEUE_CONF, encoding="utf-8")
    message = (
        "Queue <cr-queue1> has insufficient <NVIDIA-H200> quota: "
        "requested <5000>, total would be <5000>, but capability is <3000>"
    )

    def warned_objects() -> set[tuple[str, str]]:
        return {
            (e["involvedObject"]["kind"], e["involvedObject"]["name"])
            for e in cluster.events()
            if e["message"] == message and e["type"] == "Warning"
        }

    with cluster.scheduled(tmp_path, f"--scheduler-conf={conf}"):
        cluster.wait(lambda: ("PodGroup", "no-pods") in warned_objects())
        cluster.api.delete(f"{GROUPS}/namespaces/{cluster.name}/podgroups/no-pods")
        cluster.group("pods", 1, "cr-queue1")
        cluster.pod("pods-0", "pods", {"cpu": "1", "nvidia.com/gpu": "5"}, {CARD_NAME: "NVIDIA-H200"})
        cluster.wait(lambda: ("Pod", "pods-0") in warned_objects())

    assert not cluster.bound()


def test_a_killed_scheduler_loses_no_pod_and_binds_none_twice(cluster: Namespace, tmp_path: Path) -> None:
    nodes = [cluster.node(f"npu-{i:02d}", **{ASCEND_910: "8"}) for i in range(30)]
    for g in range(15):
        cluster.group(f"pair-{g}", 2)
        for i in range(2):
            cluster.pod(f"pair-{g}-{i}", f"pair-{g}", {"cpu": "1", ASCEND_910: "8"})
    slow = ("--bind-workers=1", "--kube-api-qps=8", "--kube-api-burst=1")

    def more_bound(than: int) -> bool:
        return len(cluster.bound()) > than

    for _ in range(3):
        with cluster.scheduled(tmp_path, *slow) as daemon:
            cluster.wait(partial(more_bound, len(cluster.bound())))
            daemon.kill()
    assert len(cluster.bound()) < 30, "the scheduler was to be killed at work"
    with cluster.scheduled(tmp_path):
        cluster.wait(lambda: len(cluster.bound()) == 30, timeout=60)

    assert Counter(cluster.bound().values()) == Counter(nodes)


def test_a_replay_of_a_recording_gives_the_same_decisions(cluster: Namespace, tmp_path: Path) -> None:
    for i in range(10):
        cluster.node(f"npu-{i:02d}", **{ASCEND_910: "8"})
    records = tmp_path / "records"
    slow = ("--bind-workers=2", "--kube-api-qps=40", "--kube-api-burst=1")
    with cluster.scheduled(tmp_path, f"--record={records}", *slow):
        for g in range(7):
            cluster.group(f"pair-{g}", 2)
            for i in range(2):
                cluster.pod(f"pair-{g}-{i}", f"pair-{g}", {"cpu": "1", ASCEND_910: "8"})
        cluster.wait(lambda: len(cluster.bound()) == 10)
        for i in range(2):
            cluster.node(f"late-{i}", **{ASCEND_910: "8"})
        cluster.wait(lambda: len(cluster.bound()) == 12)

    sessions = [session for path in sorted(records.glob(f"*{SUFFIX}")) for session in replay(path)]
    assert sum(len(session.recorded.binds) for session in sessions if session.recorded) >= 12
    assert [session.differences for session in sessions if not session.same] == []


def test_a_pod_loses_its_scheduling_gate_when_its_queue_has_room(cluster: Namespace, tmp_path: Path) -> None:
    cluster.node("n1")
    cluster.group("gated", 1)
    gated: dict[str, Any] = {
        "annotations": {QUEUE_ALLOCATION_GATE: "true"},
        "schedulingGates": [{"name": QUEUE_ALLOCATION_GATE}],
    }
    cluster.pod("gated-0", "gated", {"cpu": "1"}, **gated)
    with cluster.scheduled(tmp_path, "--feature-gates=SchedulingGatesQueueAdmission=true"):
        cluster.wait(lambda: "gated-0" in cluster.bound())


def test_a_second_replica_takes_over(cluster: Namespace, tmp_path: Path) -> None:
    cluster.node("n1")
    election = (
        "--leader-elect=true",
        f"--leader-elect-resource-name={RELEASE}-scheduler",
        "--leader-elect-lease-duration=10s",
        "--leader-elect-renew-deadline=8s",
        "--leader-elect-retry-period=500ms",
    )
    cluster.group("before", 1)
    cluster.pod("before-0", "before", {"cpu": "1"})

    with cluster.scheduled(tmp_path, *election) as first:
        cluster.wait(lambda: "before-0" in cluster.bound())
        with cluster.scheduled(tmp_path, *election):
            first.kill()
            cluster.group("after", 1)
            cluster.pod("after-0", "after", {"cpu": "1"})
            cluster.wait(lambda: "after-0" in cluster.bound())


def test_bad_annotations_and_config_maps_are_set_aside_with_a_warning(cluster: Namespace, tmp_path: Path) -> None:
    def warnings_in_kube_system() -> set[tuple[str, str]]:
        events = cluster.api.get("/api/v1/namespaces/kube-system/events")["items"]
        return {(event["involvedObject"]["name"], event["message"]) for event in events}

    node = cluster.node("npu", **{ASCEND_910: "8"})
    cluster.node("cpu")
    cluster.api.create(
        "/api/v1/namespaces/kube-system/configmaps",
        {
            "metadata": {"name": f"mindx-dl-deviceinfo-{node}", "labels": {"mx-consumer-cim": "true"}},
            "data": {"DeviceInfoCfg": "{not json"},
        },
    )
    cluster.group("train", 1)
    cluster.pod("train-0", "train", {"cpu": "1", ASCEND_910: "1"}, {"volcano.sh/task-priority": "high"})

    with cluster.scheduled(tmp_path):
        cluster.wait(lambda: "train-0" in cluster.bound())
        cluster.wait(lambda: any(e["reason"] == "Malformed" for e in cluster.events()))
        problem = "not JSON: expecting property name enclosed in double quotes (line 1, column 2)"
        warning = (f"mindx-dl-deviceinfo-{node}", f"data[DeviceInfoCfg]: {problem}; ignored")
        cluster.wait(lambda: warning in warnings_in_kube_system())

    cluster.api.delete(f"/api/v1/namespaces/kube-system/configmaps/mindx-dl-deviceinfo-{node}")


def test_pods_with_a_misspelt_scheduler_name_cause_one_warning_for_each_workload(
    cluster: Namespace, tmp_path: Path
) -> None:
    def warnings() -> dict[str, str]:
        """Maps each Pod to its Warning."""
        return {e["involvedObject"]["name"]: e["message"] for e in cluster.events() if e["reason"] == "Malformed"}

    workload = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-web", "controller": True}

    def create(name: str, scheduler: str, *owners: dict[str, Any]) -> None:
        container = {"name": "c", "image": "registry.example/serve:1"}
        spec = {"schedulerName": scheduler, "containers": [container]}
        cluster.api.create(
            f"{cluster.path}/pods", {"metadata": {"name": name, "ownerReferences": owners}, "spec": spec}
        )

    served = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    with cluster.scheduled(tmp_path):
        create("other", "volcano")
        cluster.api.patch(f"{cluster.path}/pods/other/status", {"status": {"conditions": [served]}})
        create("same", "volcano")
        create("kube", "default-scheduler")
        for name in ("web-a", "web-b"):
            create(name, "vulcano", workload)
        create("plain", "volcano-pi")
        cluster.wait(lambda: {"web-a", "plain"} <= warnings().keys())
        found = warnings()
    assert found == {
        "web-a": "spec.schedulerName: 'vulcano' is not a name of this scheduler (volcano-py); did you mean "
        "'volcano-py'?; no scheduler has placed a Pod with this name, so the Pod waits: 2 Pods of ReplicaSet web",
        "plain": "spec.schedulerName: 'volcano-pi' is not a name of this scheduler (volcano-py); did you mean "
        "'volcano-py'?; no scheduler has placed a Pod with this name, so the Pod waits",
    }


def test_an_invalid_configuration_stops_the_start_but_not_a_running_scheduler(
    cluster: Namespace, tmp_path: Path
) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text("actions: [\n", encoding="utf-8")
    with cluster.scheduled(tmp_path, f"--scheduler-conf={conf}") as daemon:
        assert daemon.process.wait(20) == 2
        assert "scheduler.conf" in daemon.log.read_text(encoding="utf-8")

    conf.write_text(QUEUE_CONF, encoding="utf-8")
    cluster.node("n1")
    with cluster.scheduled(tmp_path, f"--scheduler-conf={conf}") as daemon:
        cluster.group("one", 1)
        cluster.pod("one-0", "one", {"cpu": "1"})
        cluster.wait(lambda: "one-0" in cluster.bound())
        conf.write_text('actions: "no-such-action"\n', encoding="utf-8")
        cluster.wait(lambda: "no-such-action" in daemon.log.read_text(encoding="utf-8"))
        cluster.group("two", 1)
        cluster.pod("two-0", "two", {"cpu": "1"})
        cluster.wait(lambda: "two-0" in cluster.bound())
        assert daemon.stop() == 0
