"""Clusters in a few words: manifests from short notations, a World that schedules them, configurations from flags.

Amounts are written ``2c+4Gi+10p+huawei.com/Ascend910=8``: ``2c`` cpu, ``10p`` Pods, ``name=n``
any other resource, everything else memory. Manifests are plain dictionaries, so that the simulator, the cache and the
command line can all be fed with them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.api.decisions import Decisions
from scheduler.api.kinds import find_kind
from scheduler.api.names import GROUP_NAME, SCHEDULING_API_VERSION, TASK_SPEC, TOPOLOGY_API_VERSION
from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import Manifest, decode
from scheduler.cluster.memory import MemoryCluster
from scheduler.framework.configuration import Configuration, PluginOption
from scheduler.framework.cycle import Outcome, run_cycle
from scheduler.framework.extension import FLAGS
from scheduler.framework.session import Session

Raw = dict[str, Any]
NAME = "volcano-py"


# --- manifests ---
def amounts(text: str) -> dict[str, str]:
    """``1c+2Gi+example.com/gpu=4`` as a ResourceList."""
    result: dict[str, str] = {}
    for part in filter(None, text.split("+")):
        if "=" in part:
            name, _, number = part.partition("=")
            result[name] = number
        elif part.endswith("c"):
            result["cpu"] = part[:-1]
        elif part.endswith("p"):
            result["pods"] = part[:-1]
        else:
            result["memory"] = part
    return result


def node(name: str, allocatable: str = "4c+8Gi", labels: Mapping[str, str] | None = None, **spec: Any) -> Raw:
    """A Node; 110 Pods unless said otherwise."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": {"pods": "110", **amounts(allocatable)}},
    }


def queue(name: str, weight: int = 1, capability: str = "", state: str = "Open", **spec: Any) -> Raw:
    """A Queue; ``deserved`` and ``guarantee`` are amounts."""
    if capability:
        spec["capability"] = amounts(capability)
    if "deserved" in spec:
        spec["deserved"] = amounts(spec["deserved"])
    if "guarantee" in spec:
        spec["guarantee"] = {"resource": amounts(spec["guarantee"])}
    return {
        "apiVersion": SCHEDULING_API_VERSION,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight, **spec},
        "status": {"state": state},
    }


def group(
    name: str,
    queue: str = "default",
    minimum: int = 1,
    *,
    roles: Mapping[str, int] | None = None,
    asks: str | None = None,
    phase: str = "",
    priority_class: str = "",
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> Raw:
    """A PodGroup: ``roles`` is minTaskMember, ``asks`` minResources; what is more goes into the spec."""
    spec: Raw = {"queue": queue, "minMember": minimum, **more}
    if roles is not None:
        spec["minTaskMember"] = dict(roles)
    if asks is not None:
        spec["minResources"] = amounts(asks)
    if priority_class:
        spec["priorityClassName"] = priority_class
    return {
        "apiVersion": SCHEDULING_API_VERSION,
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "default",
            **({"annotations": dict(annotations)} if annotations else {}),
        },
        "spec": spec,
        **({"status": {"phase": phase}} if phase else {}),
    }


def hyper_node(name: str, tier: int, *members: str | Raw, tier_name: str = "") -> Raw:
    """A HyperNode. A member is the name of a Node (``>name``: of a HyperNode), or a selector of Nodes."""
    listed: list[Raw] = []
    for member in members:
        if isinstance(member, dict):
            listed.append({"type": "Node", "selector": member})
        else:
            kind = "HyperNode" if member.startswith(">") else "Node"
            listed.append({"type": kind, "selector": {"exactMatch": {"name": member.removeprefix(">")}}})
    return {
        "apiVersion": TOPOLOGY_API_VERSION,
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": listed, **({"tierName": tier_name} if tier_name else {})},
    }


def pod(
    name: str,
    asks: str = "",
    group: str = "",
    *,
    on: str = "",
    phase: str = "",
    role: str = "",
    priority: int | None = None,
    selector: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    deleting: bool = False,
    gated: bool = False,
    scheduler: str = NAME,
    **spec: Any,
) -> Raw:
    """A Pod; with ``on`` it is on that node and Running unless ``phase`` says otherwise."""
    meta: Raw = {"name": name, "namespace": "default", "labels": dict(labels or {}), "annotations": {}}
    meta["annotations"].update(annotations or {})
    if group:
        meta["annotations"][GROUP_NAME] = group
    if role:
        meta["annotations"][TASK_SPEC] = role
    if deleting:
        meta["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    requests = {"resources": {"requests": amounts(asks)}} if asks else {}
    body: Raw = {"schedulerName": scheduler, "containers": [{"name": "main", **requests}], **spec}
    if on:
        body["nodeName"] = on
    if priority is not None:
        body["priority"] = priority
    if selector:
        body["nodeSelector"] = dict(selector)
    if gated:
        body["schedulingGates"] = [{"name": "example.com/hold"}]
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body, "status": status}


def pods(prefix: str, number: int, asks: str = "", group: str = "", **rest: Any) -> list[Raw]:
    return [pod(f"{prefix}-{i}", asks, group, **rest) for i in range(number)]


# --- configurations ---
def only(*flags: str) -> dict[str, bool]:
    """Flags of a plugin of which none but these is on."""
    return {flag: flag in flags for flag in FLAGS}


def configuration(
    *tiers: Mapping[str, Mapping[str, bool]] | Sequence[str],
    actions: str = "enqueue, allocate, backfill",
    arguments: Mapping[str, Mapping[str, Any]] | None = None,
) -> Configuration:
    """Tiers as plugin names, or as plugin names with their flags; ``arguments`` by plugin."""
    built = []
    for tier in tiers:
        flags: Mapping[str, Mapping[str, bool]] = tier if isinstance(tier, Mapping) else {name: {} for name in tier}
        built.append(tuple(PluginOption(n, dict(f), dict((arguments or {}).get(n, {}))) for n, f in flags.items()))
    return Configuration(tuple(a.strip() for a in actions.split(",") if a.strip()), tuple(built))


# --- the world ---
def manifests(*objects: Raw | Sequence[Raw]) -> list[Manifest]:
    flat: list[Raw] = []
    for entry in objects:
        flat += [entry] if isinstance(entry, dict) else list(entry)
    return [Manifest(f"object {i}", find_kind(raw["apiVersion"], raw["kind"]), raw) for i, raw in enumerate(flat, 1)]


def feed(cache: ClusterCache, *objects: Raw | Sequence[Raw]) -> None:
    """Give objects to a cache as a watch would; uids are made up from names where there are none."""
    for manifest in manifests(*objects):
        assert manifest.kind is not None
        meta = manifest.raw["metadata"]
        raw = {**manifest.raw, "metadata": {"uid": f"uid-{manifest.raw['kind']}-{meta['name']}", **meta}}
        cache.upsert(manifest.kind.name, decode(manifest.kind, raw, manifest.where))


class World:
    """A cluster in memory, scheduled a cycle at a time without a kubelet."""

    def __init__(self, *objects: Raw | Sequence[Raw]) -> None:
        self.cluster = MemoryCluster(ClusterCache([NAME]), [NAME])
        self.cluster.load(manifests(*objects))
        self.outcome: Outcome | None = None

    def session(self, configuration: Configuration) -> Session:
        """A session opened over the present state; nothing is carried out."""
        self.cluster.cache.configure(configuration)
        return Session(self.cluster.cache.snapshot(self.cluster.now), configuration)

    def run(self, configuration: Configuration, cycles: int = 1, *, kubelet: bool = False) -> "World":
        for _ in range(cycles):
            cache = self.cluster.cache
            cache.configure(configuration)
            self.outcome = run_cycle(cache.snapshot(self.cluster.now), configuration)
            cache.assume(self.outcome.decisions)
            self.cluster.carry_out(self.outcome.decisions, cache.take_malformed() + self.outcome.malformed)
            if kubelet:
                self.cluster.run_kubelet()
            self.cluster.tick()
        return self

    @property
    def decisions(self) -> Decisions:
        assert self.outcome is not None
        return self.outcome.decisions

    @property
    def bound(self) -> dict[str, str]:
        """Pod -> node of the last cycle's bindings."""
        return {bind.task.name: bind.node for bind in self.decisions.binds}

    @property
    def evicted(self) -> set[str]:
        return {eviction.task.name for eviction in self.decisions.evictions}

    def get(self, kind: str, name: str) -> Raw:
        api_version = SCHEDULING_API_VERSION if kind in ("PodGroup", "Queue") else "v1"
        namespace = "" if kind in ("Queue", "Node") else "default"
        found = self.cluster.get(api_version, kind, namespace, name)
        assert found is not None, f"{kind} {name} is gone"
        return found

    def told(self, name: str) -> str:
        """Why a Pod waits, as the last cycle says; "" if it says nothing."""
        return next((pod.message for pod in self.decisions.pods if pod.task.name == name), "")

    @property
    def malformed(self) -> list[str]:
        """What the last cycle set aside: ``kind name field: problem``."""
        assert self.outcome is not None
        return [f"{m.kind} {m.name} {m.field}: {m.problem}" for m in self.outcome.malformed]

    def phase(self, name: str) -> str:
        return str((self.get("PodGroup", name).get("status") or {}).get("phase", ""))

    def events(self, reason: str) -> list[str]:
        """Messages of the Events with a reason."""
        return [o["message"] for o in self.cluster.objects() if o["kind"] == "Event" and o["reason"] == reason]
