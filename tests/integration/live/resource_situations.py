"""Situations with NPUs, volumes, quotas of namespaces, trees of queues, priorities and rollouts."""

import json
from typing import Any, Final

from scheduler.api.kinds import (
    ACJOB,
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    NODE,
    POD,
    PRIORITY_CLASS,
    QUEUE,
    RESOURCE_QUOTA,
    VCJOB,
    VOLUME,
)
from scheduler.api.names import ASCEND_910, DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE
from tests.integration.live.case import HELD, POOL, Case, Raw

_ATLAS: Final = {"ring-controller.atlas": "ascend-910"}
_CHIPS: Final = 8


# --- NPUs -------------------------------------------------------------------------------------------------------------
def _npu_server(case: Case, name: str, *, broken: tuple[int, ...] = ()) -> tuple[Raw, Raw]:
    """Builds a Node with eight chips, and the report of its device plugin. ``broken``: the unhealthy chips."""
    amounts = {ASCEND_910: str(_CHIPS)}
    node = case.node(name, 64, {"accelerator": "huawei-Ascend910"}, amounts=amounts)
    return node, _report(f"{case.name}-{name}", broken)


def _report(node: str, broken: tuple[int, ...]) -> Raw:
    chips = [[f"Ascend910-{i}" for i in range(_CHIPS) if (i in broken) == bad] for bad in (False, True)]
    lists = {ASCEND_910: ",".join(chips[0]), f"{ASCEND_910}-Unhealthy": ",".join(chips[1])}
    info = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}, "CheckCode": ""}
    meta = {"name": f"{DEVICE_INFO_CONFIGMAP_PREFIX}{node}", "namespace": DEVICE_INFO_NAMESPACE}
    return {
        "apiVersion": CONFIG_MAP.api_version,
        "kind": CONFIG_MAP.name,
        "metadata": {**meta, "labels": {"mx-consumer-cim": "true"}},
        "data": {"DeviceInfoCfg": json.dumps(info)},
    }


def _npu_job(case: Case, name: str, replicas: int, chips: int) -> Raw:
    made = case.vcjob(name, case.task("w", replicas, 1, spec={"requests": {ASCEND_910: str(chips)}, "labels": _ATLAS}))
    made["metadata"]["labels"] = dict(_ATLAS)
    rings = {"metadata": {"name": f"rings-config-{name}", "namespace": case.name, "labels": _ATLAS}}
    case.add({"apiVersion": "v1", "kind": "ConfigMap", **rings, "data": {"hccl.json": '{"status":"initializing"}'}})
    return made


def job_waits_for_chips(case: Case) -> None:
    chips = case.random.choice([4, 8])
    case.add(*_npu_server(case, "n1"), _npu_job(case, "first", 8 // chips, chips))
    case.then()
    case.add(_npu_job(case, "second", 8 // chips, chips))
    case.changes = [
        case.random.choice(
            [case.delete(VCJOB, "first"), case.command("AbortJob", "first"), case.command("TerminateJob", "first")]
        )
    ]


def job_gets_an_npu_server(case: Case) -> None:
    size = case.random.randint(2, 3)
    case.add(*_npu_server(case, "n1"), _npu_job(case, "train", size, 8))
    case.changes = [each for i in range(2, size + 1) for each in _npu_server(case, f"n{i}")]


def chips_become_healthy(case: Case) -> None:
    case.add(*_npu_server(case, "n1", broken=(case.random.randint(0, 7),)), _npu_job(case, "train", 1, 8))
    healthy = _report(f"{case.name}-n1", ())
    healthy["metadata"] = {**healthy["metadata"], "annotations": {"volcano-py/what-if": "merge"}}
    case.changes = [healthy]


def acjob_with_chips(case: Case) -> None:
    template = case.pod_template(1, requests={ASCEND_910: "8"}, labels=_ATLAS)
    case.add(*_npu_server(case, "n1"))
    made = case.acjob("ac", case.random.randint(1, 2), template)
    made["metadata"]["labels"] |= _ATLAS
    case.add(made)
    case.changes = (
        list(_npu_server(case, "n2"))
        if case.random.random() < 0.5
        else [case.merge(ACJOB, "ac", spec={"runPolicy": {"suspend": True}})]
    )


def acjob_has_ended(case: Case) -> None:
    outcome = case.random.choice(["succeed", "fail"])
    template = case.pod_template(1, {"volcano-py.test/outcome": outcome})
    case.add(case.node("n1", 2), case.acjob("ac", 2, template))
    case.then(case.vcjob("next", case.task("w", 1, 2)))
    case.changes = [case.delete(ACJOB, "ac")]


def acjob_terminates(case: Case) -> None:
    case.add(case.node("n1", 2), case.acjob("ac", 2, case.pod_template(1, HELD)))
    case.then(
        case.random.choice([case.delete(ACJOB, "ac"), case.merge(ACJOB, "ac", spec={"runPolicy": {"suspend": True}})])
    )
    case.changes = [case.vcjob("next", case.task("w", 1, 2))]


# --- priorities -------------------------------------------------------------------------------------------------------
def urgent_job_arrives(case: Case) -> None:
    name, value = f"{case.name}-urgent", case.random.randint(10, 1000)
    urgent = {
        "apiVersion": PRIORITY_CLASS.api_version,
        "kind": PRIORITY_CLASS.name,
        "metadata": {"name": name, "labels": {POOL: case.name}},
        "value": value,
    }
    size = case.random.randint(2, 4)
    low = case.vcjob("low", case.task("w", size, 1, 1))
    case.add(case.node("n1", size), urgent, low)
    high = case.vcjob("high", case.task("w", 1, 1, spec={"priorityClassName": name}), priorityClassName=name)
    if case.random.random() < 0.5:
        case.changes = [high]
    else:
        case.then(case.merge(NODE, f"{case.name}-n1", spec={"unschedulable": True}), high)
        case.changes = [case.merge(NODE, f"{case.name}-n1", spec={"unschedulable": None})]


# --- queues -----------------------------------------------------------------------------------------------------------
def tree_of_queues_is_closed(case: Case) -> None:
    job = case.vcjob("train", case.task("w", 1, 1), queue=f"{case.name}-child")
    case.add(case.node("n1", 2), case.further_queue("child", parent=case.name))
    case.then(job)
    case.then(case.queue_command("CloseQueue"))
    case.changes = [case.random.choice([case.queue_command("OpenQueue"), case.delete(VCJOB, "train")])]


def capability_is_lowered_below_what_is_used(case: Case) -> None:
    size = case.random.randint(2, 4)
    case.add(case.node("n1", 8), case.vcjob("train", case.task("w", size, 1)))
    case.then(case.merge(QUEUE, case.name, spec={"capability": {"cpu": "1"}}), case.vcjob("next", case.task("w", 1, 1)))
    case.changes = [case.random.choice([case.delete(VCJOB, "train"), case.command("RestartJob", "train")])]


# --- quotas, volumes, plugins -----------------------------------------------------------------------------------------
def quota_of_the_namespace(case: Case) -> None:
    meta = {"name": "pods", "namespace": case.name}
    case.add({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": {"pods": "0"}}})
    case.then(case.node("n1", 8), case.vcjob("train", case.task("w", 2, 1)))
    raised = case.merge(RESOURCE_QUOTA, "pods", spec={"hard": {"pods": "4"}})
    # A controller retries after a pause of up to a minute, which a change of the job shortens.
    touched = case.merge(VCJOB, "train", spec={"maxRetry": 5})
    case.changes = [raised, touched]


def pod_waits_for_a_claim(case: Case) -> None:
    shared: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": case.name}
    volume = {"apiVersion": "v1", "kind": VOLUME.name, "metadata": {"name": case.name, "labels": {POOL: case.name}}}
    volume |= {"spec": {**shared, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}}
    mounted = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    case.add(case.node("n1", 2), volume, case.pod("reads", 1, volumes=mounted))
    case.waiting = ("pod", "reads")
    claim = {"apiVersion": "v1", "kind": CLAIM.name, "metadata": {"name": "data", "namespace": case.name}}
    case.changes = [{**claim, "spec": {**shared, "resources": {"requests": {"storage": "1Gi"}}}}]


def job_with_plugins_restarts(case: Case) -> None:
    names = case.random.sample(["env", "svc", "ssh"], 2)
    task = case.task("w", 2, 1, annotations=HELD)
    case.add(case.node("n1", 4), case.vcjob("train", task, plugins={name: [] for name in names}))
    case.then(case.command("RestartJob", "train"))
    case.changes = [case.command("AbortJob", "train")]


# --- rollouts and kubelets --------------------------------------------------------------------------------------------
def rollout_is_paused(case: Case) -> None:
    case.add(case.node("n1", 2), case.deployment("web", 3, 1))
    template = {"metadata": {"annotations": {"version": "2"}}}
    case.then(case.merge(DEPLOYMENT, "web", spec={"template": template}))
    case.then(case.merge(DEPLOYMENT, "web", spec={"paused": True}))
    case.changes = [case.node("n2", 2)]


def kubelet_does_not_answer(case: Case) -> None:
    case.add(case.node("n1", 2, annotations={"volcano-py.test/ready": "false"}))
    case.steps[0][-1]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    case.add(case.vcjob("train", case.task("w", 2, 1, annotations=HELD)))
    gone = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    case.then(case.merge(NODE, f"{case.name}-n1", status=gone))
    case.then(case.command(case.random.choice(["AbortJob", "RestartJob"]), "train"))
    case.changes = [case.node("n2", 2)]


def job_arrives(case: Case) -> None:
    size = case.random.randint(1, 3)
    case.add(case.node("n1", 4), case.vcjob("first", case.task("w", 2, 1)))
    case.changes = [
        case.random.choice(
            [
                case.vcjob("second", case.task("w", size, 1)),
                case.deployment("web", size, 1),
                case.acjob("ac", size, case.pod_template(1)),
                case.pod("alone", 1),
            ]
        )
    ]


def one_of_many_pods_is_deleted(case: Case) -> None:
    policies = [{"event": "PodEvicted", "action": case.random.choice(["RestartJob", "RestartTask", "AbortJob"])}]
    case.add(case.node("n1", 4), case.vcjob("train", case.task("w", 3, 1, annotations=HELD), policies=policies))
    case.then(case.delete(POD, "train-w-1"))
    case.changes = [case.delete(VCJOB, "train")]


RESOURCES: Final = (
    job_waits_for_chips,
    job_gets_an_npu_server,
    chips_become_healthy,
    acjob_with_chips,
    acjob_has_ended,
    acjob_terminates,
    urgent_job_arrives,
    tree_of_queues_is_closed,
    capability_is_lowered_below_what_is_used,
    quota_of_the_namespace,
    pod_waits_for_a_claim,
    job_with_plugins_restarts,
    rollout_is_paused,
    kubelet_does_not_answer,
    job_arrives,
    one_of_many_pods_is_deleted,
)
