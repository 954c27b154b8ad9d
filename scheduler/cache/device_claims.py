"""Which ResourceClaims waiting Pods have, as far as it sets them apart from Pods that are otherwise equal.

Each Pod of a gang has claims of its own, made from a template. As long as these ask for the same and are not allocated,
the Pods are equal and stay in one class. When one of the claims appears, is allocated or goes, its Pod is
classified anew. Pods that have a node are not told apart by their claims.
"""

from collections.abc import Mapping

import msgspec

from scheduler.api.dra import ResourceClaim
from scheduler.api.objects import PodResourceClaim, PodSpec
from scheduler.api.task import PodClaim, Task
from scheduler.cache.shared import Shared


class DeviceClaims:
    """The claims of all waiting Pods, by the claims that the cache has."""

    def __init__(self, claims: Shared[ResourceClaim]) -> None:
        self._claims = claims
        self._users: dict[str, dict[str, None]] = {}
        """Key of a claim made from a template -> keys of the Pods that have it (one, if nobody errs)."""

    def of(self, spec: PodSpec, namespace: str, uid: str, made: Mapping[str, str | None]) -> tuple[PodClaim, ...]:
        """The claims of a Pod. ``made``: entry of the spec -> claim made for it."""
        found = (self._claim(entry, namespace, uid, made) for entry in spec.resource_claims or ())
        return tuple(claim for claim in found if claim is not None)

    def _claim(
        self, entry: PodResourceClaim, namespace: str, uid: str, made: Mapping[str, str | None]
    ) -> PodClaim | None:
        if entry.resource_claim_name is not None:
            return PodClaim(entry.name, claim=entry.resource_claim_name)
        if entry.resource_claim_template_name is None:
            return PodClaim(entry.name, problem="none of the supported fields are set")
        if entry.name not in made:
            return PodClaim(entry.name, problem="ResourceClaim not created yet")
        name = made[entry.name]
        if name is None:
            return None  # none is needed
        claim = self._claims.get(f"{namespace}/{name}")
        if claim is None:
            return PodClaim(entry.name, problem="ResourceClaim not found")
        if claim.metadata.deletion_timestamp is not None:
            return PodClaim(entry.name, problem="ResourceClaim is being deleted")
        if not any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references or ()):
            return PodClaim(entry.name, problem="ResourceClaim was not created for the Pod (Pod is not owner)")
        if claim.status.allocation is not None:
            return PodClaim(entry.name, claim=name)
        return PodClaim(entry.name, shape=msgspec.json.encode(claim.spec))

    # --- who has which ---
    def swap(self, old: Task | None, new: Task | None) -> None:
        """A task was replaced by another version of it."""
        if old is not None and old.device_claims:
            for claim in _own_claims(old):
                users = self._users.get(claim, {})
                users.pop(old.key, None)
                if not users:
                    self._users.pop(claim, None)
        if new is not None and new.device_claims:
            for claim in _own_claims(new):
                self._users.setdefault(claim, {})[new.key] = None

    def users(self, claim: str) -> list[str]:
        """The keys of the Pods for which a claim (by key) was made."""
        return list(self._users.get(claim, ()))


def _own_claims(task: Task) -> list[str]:
    """The keys of the claims made for a Pod."""
    return [f"{task.namespace}/{name}" for name in task.device_claims.values() if name is not None]
