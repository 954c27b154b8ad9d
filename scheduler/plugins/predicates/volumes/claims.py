"""What claims and volumes say of themselves, and whether a volume is good for a claim (as volume controllers judge)."""

from dataclasses import dataclass

import msgspec

from scheduler.api.names import BIND_COMPLETED, SELECTED_NODE, STORAGE, STORAGE_CLASS_ANNOTATION, VOLUME_AVAILABLE
from scheduler.api.objects import LabelSelector
from scheduler.api.quantity import parse_quantity
from scheduler.api.selectors import matches
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim

FILESYSTEM = "Filesystem"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an unbound claim asks for. Claims that ask for the same get the same answers."""

    storage_class: str
    size: int
    """Bytes."""
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    selector: bytes
    """A label selector, encoded; empty: none."""
    reserved: str
    """The volume that is kept for this very claim, or "": any."""


def claim_key(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def class_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class of a claim or volume, or "" if it has none."""
    named = (obj.metadata.annotations or {}).get(STORAGE_CLASS_ANNOTATION)
    return (obj.spec.storage_class_name or "") if named is None else named


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Claim and volume know of each other, for good."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node for which a volume is being provisioned, or ""."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE, "")


def asked(claim: PersistentVolumeClaim) -> int:
    """Bytes asked for; 0 if nothing is said. Raises QuantityError."""
    requests = (claim.spec.resources.requests if claim.spec.resources else None) or {}
    return parse_quantity(requests.get(STORAGE, 0))


def capacity(volume: PersistentVolume) -> int:
    """Bytes of a volume. Raises QuantityError."""
    return parse_quantity((volume.spec.capacity or {}).get(STORAGE, 0))


def wanted_by(claim: PersistentVolumeClaim, reserved: str = "") -> Wanted:
    """What a claim asks for. Raises QuantityError."""
    spec = claim.spec
    return Wanted(
        storage_class=class_of(claim),
        size=asked(claim),
        access_modes=frozenset(spec.access_modes or ()),
        volume_mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=b"" if spec.selector is None else msgspec.json.encode(spec.selector),
        reserved=reserved,
    )


def is_reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is bound to a claim from its own side, or kept for it by name."""
    held = volume.spec.claim_ref
    return (
        held is not None
        and (held.namespace, held.name) == (claim.metadata.namespace, claim.metadata.name)
        and held.uid in ("", claim.metadata.uid)
    )


def is_free(volume: PersistentVolume) -> bool:
    """Whether a volume is there for whoever asks."""
    held_back = volume.spec.claim_ref is not None or volume.metadata.deletion_timestamp is not None
    return not held_back and volume.status.phase == VOLUME_AVAILABLE


def is_alike(volume: PersistentVolume, wanted: Wanted) -> bool:
    """Whether a volume is of the kind that is asked for; one that is kept for the claim need be no more than that."""
    spec = volume.spec
    return (
        (spec.volume_mode or FILESYSTEM) == wanted.volume_mode
        and (spec.volume_attributes_class_name or "") == wanted.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


def fits(volume: PersistentVolume, wanted: Wanted) -> bool:
    """Whether a free volume of the class, large enough, is what is asked for."""
    if not is_alike(volume, wanted) or not wanted.access_modes <= set(volume.spec.access_modes or ()):
        return False
    selector = msgspec.json.decode(wanted.selector, type=LabelSelector) if wanted.selector else None
    return selector is None or matches(selector, volume.metadata.labels or {})
