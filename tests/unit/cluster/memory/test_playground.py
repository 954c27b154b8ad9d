"""Simulated NPU nodes in memory: Pods get their devices between two cycles, and chips fail on command."""

import json
from typing import Any

from scheduler.api.kinds import ACJOB, CONFIG_MAP, NODE, POD, VCJOB
from scheduler.api.names import ASCEND_310P, ASCEND_710, ASCEND_910, ASCEND_REAL, HCCL_RANK_INDEX, NPU_CORE
from scheduler.cluster.memory import Simulation
from scheduler.framework.configuration_file import parse_configuration
from scheduler.playground.families import FAMILIES
from scheduler.playground.kubelet import ready_conditions
from scheduler.playground.node import new_machines, node_manifest
from scheduler.playground.objects import FAULTS
from tests.builders import NAME, manifests

CONFIGURATION = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: ascend}, {name: priority}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
configurations:
- name: init-params
  arguments: {"presetVirtualDevice": "false"}
"""
WHOLE = "Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3,Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7"
Raw = dict[str, Any]


def job(name: str, replicas: int, resource: str, amount: int, **labels: str) -> Raw:
    requests = {resource: str(amount)}
    containers = [{"name": "main", "image": "i", "resources": {"requests": requests, "limits": requests}}]
    selector = {"accelerator-type": "module-910b-8"} if resource == ASCEND_910 else {}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, "nodeSelector": selector}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    spec = {"schedulerName": NAME, "minAvailable": replicas, "tasks": tasks}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


def simulated(family: str, number: int, *objects: Raw, division: str = "") -> Simulation:
    machines = new_machines([FAMILIES[family]], number, "npu", division, 4, {})
    nodes = [node_manifest(machine, ready_conditions(0)) for machine in machines]
    return Simulation(manifests(*nodes, *objects), parse_configuration(CONFIGURATION, "test"), [NAME])


def pods(simulation: Simulation) -> dict[str, Raw]:
    return {pod["metadata"]["name"]: pod for pod in simulation.cluster.server.of(POD)}


def annotation(simulation: Simulation, key: str) -> dict[str, str]:
    return {name: pod["metadata"]["annotations"].get(key) for name, pod in pods(simulation).items()}


def test_pods_get_the_devices_that_the_scheduler_chose_and_nothing_is_written_after_that() -> None:
    simulation = simulated("910b-8", 1, job("train", 2, ASCEND_910, 4))
    report = simulation.run()
    assert report.cycles < 10
    assert annotation(simulation, ASCEND_REAL) == annotation(simulation, ASCEND_910)
    assert [pod["status"]["phase"] for pod in pods(simulation).values()] == ["Running"] * 2
    names = {config_map["metadata"]["name"] for config_map in simulation.cluster.server.of(CONFIG_MAP)}
    assert {"mindx-dl-deviceinfo-npu-910b-8-0", "cluster-info-device-0"} <= names


def test_a_job_restarts_elsewhere_with_its_ranks_when_a_chip_fails() -> None:
    labels = {"fault-scheduling": "force"}
    simulation = simulated("910b-8", 3, job("train", 2, ASCEND_910, 8, **labels))
    simulation.run()
    before = {name: pod["spec"]["nodeName"] for name, pod in pods(simulation).items()}
    ranks = annotation(simulation, HCCL_RANK_INDEX)
    failed = before["train-w-1"]
    faults = {"metadata": {"annotations": {FAULTS: '{"chips":{"3":{}}}'}}}
    simulation.cluster.server.patch(NODE, "", failed, faults)
    simulation.run(15)
    after = {name: pod["spec"]["nodeName"] for name, pod in pods(simulation).items()}
    assert after.keys() == before.keys()
    assert failed not in after.values()
    assert annotation(simulation, HCCL_RANK_INDEX) == ranks
    assert set(annotation(simulation, ASCEND_REAL).values()) == {WHOLE}


def test_a_chip_takes_further_virtual_npus_once_the_device_plugin_has_created_the_first() -> None:
    atlas = {"ring-controller.atlas": "ascend-310P"}
    jobs = [job(f"j{i}", 1, NPU_CORE, amount, **atlas) for i, amount in enumerate((4, 2, 2))]
    simulation = simulated("310p-8", 1, *jobs, division="dynamic")
    simulation.run()
    assert [pod["status"]["phase"] for pod in pods(simulation).values()] == ["Running"] * 3
    mounted = annotation(simulation, ASCEND_REAL)
    assert sum(name.startswith("Ascend310P-2c.1cpu-") for name in mounted.values()) == 2
    chosen = annotation(simulation, NPU_CORE)
    assert {name: f"-{chosen[name][0]}_" in mounted[name] for name in mounted} == dict.fromkeys(mounted, True)


def test_pods_get_the_chips_that_a_device_plugin_of_2022_calls_ascend710() -> None:
    simulation = simulated("710-8", 1, job("infer", 2, ASCEND_710, 3))
    simulation.run()
    assert [pod["status"]["phase"] for pod in pods(simulation).values()] == ["Running"] * 2
    chosen = annotation(simulation, ASCEND_710)
    assert sorted(chosen.values()) == ["Ascend710-0,Ascend710-1,Ascend710-2", "Ascend710-3,Ascend710-4,Ascend710-5"]
    assert annotation(simulation, ASCEND_REAL) == chosen


def instance(name: str, group: str, chips: int) -> Raw:
    """An instance of a MindIE service with a scaling rule: a Master and a Worker."""
    names = {"mind-cluster/scaling-rule": "rule", "mind-cluster/group-name": group, "jobID": "service"}
    requests = {ASCEND_910: str(chips)}
    containers = [{"name": "ascend", "image": "i", "resources": {"requests": requests, "limits": requests}}]
    template = {"spec": {"containers": containers, "nodeSelector": {"accelerator-type": "module-910b-8"}}}
    return {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {"name": name, "namespace": "default", "labels": {"framework": "pytorch", **names}},
        "spec": {"replicaSpecs": {role: {"replicas": 1, "template": template} for role in ("Master", "Worker")}},
    }


def test_an_ascend_job_whose_pods_all_fail_at_once_restarts_and_has_one_retry_less() -> None:
    """Most trainings end so: if one rank fails, the others do."""
    raw = instance("train", "", 4)
    raw["metadata"]["labels"] = {"framework": "pytorch", "fault-scheduling": "force", "fault-retry-times": "2"}
    simulation = simulated("910b-8", 1, raw)
    simulation.run()
    before = {name: pod["metadata"]["uid"] for name, pod in pods(simulation).items()}
    for name in before:
        simulation.cluster.server.patch(POD, "default", name, {"status": {"phase": "Failed"}})
    simulation.run(15)
    after = pods(simulation)
    assert [pod["status"]["phase"] for pod in after.values()] == ["Running"] * 2
    assert all(pod["metadata"]["uid"] != before[name] for name, pod in after.items())
    record = simulation.cluster.server.find(CONFIG_MAP, "volcano-system", "vcjob-fault-npu-cm")
    assert record is not None
    assert [each["Times"] for each in json.loads(record["data"]["remain-retry-times"]).values()] == [1]


def fail_all(simulation: Simulation) -> None:
    """All Pods fail at once, and the job has some time to restart."""
    for name in pods(simulation):
        simulation.cluster.server.patch(POD, "default", name, {"status": {"phase": "Failed"}})
    simulation.run(15)


def test_a_vcjob_that_ignores_failures_restarts_while_retries_remain_and_then_fails() -> None:
    """The policy that MindCluster's documentation gives jobs with retries."""
    raw = job("train", 2, ASCEND_910, 4, **{"fault-scheduling": "force", "fault-retry-times": "2"})
    raw["spec"]["policies"] = [{"event": "PodFailed", "action": "Ignore"}]
    simulation = simulated("910b-8", 1, raw)
    simulation.run()
    for _ in range(2):
        before = {pod["metadata"]["uid"] for pod in pods(simulation).values()}
        fail_all(simulation)
        assert [pod["status"]["phase"] for pod in pods(simulation).values()] == ["Running"] * 2
        assert before.isdisjoint(pod["metadata"]["uid"] for pod in pods(simulation).values())
    fail_all(simulation)
    (found,) = simulation.cluster.server.of(VCJOB)
    assert found["status"]["state"]["phase"] == "Failed"


def test_without_retries_a_vcjob_that_ignores_failures_fails_when_all_its_pods_have_ended() -> None:
    raw = job("train", 2, ASCEND_910, 4)
    raw["spec"]["policies"] = [{"event": "PodFailed", "action": "Ignore"}]
    simulation = simulated("910b-8", 1, raw)
    simulation.run()
    simulation.cluster.server.patch(POD, "default", "train-w-0", {"status": {"phase": "Failed"}})
    simulation.run(5)
    (found,) = simulation.cluster.server.of(VCJOB)
    assert found["status"]["state"]["phase"] == "Running"
    fail_all(simulation)
    (found,) = simulation.cluster.server.of(VCJOB)
    assert found["status"]["state"]["phase"] == "Failed"


def scaling_rule(*states: list[tuple[str, int]]) -> Raw:
    """A rule of states, each the numbers of instances of the groups."""
    groups = [
        {"group_list": [{"group_name": k, "group_num": str(n), "server_num_per_group": "2"} for k, n in state]}
        for state in states
    ]
    text = json.dumps({"version": "1.0", "elastic_scaling_list": groups})
    metadata = {"name": "rule", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"elastic_scaling.json": text}}


def test_a_service_on_a_cluster_without_room_for_all_instances_runs_in_a_ratio_of_its_scaling_rule() -> None:
    """Two nodes have room for two instances of 8 chips: not two for prefill, but one of each group."""
    rule = scaling_rule([("prefill", 2), ("decode", 1)], [("prefill", 1), ("decode", 1)])
    simulation = simulated("910b-8", 2, rule, instance("p0", "prefill", 4))
    simulation.run()
    for each in (instance("p1", "prefill", 4), instance("d0", "decode", 4)):
        assert simulation.cluster.server.create(ACJOB, each)
    simulation.run(20)
    running = {name for name, pod in pods(simulation).items() if pod["status"].get("phase") == "Running"}
    assert running == {"p0-master-0", "p0-worker-0", "d0-master-0", "d0-worker-0"}


def test_a_service_that_lost_a_node_gives_its_place_to_the_instance_that_the_smaller_state_needs() -> None:
    """The steps of MindCluster's documentation: decode fails, one prefill instance exits, decode takes its nodes."""
    rule = scaling_rule([("prefill", 2), ("decode", 1)], [("prefill", 1), ("decode", 1)])
    jobs = [instance("p0", "prefill", 4), instance("p1", "prefill", 4), instance("d0", "decode", 4)]
    for each in jobs:
        each["metadata"]["labels"] |= {"fault-scheduling": "force", "fault-retry-times": "100000000"}
    simulation = simulated("910b-8", 3, rule, *jobs)
    simulation.run()

    def running() -> set[str]:
        return {n.partition("-")[0] for n, pod in pods(simulation).items() if pod["status"].get("phase") == "Running"}

    assert running() == {"p0", "p1", "d0"}
    server = simulation.cluster.server
    node = pods(simulation)["d0-master-0"]["spec"]["nodeName"]
    server.patch(NODE, "", node, {"metadata": {"annotations": {FAULTS: '{"chips":{"3":{}}}'}}})
    simulation.run(15)
    assert running() == {"p0", "p1"}
    for name in ("p1-master-0", "p1-worker-0"):
        server.patch(POD, "default", name, {"status": {"phase": "Failed"}})
    simulation.run(20)
    assert running() == {"p0", "d0"}
    assert pods(simulation)["p1-master-0"]["status"].get("phase") == "Pending"


def test_pods_on_a_node_whose_kubelet_has_stopped_do_not_start() -> None:
    simulation = simulated("310p-8", 1, job("infer", 1, ASCEND_310P, 1))
    node = {"metadata": {"annotations": {FAULTS: '{"kubelet":"Stopped"}'}}}
    simulation.run(1)
    simulation.cluster.server.patch(NODE, "", "npu-310p-8-0", node)
    simulation.run(3)
    assert all(pod["status"].get("phase") != "Running" for pod in pods(simulation).values())
    assert simulation.cluster.server.of(NODE)[0]["status"]["conditions"][0]["status"] == "Unknown"


def test_a_malformed_node_or_pod_stops_no_other() -> None:
    simulation = simulated("910b-8", 2, job("train", 1, ASCEND_910, 4))
    broken = {"metadata": {"annotations": {FAULTS: "{"}}}
    simulation.cluster.server.patch(NODE, "", "npu-910b-8-0", broken)
    simulation.run()
    (pod,) = pods(simulation).values()
    assert (pod["status"]["phase"], pod["spec"]["nodeName"]) == ("Running", "npu-910b-8-1")
