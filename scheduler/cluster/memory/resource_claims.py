"""The ResourceClaim controller of a simulation.

Creates claims from templates, and removes the reservations of Pods that have finished or no longer exist.
"""

import copy
import hashlib

from scheduler.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from scheduler.api.names import CLAIM_FINALIZER, POD_CLAIM_NAME
from scheduler.api.objects import ENDED_PHASES
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer


def sync_claims(server: MemoryServer) -> bool:
    """Creates missing claims and deallocates unused ones. Returns whether anything changed."""
    if not server.of(RESOURCE_CLAIM) and not server.of(RESOURCE_CLAIM_TEMPLATE):
        return False
    changed = False
    active: set[str] = set()
    for pod in server.of(POD):
        if (pod.get("status") or {}).get("phase") not in ENDED_PHASES:
            active.add(pod["metadata"]["uid"])
            changed |= _create_claims(server, pod)
    for claim in server.of(RESOURCE_CLAIM):
        changed |= _release(server, claim, active)
    return changed


def _create_claims(server: MemoryServer, pod: Json) -> bool:
    """Creates a Pod's claims from their templates and records them in the Pod's status."""
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    meta, status = pod["metadata"], pod.get("status") or {}
    statuses = list(status.get("resourceClaimStatuses") or ())
    known = {entry["name"] for entry in statuses}
    for entry in entries:
        template = server.find(RESOURCE_CLAIM_TEMPLATE, meta["namespace"], entry.get("resourceClaimTemplateName") or "")
        if template is None or entry["name"] in known:
            continue
        name = f"{meta['name']}-{entry['name']}-{hashlib.sha256(meta['uid'].encode()).hexdigest()[:5]}"
        server.create(RESOURCE_CLAIM, _claim(name, entry["name"], pod, template))
        statuses.append({"name": entry["name"], "resourceClaimName": name})
    if len(statuses) == len(known):
        return False
    server.update(
        POD, meta["namespace"], meta["name"], {**pod, "status": {**status, "resourceClaimStatuses": statuses}}
    )
    return True


def _claim(name: str, entry: str, pod: Json, template: Json) -> Json:
    spec, meta = template.get("spec") or {}, pod["metadata"]
    template_meta = spec.get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.name,
        "metadata": {
            **({"labels": dict(template_meta["labels"])} if template_meta.get("labels") else {}),
            "annotations": {**(template_meta.get("annotations") or {}), POD_CLAIM_NAME: entry},
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": copy.deepcopy(spec.get("spec") or {}),
    }


def _release(server: MemoryServer, claim: Json, active: set[str]) -> bool:
    """Removes the reservations of inactive Pods, deallocates a claim without reservations, and deletes one whose owner
    is inactive."""
    meta, status = claim["metadata"], claim.get("status") or {}
    owners = [owner["uid"] for owner in meta.get("ownerReferences") or () if owner.get("kind") == "Pod"]
    if owners and not active.intersection(owners) and not meta.get("deletionTimestamp"):
        server.delete(RESOURCE_CLAIM, meta["namespace"], meta["name"])
        deleted = server.find(RESOURCE_CLAIM, meta["namespace"], meta["name"])
        if deleted is not None:  # until it is deallocated, its finalizer keeps it
            _release(server, deleted, active)
        return True
    reserved = status.get("reservedFor") or []
    left = [reference for reference in reserved if reference.get("uid") in active]
    finalizers = meta.get("finalizers") or []
    if left == reserved and (left or CLAIM_FINALIZER not in finalizers):
        return False
    new_status = {key: value for key, value in status.items() if key != "reservedFor"}
    if left:
        new_status["reservedFor"] = left
    else:
        new_status.pop("allocation", None)
        new_status.pop("devices", None)
        meta = {**meta, "finalizers": [name for name in finalizers if name != CLAIM_FINALIZER]}
    server.update(RESOURCE_CLAIM, meta["namespace"], meta["name"], {**claim, "metadata": meta, "status": new_status})
    return True
