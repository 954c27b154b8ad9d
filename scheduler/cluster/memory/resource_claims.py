"""What kube-controller-manager makes of ResourceClaims, for a simulation: claims from templates for the Pods that want
them, and an end to the reservations of Pods that are gone or have finished."""

import copy
import hashlib

from scheduler.api.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from scheduler.api.names import CLAIM_FINALIZER, POD_CLAIM_NAME
from scheduler.api.objects import ENDED_PHASES
from scheduler.cluster.memory.server import Json, MemoryServer


def keep_claims(server: MemoryServer) -> bool:
    """Make claims that are missing, free those that nobody uses any more; whether there were any."""
    if not server.of(RESOURCE_CLAIM) and not server.of(RESOURCE_CLAIM_TEMPLATE):
        return False
    changed = False
    alive: set[str] = set()
    for pod in server.of(POD):
        if (pod.get("status") or {}).get("phase") not in ENDED_PHASES:
            alive.add(pod["metadata"]["uid"])
            changed |= _make_claims(server, pod)
    for claim in server.of(RESOURCE_CLAIM):
        changed |= _release(server, claim, alive)
    return changed


def _make_claims(server: MemoryServer, pod: Json) -> bool:
    """Make what the entries of ``spec.resourceClaims`` name templates for, and note it in the Pod's status."""
    entries = (pod.get("spec") or {}).get("resourceClaims") or ()
    meta, status = pod["metadata"], pod.get("status") or {}
    noted = list(status.get("resourceClaimStatuses") or ())
    known = {entry["name"] for entry in noted}
    for entry in entries:
        template = server.find(RESOURCE_CLAIM_TEMPLATE, meta["namespace"], entry.get("resourceClaimTemplateName") or "")
        if template is None or entry["name"] in known:
            continue
        name = f"{meta['name']}-{entry['name']}-{hashlib.sha256(meta['uid'].encode()).hexdigest()[:5]}"
        server.create(RESOURCE_CLAIM, _claim(name, entry["name"], pod, template))
        noted.append({"name": entry["name"], "resourceClaimName": name})
    if len(noted) == len(known):
        return False
    server.update(POD, meta["namespace"], meta["name"], {**pod, "status": {**status, "resourceClaimStatuses": noted}})
    return True


def _claim(name: str, entry: str, pod: Json, template: Json) -> Json:
    pattern, meta = template.get("spec") or {}, pod["metadata"]
    own = pattern.get("metadata") or {}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "apiVersion": RESOURCE_CLAIM.api_version,
        "kind": RESOURCE_CLAIM.name,
        "metadata": {
            **({"labels": dict(own["labels"])} if own.get("labels") else {}),
            "annotations": {**(own.get("annotations") or {}), POD_CLAIM_NAME: entry},
            "name": name,
            "namespace": meta["namespace"],
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        },
        "spec": copy.deepcopy(pattern.get("spec") or {}),
    }


def _release(server: MemoryServer, claim: Json, alive: set[str]) -> bool:
    """Take Pods that are no more off the claim; without any it gives its devices back, and goes with its Pod."""
    meta, status = claim["metadata"], claim.get("status") or {}
    owners = [owner["uid"] for owner in meta.get("ownerReferences") or () if owner.get("kind") == "Pod"]
    if owners and not alive.intersection(owners):
        return server.delete(RESOURCE_CLAIM, meta["namespace"], meta["name"])
    reserved = status.get("reservedFor") or []
    left = [reference for reference in reserved if reference.get("uid") in alive]
    finalizers = meta.get("finalizers") or []
    if left == reserved and (left or CLAIM_FINALIZER not in finalizers):
        return False
    fresh = {key: value for key, value in status.items() if key != "reservedFor"}
    if left:
        fresh["reservedFor"] = left
    else:
        fresh.pop("allocation", None)
        fresh.pop("devices", None)
        meta = {**meta, "finalizers": [name for name in finalizers if name != CLAIM_FINALIZER]}
    server.update(RESOURCE_CLAIM, meta["namespace"], meta["name"], {**claim, "metadata": meta, "status": fresh})
    return True
