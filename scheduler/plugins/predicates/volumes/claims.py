"""The properties of claims and volumes, and whether a volume fits a claim (the rules of the volume controllers)."""

import msgspec

from scheduler.api.kinds import Kind
from scheduler.api.names import BIND_COMPLETED, SELECTED_NODE, STORAGE, STORAGE_CLASS_ANNOTATION, VOLUME_AVAILABLE
from scheduler.api.objects import KubeObject, LabelSelector
from scheduler.api.quantity import parse_quantity
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import FieldReporter, matches
from scheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.framework.plugin_session import PluginSession

FILESYSTEM = "Filesystem"


class ClaimRequest(msgspec.Struct, frozen=True):
    """The request of an unbound claim. Claims with equal requests have equal plans."""

    storage_class: str
    size: int
    """Bytes."""
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str
    selector: bytes
    """The label selector in JSON; empty without a selector."""
    prebound: str
    """The volume that is prebound to this claim (``claimRef``), or "" if any volume may be bound."""


def claim_key(claim: PersistentVolumeClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def class_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class of a claim or volume, or "" if it has none."""
    named = (obj.metadata.annotations or {}).get(STORAGE_CLASS_ANNOTATION)
    return (obj.spec.storage_class_name or "") if named is None else named


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the binding of the claim to its volume is complete."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def selected_node(claim: PersistentVolumeClaim) -> str:
    """The node for which a volume is provisioned, or ""."""
    return (claim.metadata.annotations or {}).get(SELECTED_NODE, "")


def requested_bytes(claim: PersistentVolumeClaim) -> int:
    """The requested size in bytes; 0 without a request. Raises QuantityError."""
    requests = (claim.spec.resources.requests if claim.spec.resources else None) or {}
    return parse_quantity(requests.get(STORAGE, 0))


def capacity(volume: PersistentVolume) -> int:
    """The size of a volume in bytes. Raises QuantityError."""
    return parse_quantity((volume.spec.capacity or {}).get(STORAGE, 0))


def request_of(claim: PersistentVolumeClaim, prebound: str = "") -> ClaimRequest:
    """The request of a claim. Raises QuantityError."""
    spec = claim.spec
    return ClaimRequest(
        storage_class=class_of(claim),
        size=requested_bytes(claim),
        access_modes=frozenset(spec.access_modes or ()),
        volume_mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=b"" if spec.selector is None else msgspec.json.encode(spec.selector),
        prebound=prebound,
    )


def is_prebound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume's ``claimRef`` names a claim, with the claim's uid or without a uid."""
    ref = volume.spec.claim_ref
    return (
        ref is not None
        and (ref.namespace, ref.name) == (claim.metadata.namespace, claim.metadata.name)
        and ref.uid in ("", claim.metadata.uid)
    )


def is_available(volume: PersistentVolume) -> bool:
    """Whether a volume is in phase Available, has no ``claimRef`` and is not being deleted."""
    unavailable = volume.spec.claim_ref is not None or volume.metadata.deletion_timestamp is not None
    return not unavailable and volume.status.phase == VOLUME_AVAILABLE


def same_mode(volume: PersistentVolume, request: ClaimRequest) -> bool:
    """Whether a volume has the requested volume mode and attributes class, and is not being deleted. A prebound volume
    needs no more to fit."""
    spec = volume.spec
    return (
        (spec.volume_mode or FILESYSTEM) == request.volume_mode
        and (spec.volume_attributes_class_name or "") == request.attributes_class
        and volume.metadata.deletion_timestamp is None
    )


def fits(volume: PersistentVolume, request: ClaimRequest) -> bool:
    """Whether an available volume of the storage class that is large enough fits a request."""
    if not same_mode(volume, request) or not request.access_modes <= set(volume.spec.access_modes or ()):
        return False
    selector = msgspec.json.decode(request.selector, type=LabelSelector) if request.selector else None
    return selector is None or matches(selector, volume.metadata.labels or {})


class ObjectReporters:
    """Reports invalid fields of claims, volumes and other objects as Warning Events, each once per session."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._reported: set[Malformed] = set()

    def reporter(self, kind: Kind, obj: KubeObject, prefix: str = "") -> FieldReporter:
        """Returns a reporter for invalid fields of one object. ``prefix`` is put before the name of the field."""
        meta = obj.metadata

        def report(field: str, problem: str) -> None:
            malformed = Malformed(kind.name, meta.namespace, meta.name, f"{prefix}{field}", problem)
            if malformed not in self._reported:
                self._reported.add(malformed)
                self._session.malformed_field(malformed)

        return report
