"""Several schedulers share a cluster: each node and each queue is used by at most one of them.

A NodeShard says which nodes and queues a scheduler shall use. A node belongs to the first NodeShard, by name, that
names it (``spec.nodesDesired``) or selects it by labels (annotation). A queue belongs to a NodeShard with all queues
below the same child of the root, so that no capability and no share has to be divided: to the first NodeShard whose
annotation names this child, or else to the first with ``*``.

Every scheduler publishes the names that it has claimed in its NodeShard, and watches all NodeShards. It

1. claims names that it desires and that no other scheduler has claimed;
2. uses a name while the watch shows its own claim to the name and no other's;
3. withdraws a claim that it does not desire any more, and one that it has in common with a scheduler whose name comes
   first, once its own writes have ended.

Two schedulers never use the same name. The API server orders the claims, and a watch delivers them in this order: a
scheduler that sees its own claim has seen all earlier ones. So of two schedulers that claim a name at the same time,
the later one does not begin to use it, and waits until the other has withdrawn. A scheduler changes neither its claims
nor what it uses while its last claim is under way, that is, until the watch has shown it. A scheduler that takes over a
shard waits first until its watch has delivered the present NodeShards: the last leader may have withdrawn a claim that
a late watch still shows.

All objects stay in the tables of the cache, so that the scheduler can take over any node or queue at once: other nodes
are left out of the columns, jobs and queues of others out of snapshots. What their Pods hold on used nodes still
counts.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.api.names import ROOT_QUEUE, SHARD_NODE_LABELS, SHARD_QUEUES, SHARD_QUEUES_IN_USE
from scheduler.api.objects import Node, ObjectMeta
from scheduler.api.queue import Queue
from scheduler.api.scheduling import NodeShard
from scheduler.cache.job_table import JobTable
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.node_table import NodeTable
from scheduler.cache.queue_table import QueueTable
from scheduler.cache.versioning import Version

NOTHING: Final[frozenset[str]] = frozenset()
REST = "*"
"""Stands for all queues that no NodeShard names."""
Labels = Mapping[str, str]


class ShardNames(msgspec.Struct, frozen=True):
    """The claims of one scheduler. Names of nodes, or of queues."""

    usable: frozenset[str] = NOTHING
    """What it may use."""
    published: frozenset[str] = NOTHING
    """What it has claimed according to the watch."""
    due: frozenset[str] = NOTHING
    """What it should claim next."""
    desired: frozenset[str] = NOTHING

    @property
    def withdrawn(self) -> frozenset[str]:
        """What it gives up. Its writes must have ended before ``due`` is published."""
        return self.published - self.due


NO_CLAIMS: Final = ShardNames()


def claims(me: str, desired: frozenset[str], published: Mapping[str, frozenset[str]]) -> ShardNames:
    """Returns the claims of the scheduler ``me``. ``published``: name of each scheduler -> its claims, as the watch
    shows them."""
    mine = published.get(me, NOTHING)
    others = NOTHING.union(*(names for shard, names in published.items() if shard != me))
    first = NOTHING.union(*(names for shard, names in published.items() if shard < me))
    return ShardNames(
        usable=(mine & desired) - others,
        published=mine,
        due=(mine & desired) - first | desired - others,
        desired=desired,
    )


class ShardClaims(msgspec.Struct, frozen=True):
    """What a scheduler has claimed, may use and should claim next. Without its NodeShard: nothing."""

    resource_version: str = ""
    """The resource version of its NodeShard; "": there is none."""
    finalizers: tuple[str, ...] = ()
    """The finalizers of its NodeShard."""
    deleted: bool = False
    """Whether its NodeShard is to be deleted."""
    nodes: ShardNames = NO_CLAIMS
    queues: ShardNames = NO_CLAIMS
    """Children of the root queue."""
    has_rest: bool = False
    """Whether jobs whose queue does not exist, and the root queue, belong to this scheduler."""


class _Shard(msgspec.Struct, frozen=True):
    names: frozenset[str]
    labels: tuple[tuple[str, str], ...]
    queues: frozenset[str]
    nodes_in_use: frozenset[str]
    queues_in_use: frozenset[str]

    def selects(self, node: str, labels: Labels) -> bool:
        if node in self.names:
            return True
        return bool(self.labels) and all(labels.get(key) == value for key, value in self.labels)


class ShardTable:
    """All NodeShards, by name, as one scheduler sees them."""

    def __init__(self, name: str, malformed: MalformedFields, version: Version) -> None:
        """``name``: the name of the scheduler's own NodeShard."""
        self._name = name
        self._malformed = malformed
        self._version = version
        self._mine = ObjectMeta()
        self._shards: dict[str, _Shard] = {}
        self.version = 0
        """Grows with every change."""

    def upsert(self, obj: NodeShard) -> None:
        """Stores a NodeShard."""
        name, annotations = obj.metadata.name, obj.metadata.annotations or {}
        deleted = obj.metadata.deletion_timestamp is not None
        shard = _Shard(
            names=frozenset(() if deleted else obj.spec.nodes_desired or ()),
            labels=() if deleted else self._labels(annotations.get(SHARD_NODE_LABELS, "")),
            queues=NOTHING if deleted else _names(annotations.get(SHARD_QUEUES, "")),
            nodes_in_use=frozenset(obj.status.nodes_in_use or ()),
            queues_in_use=_names(annotations.get(SHARD_QUEUES_IN_USE, "")),
        )
        if self._shards.get(name) == shard and name != self._name:
            return
        self._shards[name] = shard
        if name == self._name:
            self._mine = obj.metadata
        self.version += 1
        self._version.increment()
        self._version.arrived()

    def delete(self, name: str) -> None:
        """Removes a deleted NodeShard."""
        if self._shards.pop(name, None) is not None:
            self.version += 1
            self._version.changed()

    def _labels(self, text: str) -> tuple[tuple[str, str], ...]:
        """Returns (key, value) pairs; none if one is malformed."""
        pairs = []
        for part in sorted(_names(text)):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            if not (equals and key):
                self._malformed.add(f"metadata.annotations[{SHARD_NODE_LABELS}]", f"{part!r:.66} is not key=value")
                return ()
            pairs.append((key, value))
        return tuple(pairs)

    def claims(self, nodes: Mapping[str, Labels], parents: Mapping[str, str]) -> ShardClaims:
        """The claims of the scheduler. ``nodes``: name -> labels; ``parents``: queue -> its parent."""
        if self._name not in self._shards:
            return ShardClaims()
        queues, has_rest = self._desired_queues(parents)
        return ShardClaims(
            resource_version=self._mine.resource_version,
            finalizers=tuple(self._mine.finalizers or ()),
            deleted=self._mine.deletion_timestamp is not None,
            nodes=claims(
                self._name,
                self._desired_nodes(nodes),
                {name: shard.nodes_in_use for name, shard in self._shards.items()},
            ),
            queues=claims(self._name, queues, {name: shard.queues_in_use for name, shard in self._shards.items()}),
            has_rest=has_rest,
        )

    def _desired_queues(self, parents: Mapping[str, str]) -> tuple[frozenset[str], bool]:
        """Returns the children of the root queue that belong to this scheduler, and whether the rest does."""
        mine = self._shards[self._name]
        earlier = NOTHING.union(*(shard.queues for name, shard in self._shards.items() if name < self._name))
        named = NOTHING.union(*(shard.queues for shard in self._shards.values()))
        children = {top_queue(queue, parents) for queue in parents} - {ROOT_QUEUE}
        has_rest = REST in mine.queues - earlier
        return frozenset(children & (mine.queues - earlier) | (children - named if has_rest else NOTHING)), has_rest

    def _desired_nodes(self, nodes: Mapping[str, Labels]) -> frozenset[str]:
        mine = self._shards[self._name]
        earlier = [shard for name, shard in self._shards.items() if name < self._name]
        return frozenset(
            node
            for node, labels in nodes.items()
            if mine.selects(node, labels) and not any(shard.selects(node, labels) for shard in earlier)
        )


def top_queue(queue: str, parents: Mapping[str, str]) -> str:
    """Returns the queue right below the root that is above a queue, or the queue itself. A cycle ends at its first
    queue by name."""
    seen = [queue]
    while (parent := parents.get(queue, "")) not in ("", ROOT_QUEUE) and parent in parents:
        if parent in seen:
            return min(seen[seen.index(parent) :])
        seen.append(parent)
        queue = parent
    return queue


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


class ShardFilter:
    """Applies the claims of a scheduler to the tables of its cache. Until ``use`` is called, it uses nothing."""

    def __init__(
        self,
        name: str,
        nodes: NodeTable,
        queues: QueueTable,
        jobs: JobTable,
        malformed: MalformedFields,
        version: Version,
    ) -> None:
        """``name``: the name of the scheduler's NodeShard."""
        self.shards = ShardTable(name, malformed, version)
        self._nodes = nodes
        self._queues = queues
        self._jobs = jobs
        self._version = version
        self._claims = ShardClaims()
        self._claims_for: tuple[int, int, dict[str, str]] | None = None
        """The versions of NodeShards and labels, and the parents of queues, of ``_claims``."""
        self._used_nodes = NOTHING
        self._served: tuple[frozenset[str], bool, dict[str, str]] = NOTHING, False, {}
        """The served children of the root queue, whether the rest is served, and the parents of all queues."""
        nodes.use(NOTHING)
        jobs.serve(self.serves)

    def claims(self) -> ShardClaims:
        """The present claims, according to the objects in the cache."""
        key = (self.shards.version, self._nodes.labels_version, self._queues.parents())
        if key != self._claims_for:
            self._claims, self._claims_for = self.shards.claims(self._nodes.labels(), key[2]), key
        return self._claims

    def use(self, claims: ShardClaims) -> list[Node]:
        """Uses what these claims permit from now on. Returns the nodes that have to be stored again to be used."""
        served = claims.queues.usable, claims.has_rest, self._queues.parents()
        if served != self._served:
            self._served = served
            self._jobs.serve(self.serves)
            self._version.arrived()
        if claims.nodes.usable == self._used_nodes:
            return []
        self._used_nodes = claims.nodes.usable
        self._version.changed()
        return self._nodes.use(self._used_nodes)

    def queues(self, queues: dict[str, Queue]) -> dict[str, Queue]:
        """The queues for a snapshot: the served ones, and the root of their tree."""
        return {name: queue for name, queue in queues.items() if name == ROOT_QUEUE or self.serves(name)}

    def serves(self, queue: str) -> bool:
        """Whether this scheduler serves a queue and writes its status."""
        tops, rest, parents = self._served
        if queue == ROOT_QUEUE or queue not in parents:
            return rest
        return top_queue(queue, parents) in tops
