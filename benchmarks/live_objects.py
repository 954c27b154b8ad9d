"""A cluster as ``kubectl get -o json`` prints it: objects with owners, status and conditions (and without
managedFields, as since kubectl 1.21). ``plain`` leaves out the fields that only an API server adds, as in a written
manifest."""

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

from scheduler.api.names import GROUP_NAME, REASON_GANG_READY

Raw = dict[str, Any]
START = "2026-01-01T00:00:00Z"
CPUS = 64
GANG = 10
_IDS = uuid.UUID("0b0fd0a1-6d5c-4b1e-9a52-0f4b0b9a0c11")


def cluster(
    nodes: int, pods: int, *, size: int = GANG, plain: bool = False, bound: bool = True
) -> Iterator[Raw]:  # fmt: skip
    """Nodes that gangs of ``size`` Pods in two queues fill; ``bound``: whether every Pod runs, otherwise it waits."""
    for name, spec in {
        "research": {"weight": 2, "reclaimable": True},
        "batch": {"weight": 1, "reclaimable": True},
        "narrow": {"weight": 1, "reclaimable": True, "capability": {"cpu": "16"}},
    }.items():
        yield _object("scheduling.volcano.sh/v1beta1", "Queue", "", name, plain, spec=spec, status={"state": "Open"})
    for name, value in (("low", 10), ("high", 1000)):
        yield _object("scheduling.k8s.io/v1", "PriorityClass", "", name, plain, value=value)
    for i in range(nodes):
        yield _node(i, plain)
    each = max(-(-pods // nodes), 1)
    for i in range(pods // size):
        queue = ("research", "batch")[i % 2]
        hosts = [node_name((i * size + j) // each) for j in range(size)] if bound else []
        yield from gang(f"train-{i:05d}", queue, size, str(CPUS // each), hosts=hosts, plain=plain)


def node_name(i: int) -> str:
    return f"node-{i:05d}"


def gang(
    name: str, queue: str, size: int, cpu: str, *, hosts: list[str] | None = None, plain: bool = False,
    priority: str = "low",
) -> Iterator[Raw]:  # fmt: skip
    """A PodGroup and its Pods, which run on ``hosts`` or wait."""
    scheduled = {
        "type": "Scheduled", "status": "True", "reason": REASON_GANG_READY, "transitionID": "1",
        "lastTransitionTime": START,
    }  # fmt: skip
    status = {"phase": "Running", "running": size, "conditions": [scheduled]} if hosts else {"phase": "Pending"}
    owner = _owner("batch.volcano.sh/v1alpha1", "Job", name)
    spec = {"minMember": size, "queue": queue, "priorityClassName": priority}
    version = "scheduling.volcano.sh/v1beta1"
    yield _object(version, "PodGroup", "jobs", name, plain, owner=owner, spec=spec, status=status)
    for j in range(size):
        yield _pod(f"{name}-worker-{j}", name, cpu, (hosts or [""] * size)[j], plain, owner, priority)


def _object(
    version: str, kind: str, namespace: str, name: str, plain: bool, *, owner: Raw | None = None,
    labels: Raw | None = None, annotations: Raw | None = None, **rest: Any,
) -> Raw:  # fmt: skip
    metadata: Raw = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata |= {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
    if plain:
        kept = rest if kind == "Node" or (rest.get("status") or {}).get("phase") == "Running" else _without_status(rest)
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **kept}
    digest = hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()
    metadata |= {
        "creationTimestamp": START,
        "uid": _uid(kind, name),
        "resourceVersion": str(int(digest[:6], 16)),
        "generation": 1,
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _without_status(rest: Raw) -> Raw:
    return {key: value for key, value in rest.items() if key != "status"}


def _uid(kind: str, name: str) -> str:
    return str(uuid.uuid5(_IDS, f"{kind}/{name}"))


def _owner(version: str, kind: str, name: str) -> Raw:
    return {
        "apiVersion": version, "kind": kind, "name": name, "uid": _uid(kind, name),
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip


def _conditions(*types: str) -> list[Raw]:
    return [{"type": t, "status": "True", "lastProbeTime": None, "lastTransitionTime": START} for t in types]


def _node(i: int, plain: bool) -> Raw:
    name = node_name(i)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "topology.kubernetes.io/zone": f"zone-{i % 10}",
    }
    amounts = {"cpu": str(CPUS), "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    if plain:
        return _object("v1", "Node", "", name, plain, labels=labels, status={"allocatable": amounts})
    status = {
        "allocatable": amounts,
        "capacity": amounts,
        "addresses": [{"type": "InternalIP", "address": f"10.{i // 65536}.{i // 256 % 256}.{i % 256}"}],
        "conditions": _conditions("Ready"),
        "images": [
            {"names": [f"registry.example.com/train@sha256:{i:064x}", f"registry.example.com/train:{tag}"],
             "sizeBytes": 1 << 30}
            for tag in range(20)
        ],
        "nodeInfo": {"kernelVersion": "6.6.0", "kubeletVersion": "v1.36.1", "operatingSystem": "linux"},
    }  # fmt: skip
    spec = {"podCIDR": f"10.{i // 256}.{i % 256}.0/24", "podCIDRs": [f"10.{i // 256}.{i % 256}.0/24"]}
    return _object("v1", "Node", "", name, plain, labels=labels, spec=spec, status=status)


def _pod(name: str, group: str, cpu: str, node: str, plain: bool, owner: Raw, priority: str) -> Raw:
    index = name.rpartition("-")[2]
    labels = {"volcano.sh/job-name": group, "volcano.sh/task-index": index, "volcano.sh/task-spec": "worker"}
    annotations = {GROUP_NAME: group, "volcano.sh/task-spec": "worker"}
    amounts = {"cpu": cpu, "memory": "8Gi"}
    container: Raw = {"name": "main", "image": "registry.example.com/train:1", "resources": {"requests": amounts}}
    spec: Raw = {"schedulerName": "volcano-py", "priorityClassName": priority, "containers": [container]}
    if node:
        spec["nodeName"] = node
    status: Raw = {"phase": "Running" if node else "Pending"}
    if not plain:
        container |= {
            "command": ["python", "train.py", "--rank", index], "imagePullPolicy": "IfNotPresent",
            "env": [{"name": "RANK", "value": index}, {"name": "WORLD_SIZE", "value": str(GANG)}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
        }  # fmt: skip
        token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
        spec |= {
            "restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
            "securityContext": {}, "serviceAccountName": "default", "enableServiceLinks": True, "priority": 10,
            "preemptionPolicy": "PreemptLowerPriority",
            "volumes": [{"name": "token", "projected": {"sources": [token]}}],
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ],
        }  # fmt: skip
        if node:
            status |= {
                "conditions": _conditions("Initialized", "Ready", "ContainersReady", "PodScheduled"),
                "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "qosClass": "Burstable",
                "startTime": START,
                "containerStatuses": [
                    {"name": "main", "image": "registry.example.com/train:1", "ready": True, "restartCount": 0,
                     "started": True, "state": {"running": {"startedAt": START}}, "lastState": {}}
                ],
            }  # fmt: skip
    return _object(
        "v1", "Pod", "jobs", name, plain, owner=owner, labels=labels, annotations=annotations, spec=spec, status=status
    )
