"""What kube-controller-manager makes of Deployments, ReplicaSets, StatefulSets and batch/v1 Jobs, for a simulation.

Their Pods are made, with names and owners; rollouts, updates and completions are not simulated.
"""

import copy
import hashlib

from scheduler.api.kinds import BATCH_JOB, CLAIM, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, Kind
from scheduler.cluster.memory.server import Json, MemoryServer

MOST_PODS = 100_000
"""Of one workload; more is taken for a slip of the keyboard."""


def make_pods(server: MemoryServer) -> bool:
    """Create the ReplicaSets and Pods that are missing; whether there were any."""
    made = False
    for raw in server.of(DEPLOYMENT):
        made |= _make_replica_set(server, raw)
    for kind, ordinal, field in (
        (REPLICA_SET, False, "replicas"),
        (STATEFUL_SET, True, "replicas"),
        (BATCH_JOB, False, "parallelism"),
    ):
        for raw in server.of(kind):
            made |= _make_pods(server, kind, raw, ordinal, field)
    return made


def _make_replica_set(server: MemoryServer, deployment: Json) -> bool:
    meta, spec = deployment["metadata"], deployment.get("spec") or {}
    digest = _suffix(f"{meta['namespace']}/{meta['name']}", 10)
    name = f"{meta['name']}-{digest}"
    if server.find(REPLICA_SET, meta["namespace"], name) is not None:
        return False
    template = copy.deepcopy(spec.get("template") or {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels["pod-template-hash"] = digest
    manifest = {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.name,
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": dict(labels),
            **({"annotations": dict(meta["annotations"])} if meta.get("annotations") else {}),
            "ownerReferences": [_owner(DEPLOYMENT, deployment)],
        },
        "spec": {"replicas": _count(spec, "replicas"), "template": template},
    }
    return server.create(REPLICA_SET, manifest)


def _make_pods(server: MemoryServer, kind: Kind, workload: Json, ordinal: bool, field: str) -> bool:
    meta, spec = workload["metadata"], workload.get("spec") or {}
    template = spec.get("template")
    if not isinstance(template, dict):
        return False
    made = False
    pod = template.get("spec") or {}
    for i in range(_count(spec, field)):
        suffix = str(i) if ordinal else _suffix(f"{meta['uid']}/{i}", 5)
        own = template.get("metadata") or {}
        manifest = {
            "apiVersion": POD.api_version,
            "kind": POD.name,
            "metadata": {
                **{k: copy.deepcopy(own[k]) for k in ("labels", "annotations") if own.get(k)},
                "name": f"{meta['name']}-{suffix}",
                "namespace": meta["namespace"],
                "ownerReferences": [_owner(kind, workload)],
            },
            "spec": _with_claims(server, workload, i, pod) if ordinal else pod,
        }
        made |= server.create(POD, manifest)
    return made


def _with_claims(server: MemoryServer, stateful_set: Json, number: int, pod: Json) -> Json:
    """The spec of a StatefulSet's Pod with the claims of its own, which are made, and stay when the Pod goes."""
    meta, mounted = stateful_set["metadata"], []
    for template in (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ():
        if not isinstance(template, dict):
            continue
        own = template.get("metadata") or {}
        name = f"{own.get('name', '')}-{meta['name']}-{number}"
        claim = {
            "apiVersion": CLAIM.api_version,
            "kind": CLAIM.name,
            "metadata": {
                **{k: copy.deepcopy(own[k]) for k in ("labels", "annotations") if own.get(k)},
                "name": name,
                "namespace": meta["namespace"],
            },
            "spec": template.get("spec") or {},
        }
        server.create(CLAIM, claim)
        mounted.append({"name": own.get("name", ""), "persistentVolumeClaim": {"claimName": name}})
    names = {volume["name"] for volume in mounted}
    return {**pod, "volumes": [*(v for v in pod.get("volumes") or () if v.get("name") not in names), *mounted]}


def _owner(kind: Kind, raw: Json) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": raw["metadata"]["name"],
        "uid": raw["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _count(spec: Json, field: str) -> int:
    value = spec.get(field, 1)
    return min(max(value, 0), MOST_PODS) if isinstance(value, int) else 1


def _suffix(text: str, length: int) -> str:
    """As the random part of a generated name, but the same every time."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]
