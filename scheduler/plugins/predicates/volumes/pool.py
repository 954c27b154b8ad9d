"""The volumes that can be bound, and which of them fit a claim.

A volume is identified by its rank, its position in the order of capacity and name: smaller volumes have lower ranks.
"""

from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scheduler.api.kinds import VOLUME
from scheduler.api.quantity import QuantityError
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugins.predicates.volumes.claims import (
    ClaimRequest,
    capacity,
    class_of,
    fits,
    is_available,
    is_bound,
    is_prebound,
    same_mode,
)
from scheduler.plugins.predicates.volumes.object_reporters import ObjectReporters


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
        self._fitting: dict[ClaimRequest, list[int]] = {}
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

    def fitting(self, request: ClaimRequest) -> list[int]:
        """The ranks of the volumes that fit a request, reserved or not, in ascending order."""
        found = self._fitting.get(request)
        if found is None:
            found = self._fitting[request] = self._find(request)
        return found

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
