"""A scheduler with a shard claims in steps, waits for the watch after each step, and stops using the nodes that it
releases."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from scheduler.api.names import SHARD_FINALIZER, SHARD_QUEUES_IN_USE
from scheduler.cache import ClusterCache
from scheduler.cache.shards import NO_CLAIMS, ShardClaims, ShardNames
from scheduler.cluster.kube.scheduler.shard_member import ShardMember, due_patch
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.framework.cycle import SessionDemand

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HELD = (SHARD_FINALIZER,)


def names(text: str) -> frozenset[str]:
    return frozenset(text)


def some(published: str, due: str, desired: str | None = None) -> ShardNames:
    return ShardNames(
        names(published) & names(due), names(published), names(due), names(due if desired is None else desired)
    )


class Cluster:
    """The objects that the watch shows, the objects that the cache uses, and the requests."""

    def __init__(self) -> None:
        self.claims = ShardClaims()
        self.used: list[str] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.outcome: str | Exception = "8"
        """The resource version in the answer, or an error."""
        self.flushed = self.caught_up = True
        self.steps: list[str] = []
        fence = Fence()
        fence.open_forever()
        client, cache = cast(ApiClient, self), cast(ClusterCache, self)
        self.member = ShardMember("s", client, fence, cache, self.flush, self.catch_up)

    def shard_claims(self) -> ShardClaims:
        return self.claims

    def use_shard(self, claims: ShardClaims) -> None:
        self.used.append("".join(sorted(claims.nodes.usable)))

    async def flush(self) -> bool:
        self.steps.append("flush")
        return self.flushed

    async def catch_up(self) -> bool:
        self.steps.append(f"catch up, using {self.used[-1]!r}")
        return self.caught_up

    async def request(self, method: str, path: str, *, body: bytes, **_: object) -> bytes:
        assert method == "PATCH"
        self.requests.append((path, json.loads(body)))
        self.steps.append("patch")
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return json.dumps({"metadata": {"resourceVersion": self.outcome}}).encode()

    def update(self, version: str, nodes: ShardNames, **more: Any) -> bool:
        """The watch shows these claims."""
        self.claims = ShardClaims(version, nodes=nodes, **{"finalizers": HELD, **more})
        return asyncio.run(self.member.demand()) is not SessionDemand.FORBIDDEN


def test_queues_and_the_finalizer_are_claimed_before_nodes() -> None:
    cluster = Cluster()
    assert not cluster.update("1", some("", "nm"), queues=some("", "yx"), finalizers=("other",))
    assert not cluster.update("8", some("", "nm"), queues=some("yx", "yx"), finalizers=("other", *HELD))
    assert [path.rpartition("/")[2] for path, _ in cluster.requests] == ["s", "status"]
    (_, first), (_, second) = cluster.requests
    assert first["metadata"] == {
        "resourceVersion": "1",
        "annotations": {SHARD_QUEUES_IN_USE: "x,y"},
        "finalizers": ["other", SHARD_FINALIZER],
    }
    assert (second["metadata"], second["status"]["nodesInUse"]) == ({"resourceVersion": "8"}, ["m", "n"])
    assert cluster.used[-1] == ""


def test_a_session_is_held_once_all_claims_are_published() -> None:
    cluster = Cluster()
    assert not cluster.update("1", some("", "n"))
    assert cluster.update("8", some("n", "n"))
    cluster.outcome = "10"
    assert cluster.update("9", some("n", "nm")), "from then on always"


def test_gains_are_used_after_catching_up() -> None:
    cluster = Cluster()
    cluster.caught_up = False
    cluster.update("1", some("n", "n"))
    assert cluster.used[-1] == ""
    cluster.caught_up = True
    cluster.update("1", some("n", "n"))
    assert cluster.used[-1] == "n"
    assert cluster.steps == ["catch up, using ''"] * 2


def test_claims_that_change_while_catching_up_are_looked_at_again() -> None:
    cluster = Cluster()

    async def catch_up() -> bool:
        cluster.claims = ShardClaims("2", nodes=some("", ""), finalizers=HELD)
        return True

    cluster.member._catch_up = catch_up
    cluster.update("1", some("n", "n"))
    assert cluster.used[-1] == ""


def test_what_is_given_up_is_not_used_any_more_and_withdrawn_after_the_last_write() -> None:
    cluster = Cluster()
    cluster.update("1", some("nm", "nm"))
    cluster.flushed = False
    cluster.update("2", some("nm", "n"))
    assert (cluster.used[-1], cluster.requests) == ("n", [])
    cluster.flushed = True
    cluster.update("2", some("nm", "n"))
    assert cluster.requests[0][1]["status"]["nodesInUse"] == ["n"]
    assert cluster.steps[-2:] == ["flush", "patch"]


def test_until_the_watch_has_shown_the_last_claim_nothing_is_claimed_or_gained() -> None:
    cluster = Cluster()
    cluster.update("1", some("", "n"))
    cluster.update("7", some("m", "nm"))
    assert (len(cluster.requests), cluster.used[-1]) == (1, "")
    cluster.update("8", some("n", "n"))
    assert cluster.used[-1] == "n"


def test_less_is_used_at_once_even_then() -> None:
    cluster = Cluster()
    cluster.update("1", some("nm", "nm"))
    cluster.update("2", some("nm", "nmk"))
    cluster.update("3", some("nm", "m"))
    assert cluster.used[-1] == "m"


def test_after_an_unknown_outcome_nothing_is_gained_and_the_claim_is_tried_again() -> None:
    cluster = Cluster()
    cluster.update("1", some("nm", "nm"))
    cluster.outcome = TransportError("the answer was lost", sent=True)
    cluster.update("2", some("nm", "n"))  # it may have withdrawn m
    cluster.update("2", some("nm", "nm"))
    assert cluster.used[-1] == "n", "m is not used again although it is desired again"
    cluster.update("3", some("n", "nm"))
    cluster.update("4", some("nm", "nm"))
    assert cluster.used[-1] == "mn"


@pytest.mark.parametrize("status", [403, 409, 422])
def test_a_refusal_is_a_known_outcome(status: int) -> None:
    cluster = Cluster()
    cluster.outcome = ApiError(status, "Refused", "no")
    cluster.update("1", some("", "n"))
    cluster.update("1", some("m", "nm"))
    assert (len(cluster.requests), cluster.used[-1]) == (2, "m")


def test_without_its_node_shard_it_uses_nothing_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    cluster.update("1", some("n", "n"))
    cluster.claims = ShardClaims()
    assert asyncio.run(cluster.member.demand()) is SessionDemand.LATER
    assert cluster.used[-1] == ""
    assert "NodeShard s does not exist" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        (ShardClaims("1", HELD, deleted=True, nodes=some("n", "")), ("/status", None)),
        (ShardClaims("1", HELD, deleted=True, queues=some("q", "")), ("", [SHARD_FINALIZER])),
        (ShardClaims("1", HELD, deleted=True), ("", None)),
        (ShardClaims("1", ("x", *HELD), deleted=True), ("", ["x"])),
        (ShardClaims("1", ("x",), deleted=True), None),
        (ShardClaims("1", HELD), None),
        (ShardClaims("1", ()), ("", [SHARD_FINALIZER])),
        (ShardClaims("1", HELD, nodes=some("n", "n", "nm"), queues=NO_CLAIMS), None),
    ],
    ids=[
        "nodes are withdrawn",
        "queues are withdrawn",
        "the finalizer is removed last",
        "other finalizers stay",
        "nothing is left to do",
        "nothing to claim",
        "the finalizer comes first",
        "what others have is not claimed",
    ],
)
def test_patches_in_the_life_of_a_node_shard(
    claims: ShardClaims, expected: tuple[str, list[str] | None] | None
) -> None:
    patch = due_patch(claims, NOW)
    assert (patch and (patch[0], patch[1]["metadata"].get("finalizers"))) == expected
