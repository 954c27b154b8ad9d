"""The volumes that are there to be bound: which of them are good for a claim, the smallest first.

Volumes are known by their rank, their place in the order of capacity and name, so the smaller of two is the lower.
"""

from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler.api.kinds import VOLUME
from scheduler.api.quantity import QuantityError
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.claims import (
    Wanted,
    capacity,
    class_of,
    fits,
    is_alike,
    is_bound,
    is_free,
    is_reserved,
)
from scheduler.plugins.predicates.volumes.complaints import Complaints


class Pool:
    """The volumes of one snapshot that are not bound for good, and which of them are taken."""

    def __init__(
        self,
        volumes: Mapping[str, PersistentVolume],
        claims: Mapping[str, PersistentVolumeClaim],
        complaints: Complaints,
    ) -> None:
        sized: list[tuple[int, str, PersistentVolume]] = []
        for name, volume in volumes.items():
            if is_free(volume) or _is_awaited(volume, claims):
                try:
                    sized.append((capacity(volume), name, volume))
                except QuantityError as error:
                    complaints.about(VOLUME, volume)("spec.capacity", str(error))
        sized.sort(key=lambda entry: entry[:2])
        self.volumes = [volume for _, _, volume in sized]
        """By rank."""
        self.rank = {name: rank for rank, (_, name, _) in enumerate(sized)}
        self.taken: NDArray[np.bool_] = np.zeros(len(sized), dtype=bool)
        """Shape (volumes,), by rank: promised to a claim."""
        self.sizes = [size for size, _, _ in sized]
        """Bytes, by rank."""
        self._of_class: dict[str, list[int]] = {}
        self._held: dict[tuple[str, str], list[int]] = {}
        """Namespace and name of a claim -> the volumes that name it."""
        self._fitting: dict[Wanted, list[int]] = {}
        for rank, volume in enumerate(self.volumes):
            held = volume.spec.claim_ref
            if held is None:
                self._of_class.setdefault(class_of(volume), []).append(rank)
            else:
                self._held.setdefault((held.namespace, held.name), []).append(rank)

    def reserved_for(self, claim: PersistentVolumeClaim) -> str:
        """The name of the volume that is kept for a claim, or ""."""
        for rank in self._held.get((claim.metadata.namespace, claim.metadata.name), ()):
            volume = self.volumes[rank]
            if is_reserved(volume, claim) and class_of(volume) == class_of(claim):
                return volume.metadata.name
        return ""

    def fitting(self, wanted: Wanted) -> list[int]:
        """The ranks of the volumes that are good for a claim, taken or not, ascending."""
        found = self._fitting.get(wanted)
        if found is None:
            found = self._fitting[wanted] = self._find(wanted)
        return found

    def _find(self, wanted: Wanted) -> list[int]:
        if wanted.reserved:
            rank = self.rank[wanted.reserved]
            return [rank] if self.sizes[rank] >= wanted.size and is_alike(self.volumes[rank], wanted) else []
        large_enough = bisect_left(self.sizes, wanted.size)
        ranks = self._of_class.get(wanted.storage_class, [])
        return [rank for rank in ranks[bisect_left(ranks, large_enough) :] if fits(self.volumes[rank], wanted)]


def _is_awaited(volume: PersistentVolume, claims: Mapping[str, PersistentVolumeClaim]) -> bool:
    """Whether a volume is kept for a claim that is not bound yet."""
    held = volume.spec.claim_ref
    claim = claims.get(f"{held.namespace}/{held.name}") if held is not None else None
    return claim is not None and not is_bound(claim)
