"""The NodeShards: which scheduler shall use which nodes and queues, and what each has claimed.

A node belongs to the first NodeShard, by name, that names it (``spec.nodesDesired``) or selects it by labels
(annotation). A queue belongs to a NodeShard with all queues below the same child of the root, so that no capability and
no share has to be divided: to the first NodeShard whose annotation names this child, or else to the first with ``*``.
"""

from collections.abc import Mapping

import msgspec

from scheduler.api.names import ROOT_QUEUE, SHARD_NODE_LABELS, SHARD_QUEUES, SHARD_QUEUES_IN_USE
from scheduler.api.objects import ObjectMeta
from scheduler.api.scheduling import NodeShard
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.shard_claims import NO_CLAIMS, NOTHING, ShardNames, claims

REST = "*"
"""Stands for all queues that no NodeShard names."""
Labels = Mapping[str, str]


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

    def __init__(self, name: str, malformed: MalformedFields) -> None:
        """``name``: of the scheduler's own NodeShard."""
        self._name = name
        self._malformed = malformed
        self._mine = ObjectMeta()
        self._shards: dict[str, _Shard] = {}
        self.version = 0
        """Grows with every change."""

    def upsert(self, obj: NodeShard) -> bool:
        """Stores a NodeShard. Returns whether anything has changed."""
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
            return False
        self._shards[name] = shard
        if name == self._name:
            self._mine = obj.metadata
        self.version += 1
        return True

    def delete(self, name: str) -> bool:
        """Removes a deleted NodeShard. Returns whether it was there."""
        if self._shards.pop(name, None) is None:
            return False
        self.version += 1
        return True

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
