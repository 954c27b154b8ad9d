"""What a change came to: two pictures of a cluster, and how they differ."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.api.kinds import POD, POD_GROUP, QUEUE
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.index import group_of

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobPicture:
    phase: str
    queue: str
    placed: int
    """Pods that have a node, or have done their work."""
    needed: int
    size: int

    @property
    def runs(self) -> bool:
        return self.placed >= max(self.needed, 1)


@dataclass(frozen=True, slots=True)
class QueuePicture:
    state: str
    weight: int
    amounts: Mapping[str, Mapping[str, str]]
    """``allocated``, ``deserved``, ``capability`` -> resource -> amount."""
    running: int
    waiting: int
    """Jobs that have what they need, and those that have not."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A cluster at one moment."""

    jobs: Mapping[str, JobPicture]
    queues: Mapping[str, QueuePicture]
    nodes: Mapping[str, str]
    """Pod -> its node, "" for none; Pods that terminate are left out."""
    evictions: tuple[tuple[str, str], ...]
    """Pod and why, for all there were so far."""


@dataclass(slots=True)
class Difference:
    """From one picture to another."""

    starts: dict[str, JobPicture] = field(default_factory=dict)
    """Jobs that have what they need now, and had not."""
    stops: dict[str, tuple[JobPicture, JobPicture | None]] = field(default_factory=dict)
    """Jobs that had what they need; None: they are gone."""
    counts: dict[str, tuple[JobPicture, JobPicture]] = field(default_factory=dict)
    """Other jobs that have more or fewer Pods on nodes."""
    evicted: dict[str, str] = field(default_factory=dict)
    """Pod -> for whom: the action."""
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Pod -> its node before and after; "" for none."""
    queues: dict[str, tuple[QueuePicture | None, QueuePicture | None]] = field(default_factory=dict)
    """Queues of which anything differs."""

    def __bool__(self) -> bool:
        return bool(self.starts or self.stops or self.counts or self.evicted or self.moved or self.queues)


def picture(simulation: Simulation) -> Picture:
    """The cluster as it is."""
    server = simulation.cluster.server
    placed: dict[str, int] = {}
    size: dict[str, int] = {}
    nodes = {}
    for pod in server.of(POD):
        meta = pod["metadata"]
        node, phase = pod["spec"].get("nodeName", ""), pod["status"].get("phase")
        if meta.get("deletionTimestamp"):
            continue
        nodes[_key(pod)] = node
        group = group_of(pod)
        size[group] = size.get(group, 0) + 1
        placed[group] = placed.get(group, 0) + bool(node and phase != "Failed")
    jobs = {
        key: JobPicture(
            str((raw.get("status") or {}).get("phase") or "Pending"),
            str(raw["spec"].get("queue", "")),
            placed.get(key, 0),
            int(raw["spec"].get("minMember", 0)),
            size.get(key, 0),
        )
        for raw in server.of(POD_GROUP)
        for key in (_key(raw),)
    }
    evictions = tuple((eviction.task.key, eviction.reason) for eviction in simulation.evictions)
    queues = {raw["metadata"]["name"]: _queue(raw, jobs) for raw in server.of(QUEUE)}
    return Picture(jobs, queues, nodes, evictions)


def _key(raw: Raw) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"


def _queue(raw: Raw, jobs: Mapping[str, JobPicture]) -> QueuePicture:
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    amounts = {
        "allocated": status.get("allocated") or {},
        "deserved": spec.get("deserved") or {},
        "capability": spec.get("capability") or {},
    }
    own = [job for job in jobs.values() if job.queue == raw["metadata"]["name"]]
    return QueuePicture(
        str(status.get("state", "")),
        int(spec.get("weight", 1)),
        {name: {key: str(value) for key, value in those.items()} for name, those in amounts.items()},
        sum(job.runs for job in own),
        sum(not job.runs for job in own),
    )


def compare(before: Picture, after: Picture) -> Difference:
    """How a later picture of the same simulation differs."""
    result = Difference()
    for key, new in after.jobs.items():
        old = before.jobs.get(key)
        if new.runs and not (old and old.runs):
            result.starts[key] = new
        elif old and old.runs and not new.runs:
            result.stops[key] = (old, new)
        elif old and old.placed != new.placed:
            result.counts[key] = (old, new)
    result.stops.update({key: (old, None) for key, old in before.jobs.items() if old.runs and key not in after.jobs})
    result.evicted = dict(after.evictions[len(before.evictions) :])
    for key, node in before.nodes.items():
        now = after.nodes.get(key, "")
        if node and now != node and (key in after.nodes or key in result.evicted):
            result.moved[key] = (node, now)
    for name in dict.fromkeys([*before.queues, *after.queues]):
        pair = (before.queues.get(name), after.queues.get(name))
        if pair[0] != pair[1]:
            result.queues[name] = pair
    return result
