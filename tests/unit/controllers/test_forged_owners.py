"""A tenant who knows the uids of objects of another namespace creates copies of all that they own in a namespace of its
own: nothing changes in the other namespace."""

from typing import Any

from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CONFIG_MAP,
    CRON_JOB,
    DEPLOYMENT,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD,
    POD_GROUP,
    REPLICA_SET,
    VCJOB,
    Kind,
)
from scheduler.cluster.memory.simulation import Simulation
from tests.builders import NAME, Raw, configuration, manifests
from tests.unit.plugins.ascend.chips import device_info, npu_node

CONFIGURATION = configuration(["gang", "ascend", "priority"], ["predicates"])
NODES = ("a", "b", "c", "d")
CYCLES = 14
FORGED = (POD, POD_GROUP, VCJOB, REPLICA_SET)
ATLAS = {"ring-controller.atlas": "ascend-910"}


def template(name: str, chips: int = 0) -> Raw:
    requests = {"cpu": "1"} | ({"huawei.com/Ascend910": str(chips)} if chips else {})
    container = {"name": name, "image": "x", "resources": {"requests": requests, "limits": requests}}
    spec = {"schedulerName": NAME, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"labels": {"app": "web", **ATLAS}}, "spec": spec}


def body(kind: Kind, name: str, spec: Raw, **metadata: Any) -> Raw:
    meta = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec}


def job_spec(chips: int = 0) -> Raw:
    policies = [{"event": "PodFailed", "action": "RestartJob"}, {"event": "TaskCompleted", "action": "CompleteJob"}]
    task = {"name": "t", "replicas": 2, "template": template("c", chips)}
    return {"schedulerName": NAME, "queue": "default", "policies": policies, "tasks": [task]}


def rings(name: str) -> Raw:
    raw = body(CONFIG_MAP, f"rings-config-{name}", {}, labels=ATLAS)
    return {**raw, "data": {"hccl.json": '{"status":"initializing"}'}}


def objects() -> list[Raw]:
    role = {"replicas": 1, "template": template("ascend", 2)}
    replica_specs = {"Master": role, "Worker": role}
    flow = {"flows": [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]}
    web = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("c", 1)}
    return [
        *(raw for name in NODES for raw in (npu_node(name), device_info(name, [*range(8)]))),
        *map(rings, ("train", "npu", "web")),
        body(VCJOB, "train", job_spec(2), labels=ATLAS),
        body(
            ACJOB,
            "npu",
            {"schedulerName": NAME, "replicaSpecs": replica_specs},
            labels={"framework": "pytorch", **ATLAS},
        ),
        body(JOB_TEMPLATE, "a", job_spec()),
        body(JOB_TEMPLATE, "b", job_spec()),
        body(JOB_FLOW, "flow", flow),
        body(
            CRON_JOB,
            "cron",
            {"schedule": "@every 3s", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": job_spec()}},
        ),
        body(DEPLOYMENT, "web", web, labels=ATLAS),
        body(BATCH_JOB, "batch", {"parallelism": 2, "completions": 4, "template": template("c")}),
    ]


class World:
    def __init__(self) -> None:
        self.simulation = Simulation(manifests(*objects()), CONFIGURATION, [NAME])
        self.server = self.simulation.cluster.server

    def forge(self) -> None:
        """Copies all owned objects into another namespace, as failed and as completed objects."""
        for kind in FORGED:
            for raw in self.server.of(kind):
                meta = raw["metadata"]
                if meta["namespace"] != "default" or not meta.get("ownerReferences"):
                    continue
                kept = {key: meta[key] for key in ("name", "labels", "annotations", "ownerReferences") if key in meta}
                phase = "Failed" if len(meta["name"]) % 2 else "Succeeded"
                status = {"phase": phase} if kind is not VCJOB else {"state": {"phase": "Completed"}}
                spec = {**raw["spec"], **({"schedulerName": "other", "nodeName": ""} if kind is POD else {})}
                copy = {**raw, "metadata": {**kept, "namespace": "evil"}, "spec": spec, "status": status}
                self.server.create(kind, copy)
                if kind is POD and len(meta["name"]) % 3 == 0:
                    self.server.delete(POD, "evil", meta["name"])

    def victims(self) -> list[Raw]:
        """The objects of the other namespace, and the Events about them."""
        objects = self.simulation.cluster.objects()
        return [without_versions(raw) for raw in objects if raw["metadata"].get("namespace") == "default"]


def without_versions(value: Any) -> Any:
    """The value without resource versions, which count the writes of all."""
    if isinstance(value, list):
        return [without_versions(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: without_versions(each) for key, each in value.items() if key != "resourceVersion"}


def test_copies_of_owned_objects_in_another_namespace_change_nothing() -> None:
    alone, attacked = World(), World()
    for _ in range(CYCLES):
        for world in (alone, attacked):
            world.simulation.cycle()
        attacked.forge()
        assert attacked.victims() == alone.victims()
    kinds = {raw["kind"] for raw in alone.victims()}
    assert {"Pod", "PodGroup", "Job", "ReplicaSet", "Event"} <= kinds
    assert any(raw["metadata"]["namespace"] == "evil" for raw in attacked.server.of(POD))
    tables = [raw["data"]["hccl.json"] for raw in alone.server.of(CONFIG_MAP) if "hccl.json" in (raw.get("data") or {})]
    assert len(tables) == 3
