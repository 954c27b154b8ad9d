"""Plans which volume each unbound claim of a Pod gets on each node.

The rule is Kubernetes': the claims are processed from the smallest to the largest request. Each gets the smallest
volume that fits it, is accessible from the node, and is not given to an earlier claim; without one, a volume is
provisioned if the storage class can. Pods whose claims have equal requests share a plan. When a volume is reserved or
released, the plan is computed again for all nodes at once.

A volume is identified by its rank, its position in the order of capacity and name: smaller volumes have lower ranks.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from scheduler.api.kinds import VOLUME
from scheduler.api.node import Codes, Rows
from scheduler.api.quantity import QuantityError
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.claims import (
    ClaimRequest,
    ObjectReporters,
    capacity,
    class_of,
    fits,
    is_available,
    is_bound,
    is_prebound,
    same_mode,
)
from scheduler.plugins.predicates.volumes.topology import NodeSet


class VolumePool:
    """The volumes of one snapshot that are available or prebound to an unbound claim, and which of them are
    reserved."""

    def __init__(
        self,
        volumes: Mapping[str, PersistentVolume],
        claims: Mapping[str, PersistentVolumeClaim],
        reporters: ObjectReporters,
    ) -> None:
        sized: list[tuple[int, str, PersistentVolume]] = []
        for name, volume in volumes.items():
            if is_available(volume) or _prebound_to_unbound_claim(volume, claims):
                try:
                    sized.append((capacity(volume), name, volume))
                except QuantityError as error:
                    reporters.reporter(VOLUME, volume)("spec.capacity", str(error))
        sized.sort(key=lambda entry: entry[:2])
        self.volumes = [volume for _, _, volume in sized]
        """Indexed by rank."""
        self.rank = {name: rank for rank, (_, name, _) in enumerate(sized)}
        self.reserved: NDArray[np.bool_] = np.zeros(len(sized), dtype=bool)
        """Shape (volumes,): whether each volume is reserved for a claim."""
        self.sizes = [size for size, _, _ in sized]
        """Sizes in bytes, indexed by rank."""
        self._of_class: dict[str, list[int]] = {}
        self._prebound: dict[tuple[str, str], list[int]] = {}
        """Namespace and name of a claim -> ranks of the volumes whose ``claimRef`` names it."""
        self.fitting: Callable[[ClaimRequest], list[int]] = cache(self._find)
        """Request -> the ranks of the volumes that fit it, reserved or not, in ascending order."""
        for rank, volume in enumerate(self.volumes):
            ref = volume.spec.claim_ref
            if ref is None:
                self._of_class.setdefault(class_of(volume), []).append(rank)
            else:
                self._prebound.setdefault((ref.namespace, ref.name), []).append(rank)

    def prebound_volume(self, claim: PersistentVolumeClaim) -> str:
        """The name of the volume that is prebound to a claim, or ""."""
        for rank in self._prebound.get((claim.metadata.namespace, claim.metadata.name), ()):
            volume = self.volumes[rank]
            if is_prebound(volume, claim) and class_of(volume) == class_of(claim):
                return volume.metadata.name
        return ""

    def _find(self, request: ClaimRequest) -> list[int]:
        if request.prebound:
            rank = self.rank[request.prebound]
            return [rank] if self.sizes[rank] >= request.size and same_mode(self.volumes[rank], request) else []
        large_enough = bisect_left(self.sizes, request.size)
        ranks = self._of_class.get(request.storage_class, [])
        return [rank for rank in ranks[bisect_left(ranks, large_enough) :] if fits(self.volumes[rank], request)]


def _prebound_to_unbound_claim(volume: PersistentVolume, claims: Mapping[str, PersistentVolumeClaim]) -> bool:
    """Whether a volume is prebound to a claim that is not bound."""
    ref = volume.spec.claim_ref
    claim = claims.get(f"{ref.namespace}/{ref.name}") if ref is not None else None
    return claim is not None and not is_bound(claim)


NodesOf = Callable[[PersistentVolume], NodeSet]

Choice = NDArray[np.int64]
"""Shape (claims, nodes): the rank of the volume that each claim gets on each node, or NONE."""
NONE = 2**62
LOCAL_NODES = 4
"""Volumes accessible from at most this number of nodes (local disks) are processed one by one, others by topology."""


class _Candidates:
    """The volumes that fit one claim, grouped by the nodes from which they are accessible."""

    def __init__(self, pool: VolumePool, ranks: Sequence[int], nodes_of: NodesOf) -> None:
        by_nodes: dict[int, tuple[NodeSet, list[int]]] = {}
        local: list[tuple[int, NodeSet]] = []
        for rank in ranks:
            nodes = nodes_of(pool.volumes[rank])
            if len(nodes.rows) <= LOCAL_NODES:
                local.append((rank, nodes))
            else:
                by_nodes.setdefault(id(nodes), (nodes, []))[1].append(rank)
        self._pool = pool
        self._shared = [(nodes.rows, np.array(shared, dtype=np.int64)) for nodes, shared in by_nodes.values()]
        """Rows, and the ranks of the volumes that are accessible from these nodes, the smallest first."""
        local.reverse()  # the last assignment to a node wins, so the smallest volume comes last
        counts = [len(nodes.rows) for _, nodes in local]
        self._ranks = np.repeat(np.array([rank for rank, _ in local], dtype=np.int64), counts)
        self._rows: Rows = np.concatenate([nodes.rows for _, nodes in local]) if local else np.empty(0, dtype=np.intp)

    def best(self, nodes: int, before: Choice) -> Choice:
        """The lowest rank for each node that is neither reserved nor given to an earlier claim. ``before``: the choices
        of the earlier claims, shape (claims, nodes)."""
        best = np.full(nodes, NONE, dtype=np.int64)
        reserved = self._pool.reserved
        if len(self._rows):
            keep = ~reserved[self._ranks]
            for chosen in before:
                keep &= chosen[self._rows] != self._ranks
            best[self._rows[keep]] = self._ranks[keep]
        for rows, ranks in self._shared:
            free = ranks[~reserved[ranks]][: len(before) + 1]
            here = np.full(len(rows), NONE, dtype=np.int64)
            for rank in free[::-1]:
                unchosen = np.ones(len(rows), dtype=bool)
                for chosen in before:
                    unchosen &= chosen[rows] != rank
                here[unchosen] = rank
            best[rows] = np.minimum(best[rows], here)
        return best


class VolumePlan:
    """The volumes for one sequence of requests, the smallest first."""

    def __init__(
        self,
        pool: VolumePool,
        requests: Sequence[ClaimRequest],
        nodes_of: NodesOf,
        provision: Callable[[ClaimRequest], Codes],
        nodes: int,
    ) -> None:
        """``provision``: returns, per node, why a volume cannot be provisioned (index in REASONS), or -1."""
        self._pool = pool
        self._requests = requests
        self._candidates = [_Candidates(pool, pool.fitting(one), nodes_of) for one in requests]
        self._provision = provision
        self._nodes = nodes
        self.recompute()

    def recompute(self) -> None:
        """Computes the plan again, after volumes were reserved or released."""
        choice = np.full((len(self._requests), self._nodes), NONE, dtype=np.int64)
        codes: Codes = np.full(self._nodes, -1, dtype=np.int32)
        for number, candidates in enumerate(self._candidates):
            choice[number] = candidates.best(self._nodes, choice[:number])
        for number, request in enumerate(self._requests):
            missing = (choice[number] == NONE) & (codes < 0)
            if missing.any():
                codes[missing] = self._provision(request)[missing]
        self.choice = choice
        self.codes = codes
        """Shape (nodes,): why the node is rejected (index in REASONS), or -1."""

    def sizes(self, rows: Rows) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Returns two arrays of shape (claims, rows): whether the claim gets an existing volume, and its size in
        bytes."""
        exists = self.choice[:, rows] != NONE
        sizes = np.append(self._pool.sizes, 0.0)
        return exists, sizes[np.where(exists, self.choice[:, rows], len(sizes) - 1)]

    def volumes_at(self, row: int) -> list[str]:
        """The name of the volume of each claim on a node, or "" if one is provisioned."""
        ranks = self.choice[:, row].tolist()
        return ["" if rank == NONE else self._pool.volumes[rank].metadata.name for rank in ranks]
