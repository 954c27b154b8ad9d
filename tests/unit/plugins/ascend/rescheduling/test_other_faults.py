"""Software, relation, container, sub-health and switch faults; external strategies; ends of grace periods; dying
words."""

import copy
import hashlib
import json
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, SCHEDULER_KINDS
from scheduler.api.names import ASCEND_910
from scheduler.api.times import format_timestamp
from scheduler.cache import ClusterCache
from scheduler.framework.cycle import open_session
from scheduler.framework.session import Session
from tests.builders import NAME, Raw, node
from tests.unit.plugins.ascend.rescheduling.faulty import CONFIGURATION, Cluster, vcjob

SUB_HEALTH = [{"npu_name": "Ascend910-2", "fault_handling": "SubHealthFault", "fault_code": "1"}]


def running(replicas: int = 2, settings: dict[str, str] | None = None, **labels: Any) -> Cluster:
    configuration = replace(CONFIGURATION, action_arguments={"init-params": settings or {}})
    cluster = Cluster(vcjob(replicas=replicas, **labels), settings=configuration)
    return cluster.run(6)


def found(cluster: Cluster, namespace: str, name: str) -> Raw:
    raw = cluster.server.find(CONFIG_MAP, namespace, name)
    assert raw is not None
    return raw


def kinds(cluster: Cluster) -> set[str]:
    """The kinds of faults in the history."""
    records = [record for history in cluster.history().values() for record in history.reschedule_records]
    return {reason.reschedule_reason for record in records for reason in record.reason_of_task}


# --- faults that Pods report ---
@pytest.mark.parametrize(
    "value, kind", [("software", "SoftwareFault"), ("Separate", "RelationFault"), ("SubHealth", ""), ("other", "")]
)
def test_a_label_of_a_pod_reports_a_fault(value: str, kind: str) -> None:
    cluster = running(fault_scheduling="force")
    cluster.label("train-t-1", fault_type=value)
    cluster.run(10)
    assert kinds(cluster) == ({kind} if kind else set())
    assert cluster.restarts_of() == bool(kind)


LINK_DOWN = {"npu_name": "Ascend910-2", "fault_handling": "NotHandleFault", "fault_code": "81078603"}


def restarted_after(fault: dict[str, str], nodes: str, label: str = "Separate") -> Cluster:
    """A job of two Pods on nodes ``a`` and ``b``. A chip of ``a`` has a fault, and its Pod is related to it."""
    cluster = Cluster(vcjob(fault_scheduling="force"), nodes=nodes).run(6)
    assert set(cluster.placed().values()) == {"a", "b"}
    cluster.chips("a", Fault=json.dumps([fault]))
    (pod,) = [pod for pod, node in cluster.placed().items() if node == "a"]
    cluster.label(pod, fault_type=label)
    return cluster.run(10)


def test_a_chip_whose_link_is_down_is_not_used_again_for_twenty_seconds() -> None:
    cluster = restarted_after(LINK_DOWN, "ab")
    (restart,) = cluster.state().restarts.values()
    assert cluster.placed() == {}

    while cluster.simulation.cluster.now < restart.time + 19:
        cluster.run()
    assert cluster.placed() == {}
    cluster.run(5)
    assert set(cluster.placed().values()) == {"a", "b"}


def test_a_job_whose_link_is_down_restarts_on_other_nodes_at_once_and_after_a_kill() -> None:
    cluster = restarted_after(LINK_DOWN, "abc")
    assert set(cluster.placed().values()) == {"b", "c"}

    cluster = Cluster(vcjob(fault_scheduling="force"), nodes="ab")
    cluster.run(6)
    cluster.chips("a", Fault=json.dumps([LINK_DOWN]))
    cluster.label(next(pod for pod, node in cluster.placed().items() if node == "a"), fault_type="Separate")
    cluster.run(2)
    cluster.restart()
    assert cluster.run(10).placed() == {}


@pytest.mark.parametrize(
    ("fault", "label"),
    [
        (LINK_DOWN, "software"),
        (LINK_DOWN | {"fault_handling": "RestartRequest"}, "Separate"),
        (LINK_DOWN | {"fault_code": "80E01801"}, "Separate"),
        (LINK_DOWN | {"npu_name": "npu2"}, "Separate"),
    ],
)
def test_the_pause_is_for_links_alone_that_may_come_up_again(fault: dict[str, str], label: str) -> None:
    assert set(restarted_after(fault, "ab", label).placed().values()) == {"a", "b"}


@pytest.mark.parametrize("code, retries, restarts", [(1, "3", 1), (0, "3", 0), (1, "0", 0)])
def test_a_container_that_failed_counts_as_a_failed_pod(code: int, retries: str, restarts: int) -> None:
    cluster = running(fault_scheduling="force", fault_retry_times=retries)
    ended = {"name": "c", "restartCount": 1, "lastState": {"terminated": {"exitCode": code}}}
    cluster.server.patch(POD, "default", "train-t-0", {"status": {"containerStatuses": [ended]}})
    cluster.run(10)
    assert cluster.restarts_of() == restarts
    assert kinds(cluster) == ({"pod-failed"} if restarts else set())


def test_a_pod_that_has_ended_well_is_not_faulty() -> None:
    cluster = running(fault_scheduling="force", fault_retry_times="2")
    cluster.label("train-t-0", fault_type="software")
    cluster.server.patch(POD, "default", "train-t-0", {"status": {"phase": "Succeeded"}})
    cluster.run(5)
    assert cluster.evicted() == {}


def test_a_restart_ends_when_its_job_loses_the_label() -> None:
    cluster = running(fault_scheduling="grace")
    cluster.chips("a", Unhealthy=[1])
    cluster.run(1)
    assert any(restart.pods for restart in cluster.state().restarts.values())
    for group in cluster.server.of(POD_GROUP):
        meta = group["metadata"]
        cluster.server.patch(
            POD_GROUP, meta["namespace"], meta["name"], {"metadata": {"labels": {"fault-scheduling": "off"}}}
        )
    cluster.run(5)
    assert cluster.evicted() == {}
    assert not any(restart.pods for restart in cluster.state().restarts.values())


# --- nodes ---
def not_ready(cluster: Cluster, node: str, ago: float = 0) -> None:
    """The Node has been not ready for ``ago`` seconds."""
    since = format_timestamp(cluster.simulation.cluster.now - ago)
    condition = {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}
    cluster.server.patch(NODE, "", node, {"status": {"conditions": [condition]}})


def test_a_node_that_is_not_ready_for_ten_seconds_is_faulty() -> None:
    cluster = running(fault_scheduling="force")
    not_ready(cluster, "a")
    begin = cluster.simulation.cluster.now
    while cluster.simulation.cluster.now < begin + 9:
        cluster.run()
    assert cluster.evicted() == {}
    cluster.run(12)
    assert cluster.restarts_of() == 1
    assert sorted(cluster.placed().values()) == ["b", "c"]


def test_with_grace_the_pods_of_a_node_that_does_not_answer_are_removed_at_once() -> None:
    """No kubelet would end the grace period of these Pods."""
    cluster = running(fault_scheduling="grace")
    not_ready(cluster, "a", ago=60)
    cluster.run(3)
    assert cluster.evicted() == {"train-t-0": 0, "train-t-1": None}
    cluster.run(10)
    assert sorted(cluster.placed().values()) == ["b", "c"]


def test_a_pod_on_a_broken_node_does_not_keep_its_job_from_restarting() -> None:
    """The PodGroup of a vcjob is deleted when the job restarts, and created again once all Pods are deleted."""
    cluster = running(fault_scheduling="grace", settings={"grace-over-time": "30"})
    cluster.simulation.cluster._kubelet.run = lambda: (False, [])  # type: ignore[method-assign]
    cluster.node_status("a", "UnHealthy")
    cluster.run(3)
    cluster.server.delete(POD, "default", "train-t-1", force=True)
    cluster.run(17)
    assert [*cluster.uids()] == ["train-t-0"]
    assert cluster.server.of(POD_GROUP) == []
    cluster.run(25)
    assert [*cluster.uids()] == ["train-t-0", "train-t-1"]
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in cluster.server.of(POD))
    (restart,) = cluster.state().restarts.values()
    assert restart.number == 1


def test_the_pods_of_a_node_that_is_gone_restart_with_their_job() -> None:
    """The garbage collector of Pods comes later: it takes up to a minute."""
    cluster = running(fault_scheduling="force")
    cluster.simulation.cluster.delete_lost_pods = lambda: False  # type: ignore[method-assign]
    cluster.server.delete(NODE, "", "a")
    cluster.run(10)
    assert sorted(cluster.placed().values()) == ["b", "c"]
    assert kinds(cluster) == {"NodeUnhealthy"}


def test_a_node_that_the_node_selector_hides_is_not_missing() -> None:
    cluster = running(fault_scheduling="force")
    cache = ClusterCache([NAME], node_selector=[("pool", "train")])
    for kind in SCHEDULER_KINDS:
        for obj in cluster.server.structs(kind):
            cache.upsert(kind, obj)
    cluster.simulation.cluster.cache = cache
    cluster.run(5)
    assert cluster.evicted() == {}


def with_launcher(node: Raw | None = None) -> Cluster:
    """A job of two Pods with chips on ``a`` and ``b``, and a launcher without chips on ``c``, or on another node."""
    job = vcjob(fault_scheduling="force")
    launcher = copy.deepcopy(job["spec"]["tasks"][0])
    launcher |= {"name": "launcher", "replicas": 1}
    launcher["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    if node is not None:
        launcher["template"]["spec"]["nodeSelector"] = {"role": "launcher"}
    job["spec"]["tasks"].append(launcher)
    job["spec"]["minAvailable"] = 3
    cluster = Cluster(job, *([node] if node is not None else []), nodes=("a", "b", "c", "d")).run(6)
    assert {cluster.placed()[pod] for pod in ("train-t-0", "train-t-1")} == {"a", "b"}
    return cluster


def test_a_launcher_without_chips_on_an_unhealthy_node_restarts_its_job_and_goes_elsewhere() -> None:
    cluster = with_launcher()
    before = cluster.placed()
    node = before["train-launcher-0"]
    cluster.node_status(node, "UnHealthy")
    cluster.run(12)
    assert cluster.restarts_of() == 1
    assert len(cluster.placed()) == 3 and node not in cluster.placed().values()
    assert kinds(cluster) == {"NodeUnhealthy"}


@pytest.mark.parametrize("gone", [True, False])
def test_a_launcher_on_a_node_without_chips_that_is_lost_restarts_its_job(gone: bool) -> None:
    cluster = with_launcher(node("m", "4c", labels={"role": "launcher"}))
    assert cluster.placed()["train-launcher-0"] == "m"
    cluster.server.create(NODE, node("n", "4c", labels={"role": "launcher"}))
    if gone:
        cluster.server.delete(NODE, "", "m")
    else:
        not_ready(cluster, "m", ago=60)
    cluster.run(12)
    assert cluster.restarts_of() == 1
    assert cluster.placed()["train-launcher-0"] == "n"
    assert cluster.ranks()["train-t-1"] == "1"


def switch(cluster: Cluster, node: str, status: str) -> None:
    """The device plugin reports the state of the node's switch."""
    text = json.dumps({"FaultCode": [], "FaultLevel": "", "UpdateTime": 0, "NodeStatus": status})
    name = f"mindx-dl-deviceinfo-{node}"
    cluster.server.patch(CONFIG_MAP, "kube-system", name, {"data": {"SwitchInfoCfg": text}})


def test_an_unhealthy_switch_makes_its_node_faulty() -> None:
    cluster = running(fault_scheduling="force")
    switch(cluster, "a", "UnHealthy")
    cluster.run(10)
    assert sorted(cluster.placed().values()) == ["b", "c"]


# --- sub-health ---
@pytest.mark.parametrize(
    "strategy, grace_period",
    [(None, ()), ("ignore", ()), ("hotSwitch", ()), ("forceExit", (0,)), ("graceExit", (None,)), ("soon", ())],
)
@pytest.mark.parametrize("source", ["chip", "switch"])
def test_sub_health_concerns_jobs_with_a_strategy(
    strategy: str | None, grace_period: tuple[int | None, ...], source: str
) -> None:
    labels = {} if strategy is None else {"subHealthyStrategy": strategy}
    given: dict[str, Any] = {"fault_scheduling": "grace" if strategy == "forceExit" else "force", **labels}
    cluster = running(**given)
    if source == "chip":
        cluster.chips("a", Fault=json.dumps(SUB_HEALTH))
    else:
        switch(cluster, "a", "SubHealthy")
    cluster.run(10)
    assert {*cluster.evicted().values()} == {*grace_period}
    if grace_period:
        assert sorted(cluster.placed().values()) == ["b", "c"]
        assert cluster.state().fault_nodes == ()


def test_a_pod_with_a_prepared_substitute_is_deleted() -> None:
    cluster = running(fault_scheduling="force", subHealthyStrategy="hotSwitch")
    cluster.chips("a", Fault=json.dumps(SUB_HEALTH))
    cluster.server.patch(POD, "default", "train-t-0", {"metadata": {"annotations": {"needVolcanoOpe": "delete"}}})
    cluster.run(5)
    assert cluster.evicted()["train-t-0"] == 0


def test_a_sub_healthy_chip_that_no_pod_uses_deletes_nothing() -> None:
    cluster = running(1, chips=1, fault_scheduling="force", subHealthyStrategy="forceExit")
    used = cluster.chips_of("train-t-0")
    other = next(f"Ascend910-{chip}" for chip in range(8) if f"Ascend910-{chip}" != used)
    cluster.chips("a", Fault=json.dumps([{**SUB_HEALTH[0], "npu_name": other}]))
    cluster.run(5)
    assert cluster.evicted() == {}


@pytest.mark.parametrize("strategy, values", [("graceExit", [1, 0]), ("forceExit", [0, 0])])
def test_the_processes_of_a_job_are_asked_to_exit_before_its_pods_are_deleted(strategy: str, values: list[int]) -> None:
    cluster = running(fault_scheduling="force", subHealthyStrategy=strategy)
    reset = {"RankList": [], "UpdateTime": 5, "RetryTime": 0, "FaultFlushing": False, "GracefulExit": 0}
    metadata = {"name": "reset-config-train", "namespace": "default", "labels": {"reset": "true"}}
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"reset.json": json.dumps(reset)}}
    cluster.server.create(CONFIG_MAP, raw)
    cluster.chips("a", Fault=json.dumps(SUB_HEALTH))
    cluster.run(2)
    during = found(cluster, "default", "reset-config-train")["data"]
    assert json.loads(during["reset.json"]) == {**reset, "GracefulExit": values[0]}
    if values[0]:
        assert during["checkCode"] == hashlib.sha256(during["reset.json"].encode()).hexdigest()
    cluster.run(12)
    assert len(cluster.placed()) == 2
    after = found(cluster, "default", "reset-config-train")["data"]
    assert json.loads(after["reset.json"]) == {**reset, "GracefulExit": values[1]}


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000])
def test_a_malformed_reset_config_is_left_as_it_is(text: str) -> None:
    cluster = running(fault_scheduling="force", subHealthyStrategy="graceExit")
    metadata = {"name": "reset-config-train", "namespace": "default", "labels": {"reset": "true"}}
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"reset.json": text}}
    cluster.server.create(CONFIG_MAP, raw)
    cluster.chips("a", Fault=json.dumps(SUB_HEALTH))
    cluster.run(12)
    assert found(cluster, "default", "reset-config-train")["data"] == {"reset.json": text}
    assert any("reset.json" in message for message in cluster.events("Malformed"))
    assert len(cluster.placed()) == 2


# --- external strategies ---
@pytest.mark.parametrize("strategy", ["external-force", "external-grace"])
def test_faulty_pods_are_marked_and_left_to_another_component(strategy: str) -> None:
    cluster = running(fault_scheduling=strategy)
    cluster.chips("a", Unhealthy=[1])
    writes = 0
    for _ in range(8):
        cluster.run(1)
        assert cluster.simulation.last is not None
        writes += sum(write.kind is POD for write in cluster.simulation.last.decisions.writes)
    assert cluster.evicted() == {}
    marks = {
        pod["metadata"]["name"]: (pod["metadata"]["annotations"]).get("huawei.com/pod-status")
        for pod in cluster.server.of(POD)
    }
    assert marks == {"train-t-0": "Unhealthy-CardUnhealthy", "train-t-1": None}
    assert writes == 1
    (history,) = cluster.history().values()
    assert history.total_reschedule_times == 1


# --- grace that ends ---
def test_a_pod_that_exists_after_grace_over_time_is_deleted_by_force() -> None:
    cluster = running(fault_scheduling="grace", settings={"grace-over-time": "20"})
    kubelet = cluster.simulation.cluster._kubelet
    kubelet.run = lambda: (False, [])  # type: ignore[method-assign]
    cluster.chips("a", Unhealthy=[1])
    cluster.run(15)
    assert {*cluster.evicted().values()} == {None}
    assert len(cluster.uids()) == 2
    cluster.run(15)
    assert {*cluster.evicted().values()} == {0}


@pytest.mark.parametrize("text", ["1", "3601", "soon"])
def test_a_grace_over_time_out_of_range_is_reported(text: str) -> None:
    cluster = running(settings={"grace-over-time": text})
    assert cluster.simulation.last is not None
    configuration = replace(CONFIGURATION, action_arguments={"init-params": {"grace-over-time": text}})
    session = open_session(Session(cluster.simulation.snapshot(), configuration))
    assert any("grace-over-time" in problem and "from 2 to 3600" in problem for problem in session.problems)


# --- dying words ---
@pytest.mark.parametrize("exists", [False, True])
def test_the_ranks_of_faulty_chips_are_written_beside_the_job(exists: bool) -> None:
    cluster = running(fault_scheduling="grace")
    if exists:
        raw = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "fault-config-train", "namespace": "default"},
        }
        cluster.server.create(CONFIG_MAP, raw)
    cluster.chips("b", Unhealthy=[1])
    cluster.run(1)
    data = found(cluster, "default", "fault-config-train")["data"]
    words = json.loads(data["fault-npus"])
    assert json.loads(words["FaultRankIds"]) == [str(rank) for rank in range(8, 16)]
    assert words["CreatTime"] > 0
    assert data["checkCode"] == hashlib.sha256(data["fault-npus"].encode()).hexdigest()
    assert cluster.evicted() == {}


def test_dying_words_can_be_switched_off() -> None:
    cluster = running(fault_scheduling="grace", settings={"dying-words": "false"})
    cluster.chips("b", Unhealthy=[1])
    cluster.run(5)
    assert cluster.evicted()
    assert cluster.server.find(CONFIG_MAP, "default", "fault-config-train") is None


# --- Deployments ---
def test_a_deployment_restarts_after_a_fault_with_the_ranks_it_had() -> None:
    labels = {"app": "serve", "fault-scheduling": "force"}
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1", ASCEND_910: "8"}}}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": NAME, "containers": [container]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "serve", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "serve"}}, "template": template},
    }
    cluster = Cluster(deployment).run(8)
    assert sorted(cluster.ranks().values()) == ["0", "1"]
    before = cluster.uids()
    cluster.chips("a", Unhealthy=[0])
    cluster.run(12)
    assert not {*before.values()} & {*cluster.uids().values()}
    assert sorted(cluster.placed().values()) == ["b", "c"]
    assert sorted(cluster.ranks().values()) == ["0", "1"]
    (history,) = cluster.history().values()
    assert history.total_reschedule_times == 1
