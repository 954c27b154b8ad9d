"""The effect of a change: compares the state of a cluster before and after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.api.kinds import POD, POD_GROUP, QUEUE
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.index import group_of

Raw = dict[str, Any]


class JobPlacement(msgspec.Struct, frozen=True):
    phase: str
    queue: str
    placed: int
    """Pods that have a node or have succeeded."""
    needed: int
    size: int

    @property
    def runs(self) -> bool:
        return self.placed >= max(self.needed, 1)


class QueueDifference(msgspec.Struct, frozen=True):
    state: str
    weight: int
    amounts: Mapping[str, Mapping[str, str]]
    """``allocated``, ``deserved``, ``capability`` -> resource -> amount."""
    running: int
    waiting: int
    """Number of jobs that have their minimum, and of jobs that do not."""


class ClusterState(msgspec.Struct, frozen=True):
    """The placements and quotas of a cluster at one moment."""

    jobs: Mapping[str, JobPlacement]
    queues: Mapping[str, QueueDifference]
    nodes: Mapping[str, str]
    """Pod -> its node, "" for none. Terminating Pods are left out."""
    evictions: tuple[tuple[str, str], ...]
    """Pod and action of every eviction so far."""


@dataclass(slots=True)
class Difference:
    """What differs between two states."""

    starts: dict[str, JobPlacement] = field(default_factory=dict)
    """Jobs that have their minimum now and did not before."""
    stops: dict[str, tuple[JobPlacement, JobPlacement | None]] = field(default_factory=dict)
    """Jobs that had their minimum before and do not now; None: the job no longer exists."""
    counts: dict[str, tuple[JobPlacement, JobPlacement]] = field(default_factory=dict)
    """Other jobs whose number of placed Pods differs."""
    evicted: dict[str, str] = field(default_factory=dict)
    """Evicted Pod -> the action that evicted it."""
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Pod -> its node before and after; "" for none."""
    queues: dict[str, tuple[QueueDifference | None, QueueDifference | None]] = field(default_factory=dict)
    """Queues with any difference; None: the queue does not exist."""

    def __bool__(self) -> bool:
        return bool(self.starts or self.stops or self.counts or self.evicted or self.moved or self.queues)


def cluster_state(simulation: Simulation) -> ClusterState:
    """The current state of a simulated cluster."""
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
        key: JobPlacement(
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
    return ClusterState(jobs, queues, nodes, evictions)


def _key(raw: Raw) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"


def _queue(raw: Raw, jobs: Mapping[str, JobPlacement]) -> QueueDifference:
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    amounts = {
        "allocated": status.get("allocated") or {},
        "deserved": spec.get("deserved") or {},
        "capability": spec.get("capability") or {},
    }
    own = [job for job in jobs.values() if job.queue == raw["metadata"]["name"]]
    return QueueDifference(
        str(status.get("state", "")),
        int(spec.get("weight", 1)),
        {name: {key: str(value) for key, value in quantities.items()} for name, quantities in amounts.items()},
        sum(job.runs for job in own),
        sum(not job.runs for job in own),
    )


def compare(before: ClusterState, after: ClusterState) -> Difference:
    """Compares two states of one simulation; ``after`` is the later one."""
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
