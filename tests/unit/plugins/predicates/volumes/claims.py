"""Builders for claims, volumes, storage classes and Pods that mount claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.builders import Raw, World, configuration, pod

CONF = configuration(["gang"], ["predicates"])
ZONE = "topology.kubernetes.io/zone"
DRIVER = "csi.example.com"
STORAGE = "storage.k8s.io/v1"
ONE, MANY = "ReadWriteOnce", "ReadWriteMany"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def limited(**arguments: Any) -> Any:
    """The configuration with arguments of the predicates plugin."""
    return configuration(["gang"], ["predicates"], arguments={"predicates": arguments})


def claim(
    name: str,
    size: str = "1Gi",
    cls: str = "late",
    mode: str = ONE,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Raw:
    request = {"accessModes": [mode], "resources": {"requests": {"storage": size}}, "storageClassName": cls}
    meta: Raw = {"name": name, "namespace": "default", "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {**request, **spec}}


def volume(
    name: str,
    size: str = "1Gi",
    cls: str = "late",
    mode: str = ONE,
    *,
    on: Sequence[str] = (),
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Raw:
    """``on``: the nodes from which the volume is accessible; ``zone``: the zone from which it is accessible."""
    body: Raw = {"capacity": {"storage": size}, "accessModes": [mode], "storageClassName": cls, **spec}
    if on or zone:
        key, values = ("kubernetes.io/hostname", list(on)) if on else (ZONE, [zone])
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    meta = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": body}


def disk(name: str, **rest: Any) -> list[Raw]:
    """A claim that is bound to the volume of a CSI driver with the same name."""
    held = {"namespace": "default", "name": name}
    csi = {"driver": DRIVER, "volumeHandle": f"handle-{name}"}
    return [claim(name, volumeName=name, **rest), volume(name, csi=csi, claimRef=held, **rest)]


def storage_class(name: str = "late", provisioner: str = "kubernetes.io/no-provisioner", *zones: str) -> Raw:
    """A storage class with WaitForFirstConsumer. ``zones``: its allowed topologies."""
    allowed = {"allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]}
    return {
        "apiVersion": STORAGE,
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **(allowed if zones else {}),
    }


def csi_node(name: str, count: int | None = None, keys: Sequence[str] = (), driver: str = DRIVER) -> Raw:
    entry: Raw = {"name": driver, "nodeID": name, "topologyKeys": list(keys)}
    if count is not None:
        entry["allocatable"] = {"count": count}
    return {"apiVersion": STORAGE, "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [entry]}}


def user(name: str, *claims: str, group: str = "g", asks: str = "1c", **rest: Any) -> Raw:
    """A Pod that mounts claims."""
    mounts = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": text}} for i, text in enumerate(claims)]
    return pod(name, asks, group, volumes=mounts, **rest)


def node_of(world: World, name: str) -> str:
    """The node that a Pod is bound to, or ""."""
    return str(world.get("Pod", name)["spec"].get("nodeName") or "")


def volume_of(world: World, name: str) -> str:
    """The volume that a claim is bound to, or ""."""
    return str(world.get("PersistentVolumeClaim", name)["spec"].get("volumeName") or "")


def reason_of(world: World, name: str) -> str:
    """The message of a Pod's condition PodScheduled."""
    conditions = world.get("Pod", name)["status"]["conditions"]
    return str(next(c for c in conditions if c["type"] == "PodScheduled").get("message") or "")
