"""The volume controllers and provisioners of a simulation.

They bind claims to volumes, create the claims of ephemeral volumes, and create volumes where a class has a provisioner.
Volumes are not resized, reclaimed or deleted.
"""

from contextlib import suppress

from scheduler.api.kinds import CLAIM, CSI_NODE, NODE, POD, STORAGE_CLASS, VOLUME
from scheduler.api.names import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    CLAIM_LOST,
    NO_PROVISIONER,
    PROVISIONED_BY,
    VOLUME_AVAILABLE,
    WAIT_FOR_FIRST_CONSUMER,
)
from scheduler.api.quantity import QuantityError
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.cluster.manifests import ManifestError
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer
from scheduler.plugins.predicates.volumes.claims import (
    capacity,
    class_of,
    fits,
    is_available,
    is_bound,
    is_prebound,
    request_of,
    selected_node,
)

BOUND, PENDING, RELEASED = "Bound", "Pending", "Released"


def sync_volumes(server: MemoryServer) -> bool:
    """Creates the claims of ephemeral volumes, and binds claims to volumes. Returns whether anything changed."""
    changed = _create_ephemeral_claims(server)
    for volume in server.structs(VOLUME):
        changed |= _volume_phase(server, volume)
    available = _AvailableVolumes(server)
    for claim in server.structs(CLAIM):
        if is_bound(claim):
            if server.find(VOLUME, "", claim.spec.volume_name) is None:
                changed |= _claim_phase(server, claim, CLAIM_LOST)
        elif (found := available.take_for(claim)) is not None:
            _bind(server, claim, found)
            changed = True
        else:
            changed |= _claim_phase(server, claim, claim.status.phase or PENDING)
    return changed


def provision(server: MemoryServer) -> bool:
    """Creates the volumes of claims with a provisioner. Returns whether there were any."""
    changed = False
    for claim in server.structs(CLAIM):
        storage = server.decoded(STORAGE_CLASS, "", class_of(claim))
        if is_bound(claim) or storage is None or storage.provisioner in ("", NO_PROVISIONER):
            continue
        if _waits_for_consumer(server, claim) and not selected_node(claim):
            continue
        if not claim.spec.volume_name:
            changed |= server.create(VOLUME, _provisioned_volume(server, claim, storage))
    return changed


class _AvailableVolumes:
    """The volumes that can be bound to claims."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._reserved: dict[tuple[str, str], list[PersistentVolume]] = {}
        self._free: dict[str, list[tuple[int, str, PersistentVolume]]] = {}
        for volume in server.structs(VOLUME):
            claim_ref = volume.spec.claim_ref
            if claim_ref is not None:
                self._reserved.setdefault((claim_ref.namespace, claim_ref.name), []).append(volume)
            elif is_available(volume):
                try:
                    size = capacity(volume)
                except QuantityError:
                    continue  # the scheduler reports it when it places Pods with the volume
                self._free.setdefault(class_of(volume), []).append((size, volume.metadata.name, volume))
        for entries in self._free.values():
            entries.sort(key=lambda entry: entry[:2])

    def take_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Returns the volume for a claim and makes it unavailable to other claims; None if there is none."""
        if claim.spec.volume_name:
            named = self._server.decoded(VOLUME, "", claim.spec.volume_name)
            free = named is not None and (named.spec.claim_ref is None or is_prebound(named, claim))
            return named if free else None
        for volume in self._reserved.get((claim.metadata.namespace, claim.metadata.name), ()):
            if is_prebound(volume, claim):
                return volume
        if _waits_for_consumer(self._server, claim):
            return None
        try:
            wanted = request_of(claim)
        except QuantityError:
            return None
        entries = self._free.get(wanted.storage_class, [])
        for position, (size, _, volume) in enumerate(entries):
            if size >= wanted.size and fits(volume, wanted):
                del entries[position]
                return volume
        return None


def _waits_for_consumer(server: MemoryServer, claim: PersistentVolumeClaim) -> bool:
    storage = server.decoded(STORAGE_CLASS, "", class_of(claim))
    return storage is not None and storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _bind(server: MemoryServer, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
    meta = claim.metadata
    reference = {
        "apiVersion": CLAIM.api_version,
        "kind": CLAIM.name,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
    }
    server.patch(VOLUME, "", volume.metadata.name, {"spec": {"claimRef": reference}, "status": {"phase": BOUND}})
    chosen = {} if claim.spec.volume_name else {BOUND_BY_CONTROLLER: "yes"}
    server.patch(
        CLAIM,
        meta.namespace,
        meta.name,
        {
            "metadata": {"annotations": {BIND_COMPLETED: "yes", **chosen}},
            "spec": {"volumeName": volume.metadata.name},
            "status": {
                "phase": BOUND,
                "accessModes": volume.spec.access_modes or [],
                "capacity": volume.spec.capacity or {},
            },
        },
    )


def _claim_phase(server: MemoryServer, claim: PersistentVolumeClaim, phase: str) -> bool:
    if claim.status.phase == phase:
        return False
    return server.patch(CLAIM, claim.metadata.namespace, claim.metadata.name, {"status": {"phase": phase}})


def _volume_phase(server: MemoryServer, volume: PersistentVolume) -> bool:
    claim_ref = volume.spec.claim_ref
    phase = VOLUME_AVAILABLE
    if claim_ref is not None and claim_ref.uid:
        claim = server.find(CLAIM, claim_ref.namespace, claim_ref.name)
        phase = BOUND if claim is not None and claim["metadata"]["uid"] == claim_ref.uid else RELEASED
    if volume.status.phase == phase:
        return False
    return server.patch(VOLUME, "", volume.metadata.name, {"status": {"phase": phase}})


def _provisioned_volume(server: MemoryServer, claim: PersistentVolumeClaim, storage: StorageClass) -> Json:
    meta, spec = claim.metadata, claim.spec
    name = f"pvc-{meta.uid}"
    requests = (spec.resources.requests if spec.resources else None) or {}
    affinity = _topology(server, selected_node(claim), storage.provisioner)
    return {
        "apiVersion": VOLUME.api_version,
        "kind": VOLUME.name,
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: storage.provisioner}},
        "spec": {
            "capacity": dict(requests),
            "accessModes": list(spec.access_modes or []),
            "storageClassName": class_of(claim),
            "volumeMode": spec.volume_mode or "Filesystem",
            "csi": {"driver": storage.provisioner, "volumeHandle": name},
            "claimRef": {
                "apiVersion": CLAIM.api_version,
                "kind": CLAIM.name,
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
            },
            **({"nodeAffinity": affinity} if affinity else {}),
        },
    }


def _topology(server: MemoryServer, node_name: str, driver: str) -> Json | None:
    """The node affinity of a volume provisioned for a node: the node's labels with the driver's topology keys."""
    node, csi_node = server.decoded(NODE, "", node_name), server.decoded(CSI_NODE, "", node_name)
    if node is None or csi_node is None:
        return None
    entry = next((d for d in csi_node.spec.drivers or () if d.name == driver), None)
    labels = node.metadata.labels or {}
    expressions = [
        {"key": key, "operator": "In", "values": [labels[key]]}
        for key in (entry.topology_keys if entry else None) or ()
        if key in labels
    ]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}} if expressions else None


def _create_ephemeral_claims(server: MemoryServer) -> bool:
    changed = False
    for pod in server.by_index(POD, _has_ephemeral_volumes):
        meta = pod["metadata"]
        for volume in pod["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            if not isinstance(template, dict) or meta.get("deletionTimestamp"):
                continue
            owner = {"apiVersion": POD.api_version, "kind": POD.name, "name": meta["name"], "uid": meta["uid"]}
            template_meta = template.get("metadata") or {}
            claim = {
                "apiVersion": CLAIM.api_version,
                "kind": CLAIM.name,
                "metadata": {
                    **{key: template_meta[key] for key in ("labels", "annotations") if template_meta.get(key)},
                    "name": f"{meta['name']}-{volume['name']}",
                    "namespace": meta["namespace"],
                    "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
                },
                "spec": template.get("spec") or {},
            }
            with suppress(ManifestError):  # an invalid claim is not created, and the Pod stays pending with that reason
                changed |= server.create(CLAIM, claim)
    return changed


def _has_ephemeral_volumes(pod: Json) -> bool | None:
    return any(volume.get("ephemeral") for volume in pod["spec"].get("volumes") or ()) or None
