"""Restricts a cache to the nodes and queues of one of several schedulers.

All objects stay in the tables, so that the scheduler can take over any node or queue at once: other nodes are left out
of the columns, jobs and queues of others out of snapshots. What their Pods hold on used nodes still counts.
"""

from scheduler.api.names import ROOT_QUEUE
from scheduler.api.objects import Node
from scheduler.api.queue import Queue
from scheduler.cache.job_table import JobTable
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.node_table import NodeTable
from scheduler.cache.queue_table import QueueTable
from scheduler.cache.shard_claims import NOTHING
from scheduler.cache.shard_table import ShardClaims, ShardTable, top_queue
from scheduler.cache.versioning import Version


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
        """``name``: of the scheduler's NodeShard."""
        self.shards = ShardTable(name, malformed)
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
        jobs.serve(self._serves)

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
            self._jobs.serve(self._serves)
            self._version.arrived()
        if claims.nodes.usable == self._used_nodes:
            return []
        self._used_nodes = claims.nodes.usable
        self._version.increment()
        self._version.opened()
        return self._nodes.use(self._used_nodes)

    def queues(self, queues: dict[str, Queue]) -> dict[str, Queue]:
        """The queues for a snapshot: the served ones, and the root of their tree."""
        return {name: queue for name, queue in queues.items() if name == ROOT_QUEUE or self._serves(name)}

    def owns_queue(self, name: str) -> bool:
        """Whether this scheduler writes the status of a queue."""
        return self._serves(name)

    def _serves(self, queue: str) -> bool:
        tops, rest, parents = self._served
        if queue == ROOT_QUEUE or queue not in parents:
            return rest
        return top_queue(queue, parents) in tops
