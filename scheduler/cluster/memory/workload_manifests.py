"""The Pods and ReplicaSets that workload controllers create, with Kubernetes' names and labels.

A field of a workload that has the wrong type counts as absent.
"""

import copy
import hashlib
from typing import Any, Final

from scheduler.api.kinds import BATCH_JOB, DEPLOYMENT, POD, REPLICA_SET, Kind
from scheduler.api.names import LAST_APPLIED, POD_TEMPLATE_HASH
from scheduler.cluster.memory.raw_objects import Json

MAX_PODS: Final = 100_000
"""Pods of a workload; a larger number is assumed to be a mistake."""
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names."""
_MAX_PREFIX_LENGTH: Final = 58
"""Characters of a name before its generated part."""
_REVISION: Final = "deployment.kubernetes.io/revision"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"


def new_replica_set(deployment: Json, template_hash: str | None = None) -> Json:
    """The ReplicaSet of a Deployment's template, with the template's hash in its selector. ``template_hash``: the one
    that its Pods have."""
    meta, spec = deployment["metadata"], deployment.get("spec") or {}
    template = copy.deepcopy(spec["template"])
    digest = template_hash or _hash_suffix(f"{meta['namespace']}/{meta['name']}", 10)
    template["metadata"] = {**as_object(template.get("metadata"))}
    labels = template["metadata"]["labels"] = {**as_object(template["metadata"].get("labels"))}
    selector = as_object(spec.get("selector")) or {"matchLabels": dict(labels)}
    labels[POD_TEMPLATE_HASH] = digest
    annotations = {k: v for k, v in (meta.get("annotations") or {}).items() if k not in (LAST_APPLIED, _REVISION)}
    return {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.name,
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": dict(labels),
            **({"annotations": annotations} if annotations else {}),
            "ownerReferences": [_owner(DEPLOYMENT, deployment)],
        },
        "spec": {
            "replicas": count(spec, "replicas"),
            "selector": {
                **selector,
                "matchLabels": {**as_object(selector.get("matchLabels")), POD_TEMPLATE_HASH: digest},
            },
            "template": template,
        },
    }


def new_pod(kind: Kind, workload: Json, name: str, extra: dict[str, dict[str, str]]) -> Json:
    """A Pod from a workload's template. ``extra``: additional labels and annotations."""
    meta, template = workload["metadata"], workload["spec"]["template"]
    own = as_object(template.get("metadata"))
    written = {
        key: {**copy.deepcopy(as_object(own.get(key))), **extra.get(key, {})} for key in ("labels", "annotations")
    }
    return {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {
            **{key: value for key, value in written.items() if value},
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": [_owner(kind, workload)],
        },
        "spec": as_object(template.get("spec")),
    }


def job_labels(kind: Kind, workload: Json, index: int | None) -> dict[str, dict[str, str]]:
    """The labels and annotations that the Job controller adds to its Pods; empty for other workloads."""
    if kind is not BATCH_JOB:
        return {}
    meta, prefix = workload["metadata"], "batch.kubernetes.io/"
    names = {"controller-uid": meta["uid"], "job-name": meta["name"]}
    labels = {**names, **{f"{prefix}{key}": value for key, value in names.items()}}
    if index is None:
        return {"labels": labels}
    return {"labels": {**labels, COMPLETION_INDEX: str(index)}, "annotations": {COMPLETION_INDEX: str(index)}}


def _owner(kind: Kind, raw: Json) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": raw["metadata"]["name"],
        "uid": raw["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def as_object(value: Any) -> Json:
    """Returns the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def count(spec: Json, field: str, default: int = 1) -> int:
    value = spec.get(field, default)
    return min(max(value, 0), MAX_PODS) if isinstance(value, int) else default


def generated_name(prefix: str, uid: str, number: int) -> str:
    """A name like a generated one of the API server, but the same in every simulation."""
    return prefix[:_MAX_PREFIX_LENGTH] + _hash_suffix(f"{uid}/{number}", 5)


def _hash_suffix(text: str, length: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:length])
