"""The encoding for extenders: Volcano's fields, original objects, and the state of the session."""

import json
from typing import Any

import msgspec

from scheduler.api.usage import NodeUsage
from scheduler.cluster.memory import Simulation
from scheduler.framework.session import Session
from scheduler.plugins.extender.wire import ExtenderObjects
from tests.builders import NAME, World, configuration, group, manifests, node, pod, queue
from tests.unit.plugins.extender.extenders import FakeExtender, conf

TASK = (
    "UID Job Name Namespace TaskRole Resreq InitResreq DRAResreq ResourceClaimKeys ResourceClaimDRAResreq NodeName "
    "EvictionOccurred JobAllocatedHyperNode Status LastTransaction Priority VolumeReady Preemptable BestEffort "
    "HasRestartableInitContainer SchGated RevocableZone NumaInfo Pod PodAnnotations CustomBindErrHandlerSucceeded"
)
NODE = (
    "Name Node State Releasing Pipelined Idle Used Allocatable Capacity ResourceUsage Tasks NumaInfo "
    "UnassignedNumaPods NumaSchedulerInfo RevocableZone Others OversubscriptionNode OfflineJobEvicting "
    "OversubscriptionResource ImageStates Generation BindGeneration"
)
JOB = (
    "UID PgUID Name Namespace Queue Priority MinAvailable WaitingTime JobFitErrors NodesFitErrors AllocatedHyperNode "
    "NetworkTopology SubJobs TaskToSubJob MinSubJobs TaskStatusIndex Tasks TaskMinAvailable TaskMinAvailableTotal "
    "Allocated TotalRequest CreationTimestamp PodGroup ScheduleStartTimestamp Preemptable RevocableZone Budget"
)
SUB_JOB = (
    "GID UID Job MinAvailable Priority MatchIndex Tasks TaskStatusIndex AllocatedHyperNode NominatedHyperNode "
    "NetworkTopology"
)
SHOWING = configuration(["extender"])


def shown(value: object) -> Any:
    return json.loads(msgspec.json.encode(value))


def session_of(*objects: Any) -> Session:
    """A session over a cluster that keeps objects as they were written."""
    made = World()
    made.cluster.cache.configure(SHOWING)
    made.cluster.load(manifests(*objects))
    return made.session(SHOWING)


def task_of(session: Session, job: str, name: str) -> Any:
    found = next(task for task in session.jobs[job].tasks() if task.name == name)
    return session.jobs[job], found


def test_a_task_has_volcanos_fields_and_its_original_pod() -> None:
    asks = {"requests": {"cpu": "1", "example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}
    written = pod(
        "g-w-0",
        group="g",
        role="w",
        annotations={"note": "hi", "volcano.sh/preemptable": "false", "volcano.sh/numa-topology-policy": "restricted"},
        containers=[{"name": "c", "resources": asks, "command": ["sleep"]}],
        initContainers=[{"name": "i", "restartPolicy": "Always"}],
    )
    session = session_of(group("g"), written)
    answer = shown(ExtenderObjects(session.plugin_session).task(*task_of(session, "default/g", "g-w-0")))
    assert set(answer) == set(TASK.split())
    assert answer["Resreq"] == {
        "MilliCPU": 1000,
        "Memory": 0,
        "ScalarResources": {"example.com/gpu": 2000, "pods": 1},
        "MaxTaskNum": 0,
    }
    assert (answer["Job"], answer["TaskRole"], answer["Status"], answer["NodeName"]) == ("default/g", "w", 1, "")
    assert (answer["Preemptable"], answer["HasRestartableInitContainer"]) == (False, True)
    assert answer["NumaInfo"] == {"Policy": "restricted", "ResMap": {}}
    assert answer["Pod"]["spec"]["containers"][0]["command"] == ["sleep"]
    assert answer["Pod"]["metadata"]["annotations"] == answer["PodAnnotations"] == written["metadata"]["annotations"]


def test_a_placed_task_has_its_node_and_a_deallocated_task_its_previous_status() -> None:
    session = session_of(node("n1"), group("g"), pod("p", "1c", "g"))
    job, task = task_of(session, "default/g", "p")
    statement = session.statement()
    statement.allocate(job, [task], [0])
    answer = shown(ExtenderObjects(session.plugin_session).task(job, task))
    assert (answer["Status"], answer["NodeName"], answer["Pod"]["spec"]["nodeName"]) == (2, "n1", "n1")
    statement.discard()
    answer = shown(ExtenderObjects(session.plugin_session).task(job, task))
    assert (answer["Status"], answer["NodeName"], "nodeName" in answer["Pod"]["spec"]) == (1, "", False)
    assert (answer["LastTransaction"]["Status"], answer["LastTransaction"]["NodeName"]) == (2, "n1")


def test_a_node_has_all_its_tasks_and_amounts() -> None:
    machine = node("n1", "4c+8Gi+example.com/gpu=2", {"volcano.sh/revocable-zone": "z"})
    machine["metadata"]["annotations"] = {"note": "hi"}
    machine["status"]["capacity"] = {"cpu": "5", "memory": "9Gi", "pods": "110", "example.com/gpu": "2"}
    machine["status"]["images"] = [{"names": ["busybox"], "sizeBytes": 1000}]
    objects = [machine, node("n2"), group("g", phase="Running"), pod("p", "1c", "g", on="n1")]
    session = session_of(*objects, pod("other", "1c", on="n1", scheduler="other"), pod("orphan", "1c", "gone", on="n1"))
    answer = shown(ExtenderObjects(session.plugin_session).node(0))
    assert set(answer) == set(NODE.split())
    assert answer["Idle"] == {
        "MilliCPU": 1000,
        "Memory": 8 * 2**30,
        "ScalarResources": {"pods": 107, "example.com/gpu": 2000},
        "MaxTaskNum": 110,
    }
    assert answer["Used"]["MilliCPU"] == 3000 and answer["Used"]["MaxTaskNum"] == 0
    assert answer["Capacity"]["MilliCPU"] == 5000 and answer["Allocatable"]["MilliCPU"] == 4000
    assert answer["Node"]["metadata"]["annotations"] == {"note": "hi"}
    assert set(answer["Tasks"]) == {"default/p", "default/other", "default/orphan"}
    assert answer["RevocableZone"] == "z"
    assert answer["ImageStates"] == {"busybox": {"Size": 1000, "NumNodes": 1, "Nodes": None}}
    assert answer["ResourceUsage"] == {"MetricsTime": "0001-01-01T00:00:00Z", "CPUUsageAvg": {}, "MEMUsageAvg": {}}


def test_a_node_has_its_state_after_placements_and_evictions_of_the_session() -> None:
    session = session_of(
        node("n1"), group("g"), pod("p", "1c", "g"), group("h", phase="Running"), pod("old", "1c", "h", on="n1")
    )
    wire = ExtenderObjects(session.plugin_session)
    assert set(shown(wire.node(0))["Tasks"]) == {"default/old"}
    job, task = task_of(session, "default/g", "p")
    statement = session.statement()
    victim_job, victim = task_of(session, "default/h", "old")
    statement.evict(victim_job, victim, "test")
    statement.allocate(job, [task], [0])
    tasks = shown(wire.node(0))["Tasks"]
    assert {name: entry["Status"] for name, entry in tasks.items()} == {"default/old": 64, "default/p": 2}
    statement.discard()
    tasks = shown(wire.node(0))["Tasks"]
    assert {name: entry["Status"] for name, entry in tasks.items()} == {"default/old": 32}


def test_a_node_has_its_measured_usage() -> None:
    made = World(node("n1"))
    made.cluster.cache.take_usage({"n1": NodeUsage(12.5, 30.0, 1769850000.0)})
    usage = shown(ExtenderObjects(made.session(SHOWING).plugin_session).node(0))["ResourceUsage"]
    assert usage == {
        "MetricsTime": "2026-01-31T09:00:00+00:00",
        "CPUUsageAvg": {"10m": 12.5},
        "MEMUsageAvg": {"10m": 30.0},
    }


def test_a_job_has_its_tasks_by_status_and_its_pod_group() -> None:
    annotations = {"volcano.sh/preemptable": "true", "sla-waiting-time": "1h", "volcano.sh/jdb-max-unavailable": "10%"}
    written = group("g", minimum=1, roles={"w": 1}, asks="1c", annotations=annotations)
    session = session_of(node("n1"), written, pod("p", "1c", "g", role="w"), pod("q", "1c", "g", role="w", on="n1"))
    job = session.jobs["default/g"]
    job.phase = "Inqueue"
    answer = shown(ExtenderObjects(session.plugin_session).job(job))
    assert set(answer) == set(JOB.split())
    uids = {task.name: task.uid for task in job.tasks()}
    assert set(answer["Tasks"]) == set(uids.values())
    assert set(answer["TaskStatusIndex"]["1"]) == {uids["p"]} and set(answer["TaskStatusIndex"]["32"]) == {uids["q"]}
    assert answer["TaskMinAvailable"] == {"w": 1} and answer["TaskMinAvailableTotal"] == 1
    assert answer["Allocated"]["MilliCPU"] == 1000 and answer["TotalRequest"]["MilliCPU"] == 2000
    assert answer["WaitingTime"] == 3600 * 10**9
    assert (answer["Preemptable"], answer["RevocableZone"]) == (True, "*")
    assert answer["Budget"] == {"MinAvailable": "", "MaxUnavailable": "10%"}
    assert answer["PodGroup"]["status"]["phase"] == "Inqueue" and answer["PodGroup"]["Version"] == "v1beta1"
    assert answer["PodGroup"]["spec"]["minResources"] == {"cpu": "1"}
    (part,) = answer["SubJobs"].values()
    assert set(part) == set(SUB_JOB.split()) and set(part["Tasks"]) == set(uids.values())
    assert answer["TaskToSubJob"] == dict.fromkeys(uids.values(), "default/g")


def test_a_queue_has_its_position_in_the_hierarchy() -> None:
    written = queue("q", weight=3, capability="4c")
    written["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/q", "volcano.sh/hierarchy-weights": "1/2"}
    session = session_of(written)
    answer = shown(ExtenderObjects(session.plugin_session).queue(session.queues["q"]))
    assert set(answer) == {"UID", "Name", "Weight", "Weights", "Hierarchy", "Queue"}
    assert (answer["Weight"], answer["Hierarchy"], answer["Weights"]) == (3, "root/q", "1/2")
    assert answer["Queue"]["spec"]["capability"] == {"cpu": "4"}


def test_a_session_has_all_jobs_nodes_and_queues() -> None:
    quota: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "rq", "namespace": "default"},
    }
    quota["status"] = {"hard": {"cpu": "4"}}
    session = session_of(node("n1", labels={"volcano.sh/revocable-zone": "z"}), node("n2"), group("g"), quota)
    answer = shown(ExtenderObjects(session.plugin_session).session())
    assert set(answer) == {"Jobs", "Nodes", "Queues", "NamespaceInfo", "RevocableNodes", "NodeList"}
    assert set(answer["Jobs"]) == {"default/g"} and set(answer["Nodes"]) == {"n1", "n2"}
    assert set(answer["RevocableNodes"]) == {"n1"} and answer["NodeList"] is None
    assert answer["NamespaceInfo"]["default"]["QuotaStatus"]["rq"] == {"hard": {"cpu": "4"}}


def test_objects_without_an_original_are_reconstructed() -> None:
    made = World(node("n1"), group("g", asks="1c"), pod("p", "1c", "g", role="w", labels={"a": "b"}), queue("q"))
    session = made.session(SHOWING)
    wire = ExtenderObjects(session.plugin_session)
    job, task = task_of(session, "default/g", "p")
    pod_ = shown(wire.task(job, task))["Pod"]
    assert pod_["metadata"]["labels"] == {"a": "b"}
    assert pod_["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert shown(wire.node(0))["Node"]["metadata"]["name"] == "n1"
    assert shown(wire.job(job))["PodGroup"]["spec"]["minResources"] == {"cpu": "1"}
    assert shown(wire.queue(session.queues["q"]))["Queue"]["metadata"]["name"] == "q"


def test_a_simulation_keeps_original_objects_if_an_extender_is_configured() -> None:
    extender = FakeExtender()
    objects = manifests(node("n1"), group("g"), pod("p", "1c", "g", containers=[{"name": "c", "command": ["sleep"]}]))
    settings = conf("predicate")
    Simulation(objects, settings, [NAME], external_calls=extender).run(1)
    (question,) = extender.questions("predicate")
    assert question["task"]["Pod"]["spec"]["containers"][0]["command"] == ["sleep"]
