"""Claims the nodes and queues that belong to this scheduler's NodeShard, and withdraws the claims to others.

``cache/shards.py`` has the rules. A claim is a PATCH with the resource version of the NodeShard as this scheduler
sees it. Until the watch has shown the result, neither the claims change nor what is used. So of several attempts whose
outcome is unknown at most one takes effect.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from scheduler.api.kinds import NODE_SHARD, object_path
from scheduler.api.names import SHARD_FINALIZER, SHARD_QUEUES_IN_USE
from scheduler.api.scheduling import NodeShard
from scheduler.cache import ClusterCache
from scheduler.cache.shards import ShardClaims, ShardNames
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.client import MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.framework.cycle import SessionDemand, SessionObserver

log = structlog.get_logger(__name__)


class ShardMember(SessionObserver):
    """One of several schedulers."""

    def __init__(
        self,
        name: str,
        client: ApiClient,
        fence: Fence,
        cache: ClusterCache,
        flush: Callable[[], Awaitable[bool]],
        catch_up: Callable[[], Awaitable[bool]],
    ) -> None:
        """``name``: the name of the NodeShard. ``flush`` waits until all writes have ended and returns whether they
        have. ``catch_up`` waits until the cache has what other schedulers wrote, and returns whether it has."""
        self._client = client
        self._fence = fence
        self._cache = cache
        self._flush = flush
        self._catch_up = catch_up
        self._name = name
        self._used = ShardClaims()
        """The claims that permit what the cache uses now."""
        self._tried = ""
        """The resource version that the last claim was based on, if its outcome is not known."""
        self._written = 0
        """The resource version of the last claim."""
        self._problem = ""
        self._complete = False

    async def demand(self) -> SessionDemand:
        """Brings what the cache uses, and then the claims, in line with the NodeShards. No session may be held before
        all that is free has been claimed for the first time: Pods would be refused without reason."""
        if await self._update():
            self._complete = True
        return SessionDemand.LATER if self._complete else SessionDemand.FORBIDDEN

    async def _update(self) -> bool:
        """Returns whether all claims that are due are published, and what they permit is used."""
        claims = self._cache.shard_claims()
        if not claims.resource_version:
            self._warn(f"NodeShard {self._name} does not exist: this scheduler uses no node and serves no queue")
            self._use(claims)
            return True
        used = self._used
        self._use(replace(claims, nodes=_common(claims.nodes, used.nodes), queues=_common(claims.queues, used.queues)))
        if _number(claims.resource_version) < self._written:
            return False
        if claims.resource_version != self._tried and not await self._adopt(claims):
            return False
        patch = due_patch(claims, datetime.now(UTC))
        if patch is not None:
            await self._publish(claims, *patch)
        return patch is None

    def _use(self, claims: ShardClaims) -> None:
        before, self._used = self._used, claims
        self._cache.use_shard(claims)
        if (before.nodes.usable, before.queues.usable) != (claims.nodes.usable, claims.queues.usable):
            nodes, queues = len(claims.nodes.usable), len(claims.queues.usable)
            log.info("shard", name=self._name, nodes=nodes, queues=queues, rest=claims.has_rest)

    async def _adopt(self, claims: ShardClaims) -> bool:
        """Uses all that the claims permit, once the cache has what the users until now wrote. Returns False if the
        NodeShards have changed meanwhile."""
        if self._used.nodes == claims.nodes and self._used.queues == claims.queues:
            return True
        if not await self._catch_up() or self._cache.shard_claims() != claims:
            return False
        self._use(claims)
        return True

    async def _publish(self, claims: ShardClaims, subresource: str, body: dict[str, Any]) -> None:
        """Publishes a part of the claims that are due."""
        if (claims.nodes.withdrawn or claims.queues.withdrawn) and not await self._flush():
            return
        path = object_path(NODE_SHARD, "", self._name) + subresource
        self._tried = claims.resource_version
        try:
            answer = await self._client.request(
                "PATCH",
                path,
                body=msgspec.json.encode(body),
                content_type=MERGE_PATCH,
                priority=CallPriority.CONTROL,
                fence=self._fence,
            )
            self._written = _number(msgspec.json.decode(answer, type=NodeShard).metadata.resource_version)
            self._problem = ""
        except Fenced:
            pass
        except ApiError as error:
            if not error.uncertain:
                self._tried = ""
            if error.status != 409:  # after a conflict, the watch shows another version
                self._warn(f"NodeShard {self._name} could not be written: {error}")
        except (TransportError, *DECODE_ERRORS) as error:
            self._warn(f"NodeShard {self._name} could not be written: {error}")

    def _warn(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("shard", problem=problem)
        self._problem = problem


def due_patch(claims: ShardClaims, now: datetime) -> tuple[str, dict[str, Any]] | None:
    """Returns the subresource and the merge patch that publish the claims that are due, or None.

    The queues and the finalizer go first: without the finalizer the NodeShard could be deleted, and its nodes claimed
    by others, while this scheduler still uses them."""
    version, nodes, queues = claims.resource_version, claims.nodes, claims.queues
    kept = [finalizer for finalizer in claims.finalizers if finalizer != SHARD_FINALIZER]
    held = len(kept) < len(claims.finalizers)
    hold = not claims.deleted or bool(nodes.published or queues.published)
    if claims.deleted and not held:
        return None  # there must be no claims
    if queues.due != queues.published or hold > held:
        in_use = ",".join(sorted(queues.due)) or None
        meta = {"annotations": {SHARD_QUEUES_IN_USE: in_use}, "finalizers": [*kept, SHARD_FINALIZER]}
        return "", {"metadata": {"resourceVersion": version, **meta}}
    if nodes.due != nodes.published:
        status = {
            "lastUpdateTime": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "nodesInUse": sorted(nodes.due),
            "nodesToAdd": sorted(nodes.desired - nodes.due),
            "nodesToRemove": [],
        }
        return "/status", {"metadata": {"resourceVersion": version}, "status": status}
    if held > hold:
        return "", {"metadata": {"resourceVersion": version, "finalizers": kept or None}}
    return None


def _common(claims: ShardNames, used: ShardNames) -> ShardNames:
    """The claims, of which only what is used already may be used."""
    return replace(claims, usable=claims.usable & used.usable)


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
