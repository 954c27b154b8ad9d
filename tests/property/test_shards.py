"""Several schedulers on one cluster, whose nodes and queues move between them at random. With late watches, writes in
flight, requests of unknown outcome and schedulers that are killed, no Pod is placed twice, and no node or queue exceeds
its amount."""

import asyncio
import copy
import json
import random
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from scheduler.api.decisions import Bind
from scheduler.api.kinds import NODE_SHARD, POD, POD_GROUP
from scheduler.cache import ClusterCache
from scheduler.cluster.kube.scheduler.shard_member import ShardMember
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.framework.cycle import SessionDemand, run_cycle
from tests.builders import NAME, Raw, configuration, feed, group, node, pod, queue
from tests.unit.cache.test_shards import shard

PLAN = configuration(["priority", "gang"], ["predicates", "proportion"], actions="enqueue, allocate")
NODES = {f"n{i}": 4 for i in range(5)}
"""Maps each node to its cpus."""
QUEUES = {"q0": 4, "q1": 6, "q2": 3}
"""Maps each queue to its capability in cpus."""
ROUNDS, STEPS = 20, 60
NOT_FOUND, CONFLICT = 404, 409


class ApiServer:
    """The objects, and all their versions in the order of the writes."""

    def __init__(self, chance: random.Random) -> None:
        self.objects: dict[tuple[str, str], Raw] = {}
        self.log: list[tuple[str, str, Raw | None]] = []
        """The kind, name and version of an object; None if it is deleted."""
        self._chance = chance

    def put(self, obj: Raw) -> Raw:
        key = (obj["kind"], obj["metadata"]["name"])
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(len(self.log) + 1)
        self.objects[key] = obj
        self.log.append((*key, obj))
        return obj

    def delete(self, kind: str, name: str) -> None:
        del self.objects[kind, name]
        self.log.append((kind, name, None))

    def all(self, kind: str) -> list[Raw]:
        return [obj for (of_kind, _), obj in self.objects.items() if of_kind == kind]

    async def request(self, method: str, path: str, *, body: bytes, **_: object) -> bytes:
        """A merge patch of a NodeShard. Its answer may be lost, and so may the request."""
        assert method == "PATCH"
        if self._chance.random() < 0.1:
            raise TransportError("lost before it was sent", sent=False)
        obj = copy.deepcopy(self.objects[NODE_SHARD.name, path.removesuffix("/status").rpartition("/")[2]])
        patch = json.loads(body)
        if patch["metadata"].pop("resourceVersion") != obj["metadata"]["resourceVersion"]:
            raise ApiError(CONFLICT, "Conflict", "the object has been modified")
        obj["metadata"] |= {k: v for k, v in patch["metadata"].items() if k != "annotations"}
        changed = obj["metadata"]["annotations"] | patch["metadata"].get("annotations", {})
        obj["metadata"]["annotations"] = {key: value for key, value in changed.items() if value is not None}
        obj["status"] |= patch.get("status", {})
        answer = json.dumps(self.put(obj)).encode()
        if self._chance.random() < 0.1:
            raise TransportError("the answer was lost", sent=True)
        return answer


class Scheduler:
    """One of several schedulers: watches that lag, a cache, and writes in flight."""

    def __init__(self, name: str, server: ApiServer) -> None:
        self._name = name
        self._server = server
        self._cache = ClusterCache([NAME], shard=name)
        self._seen = dict.fromkeys(("NodeShard", "others"), 0)
        """Maps each watch to the part of the log that it has delivered."""
        self._writes: list[Callable[[], None]] = []
        fence = Fence()
        fence.open_forever()
        self._member = ShardMember(name, cast(ApiClient, server), fence, self._cache, self._flush, self._catch_up)

    def sees(self, watch: str, number: int) -> None:
        end = min(self._seen[watch] + number, len(self._server.log))
        for kind, name, obj in self._server.log[self._seen[watch] : end]:
            if (kind == "NodeShard") == (watch == "NodeShard"):
                if obj is None:
                    self._cache.delete(POD if kind == "Pod" else POD_GROUP, "default", name)
                else:
                    feed(self._cache, obj)
        self._seen[watch] = end

    async def _catch_up(self) -> bool:
        for watch in self._seen:
            self.sees(watch, len(self._server.log))
        return True

    def is_killed(self, chance: random.Random) -> "Scheduler":
        """Returns the one that takes over. The requests of this one that were sent are carried out, the others are not.
        The watches of the next one lag."""
        for _ in range(chance.randint(0, len(self._writes))):
            self.writes()
        successor = Scheduler(self._name, self._server)
        for watch, seen in self._seen.items():
            successor.sees(watch, chance.randint(max(seen - 80, 0), len(self._server.log)))
        return successor

    @property
    def has_writes(self) -> bool:
        return bool(self._writes)

    async def _flush(self) -> bool:
        while self.has_writes:
            self.writes()
        return True

    def writes(self) -> None:
        """Carries out the oldest write in flight."""
        if self._writes:
            self._writes.pop(0)()

    def holds_a_session(self) -> None:
        if asyncio.run(self._member.demand()) is SessionDemand.FORBIDDEN:
            return
        decisions = run_cycle(self._cache.snapshot(100.0), PLAN).decisions
        self._cache.assume(decisions)
        for bind in decisions.binds:
            self._writes.append(partial(self._bind, bind))
        for update in decisions.pod_groups:
            self._writes.append(partial(self._admit, update.name, update.phase))

    def _bind(self, bind: Bind) -> None:
        obj = self._server.objects.get(("Pod", bind.task.name))
        if obj is not None:
            assert "nodeName" not in obj["spec"], f"{bind.task.name} is tried twice"
            self._server.put({**obj, "spec": {**obj["spec"], "nodeName": bind.node}, "status": {"phase": "Running"}})

    def _admit(self, name: str, phase: str) -> None:
        obj = self._server.objects.get(("PodGroup", name))
        if obj is not None:
            self._server.put({**obj, "status": {"phase": phase}})


def check(server: ApiServer) -> None:
    """Asserts that Pods use at most the cpus of each node, and at most the capability of each queue."""
    on_node: dict[str, int] = dict.fromkeys(NODES, 0)
    of_queue: dict[str, int] = dict.fromkeys(QUEUES, 0)
    for obj in server.all("Pod"):
        if on := obj["spec"].get("nodeName"):
            cpus = int(obj["metadata"]["labels"]["cpus"])
            on_node[on] += cpus
            of_queue[obj["metadata"]["labels"]["queue"]] += cpus
    assert all(used <= NODES[name] for name, used in on_node.items()), on_node
    assert all(used <= QUEUES[name] for name, used in of_queue.items()), of_queue


def a_gang(number: int, chance: random.Random) -> list[Raw]:
    in_queue, size, cpus = chance.choice([*QUEUES]), chance.randint(1, 2), chance.randint(1, 2)
    labels = {"queue": in_queue, "cpus": str(cpus)}
    name = f"g{number}"
    return [
        group(name, in_queue, size),
        *(pod(f"{name}-{i}", f"{cpus}c", name, labels=labels) for i in range(size)),
    ]


def divide(server: ApiServer, shards: str, chance: random.Random) -> None:
    """Gives nodes and queues to schedulers, in some cases to two, whether or not others still use them."""
    nodes: dict[str, list[str]] = {name: [] for name in shards}
    queues: dict[str, list[str]] = {name: [] for name in shards}
    for of_scheduler, names in ((nodes, NODES), (queues, QUEUES)):
        for name in names:
            for scheduler in chance.sample(shards, chance.choice([1, 1, 1, 2])):
                of_scheduler[scheduler].append(name)
    for scheduler in chance.sample(shards, len(shards)):
        desire(server, scheduler, nodes[scheduler], ",".join(queues[scheduler]))


def desire(server: ApiServer, scheduler: str, nodes: list[str], queues: str) -> None:
    """Changes the nodes and queues that a scheduler shall use."""
    old = server.objects["NodeShard", scheduler]
    annotations: dict[str, Any] = {**old["metadata"]["annotations"], "volcano-py/queues": queues}
    server.put({**old, "metadata": {**old["metadata"], "annotations": annotations}, "spec": {"nodesDesired": nodes}})


def filled(shards: str, chance: random.Random) -> ApiServer:
    server = ApiServer(chance)
    objects: list[Raw] = [queue("root"), *(queue(name, capability=f"{cpus}c+1Ti") for name, cpus in QUEUES.items())]
    objects += [node(name, f"{cpus}c+64Gi") for name, cpus in NODES.items()]
    for obj in [*objects, *(shard(name, queues="*" if name == "a" else "") for name in shards)]:
        server.put(obj)
    return server


def settle(server: ApiServer, schedulers: list[Scheduler]) -> None:
    """Lets all schedulers receive their events and act, until nothing changes."""
    for _ in range(12):
        for scheduler in schedulers:
            for watch in ("others", "NodeShard"):
                scheduler.sees(watch, len(server.log))
            scheduler.holds_a_session()
            while scheduler.has_writes:
                scheduler.writes()
                check(server)


@pytest.mark.parametrize("seed", range(24))
def test_schedulers_never_share_what_moves_between_them(seed: int) -> None:
    chance = random.Random(seed)
    shards = ("ab", "abc", "abcd")[seed % 3]
    server = filled(shards, chance)
    schedulers = [Scheduler(name, server) for name in shards]
    for number in range(ROUNDS * STEPS):
        if number % STEPS == 0:
            divide(server, shards, chance)
            lagging = chance.choice(["NodeShard", "others", "neither"])
        scheduler = chance.choice(schedulers)
        match chance.choices(["see", "session", "write", "gang", "end", "kill"], [8, 5, 4, 1.5, 1, 0.5])[0]:
            case "see":
                watch = chance.choice(["NodeShard", "others"])
                scheduler.sees(watch, chance.choice([1, 2, 3]) if watch == lagging else 30)
            case "session":
                scheduler.holds_a_session()
            case "write":
                scheduler.writes()
            case "gang":
                for obj in a_gang(number, chance):
                    server.put(obj)
            case "end":
                running = [obj["metadata"]["name"] for obj in server.all("Pod") if obj["spec"].get("nodeName")]
                for name in chance.sample(running, min(1, len(running))):
                    server.delete("Pod", name)
            case "kill":
                schedulers[schedulers.index(scheduler)] = scheduler.is_killed(chance)
        check(server)

    # In the end the nodes and queues are divided, and what fits runs.
    last = {"a": (["n0", "n1"], "q0"), "b": (["n2", "n3", "n4"], "*")}
    for name in shards:
        desire(server, name, *last.get(name, ([], "")))
    for kind, name in [key for key in server.objects if key[0] in ("Pod", "PodGroup")]:
        server.delete(kind, name)
    for name in QUEUES:
        server.put(group(f"last-{name}", name))
        server.put(pod(f"last-{name}", "1c", f"last-{name}", labels={"queue": name, "cpus": "1"}))
    settle(server, schedulers)
    placed = {obj["metadata"]["name"]: obj["spec"].get("nodeName") for obj in server.all("Pod")}
    assert placed["last-q0"] in ("n0", "n1")
    assert {placed["last-q1"], placed["last-q2"]} <= {"n2", "n3", "n4"}
