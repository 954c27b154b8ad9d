"""Records of scheduling decisions in signed annotations of Pods and PodGroups.

Users who may edit a Pod or a PodGroup may write any annotation onto it. Annotations that the scheduler reads back after
a restart therefore carry a signature: an HMAC-SHA256 of the uid of the object and the content, under a key that only
the scheduler's replicas can read. A signed annotation can neither be changed nor copied onto another object.
"""

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.api.names import HAMI_ALLOCATED_SUFFIX, HAMI_PREFIX, TASK_ANNOTATIONS, VIRTUAL_DEVICE_PREFIXES
from scheduler.api.objects import Quantity

SIGNATURE: Final = "signature"
"""Key of the signature in a signed document."""
_LENGTH: Final = 32
"""Hexadecimal digits of a signature: 128 bits."""


class SigningKey:
    """Signs JSON documents for one object each, and verifies signatures."""

    def __init__(self, key: bytes, created: float = 0.0) -> None:
        """``created``: Unix time of the first use of the key. Earlier annotations cannot carry a signature."""
        self.created = created
        self._key = key

    @property
    def shared(self) -> bool:
        """Whether the key outlives this process, so that other processes can verify its signatures."""
        return math.isfinite(self.created)

    def sign(self, uid: str, document: Mapping[str, object]) -> str:
        """Returns the document as JSON, with its signature for the object with this uid."""
        signature = self._signature(uid, document)
        return json.dumps({**document, SIGNATURE: signature}, separators=(",", ":"), sort_keys=True)

    def verify(self, uid: str, text: str) -> dict[str, object] | None:
        """Returns the document that ``sign`` turned into ``text`` for this uid, without its signature. None if the
        signature is missing or wrong."""
        try:
            document = msgspec.json.decode(text)
            if not isinstance(document, dict):
                return None
            signature = document.pop(SIGNATURE, None)
            if not isinstance(signature, str) or not signature.isascii():
                return None
            expected = self._signature(uid, document)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None  # a document may be too deep to be encoded although it could be decoded
        return document if hmac.compare_digest(signature, expected) else None

    def _signature(self, uid: str, document: Mapping[str, object]) -> str:
        content = json.dumps([uid, document], separators=(",", ":"), sort_keys=True).encode()
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()[:_LENGTH]


class BindingRecord(msgspec.Struct, frozen=True, gc=False):
    """The decision of the scheduler when it bound a Pod. After a restart it says which queue is charged for the Pod,
    and which chips the Pod has; users can change the other annotations of the binding."""

    node: str
    queue: str
    """The queue that is charged for the Pod."""
    chips: Mapping[str, str] = {}
    """Key -> value of the annotations that name the devices of the Pod (``device_annotations``)."""
    cards: Mapping[str, str] = {}
    """Resource -> name of the card that it counts, for resources that are charged to the card quota of the queue."""

    def text(self, uid: str, key: SigningKey) -> str:
        """The value of the annotation ``names.BINDING_RECORD`` of the Pod with this uid."""
        document = {"node": self.node, "queue": self.queue, "chips": dict(self.chips), "cards": dict(self.cards)}
        return key.sign(uid, document)


def read_binding_record(text: str, uid: str, key: SigningKey) -> BindingRecord | None:
    """Returns the record in the annotation of the Pod with this uid, or None if the scheduler did not write it for this
    Pod."""
    document = key.verify(uid, text)
    try:
        return None if document is None else msgspec.convert(document, BindingRecord)
    except msgspec.ValidationError:
        return None


NO_ANNOTATIONS: Final[dict[str, str]] = {}
"""Shared by all Pods without annotations that matter: one dictionary for each takes 64 bytes."""
_DEVICE_KEYS: Final = frozenset(TASK_ANNOTATIONS)


def device_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a Pod that name its devices. The result must not be changed: Pods without any share it."""
    for key in annotations:
        if _names_devices(key):
            return {key: value for key, value in annotations.items() if _names_devices(key)}
    return NO_ANNOTATIONS


@lru_cache(maxsize=4096)
def _names_devices(key: str) -> bool:
    """Whether an annotation with this key names devices. Most Pods have the same keys."""
    return (
        key in _DEVICE_KEYS
        or key.startswith(VIRTUAL_DEVICE_PREFIXES)
        or (key.startswith(HAMI_PREFIX) and key.endswith(HAMI_ALLOCATED_SUFFIX))
    )


class AdmissionRecord(msgspec.Struct, frozen=True):
    """The resources that a PodGroup was admitted with. Users can change the status and the requests of a PodGroup
    later, so this record decides what the PodGroup reserves after a restart."""

    queue: str
    min_member: int
    min_resources: Mapping[str, str] | None
    """spec.minResources, or None if it is not set."""
    cards: str = ""
    """The annotation ``names.CARD_REQUEST``."""

    @classmethod
    def of(
        cls, queue: str, min_member: int, min_resources: Mapping[str, Quantity] | None, cards: str
    ) -> "AdmissionRecord":
        """The record of an admission with the present fields of a PodGroup."""
        amounts = None if min_resources is None else {name: str(amount) for name, amount in min_resources.items()}
        return cls(queue, min_member, amounts, cards)

    def text(self, uid: str, key: SigningKey) -> str:
        """The value of the annotation ``names.ADMISSION_RECORD`` of the PodGroup with this uid."""
        resources = None if self.min_resources is None else dict(self.min_resources)
        document = {"queue": self.queue, "minMember": self.min_member, "minResources": resources, "cards": self.cards}
        return key.sign(uid, document)


def read_admission_record(text: str, uid: str, key: SigningKey) -> AdmissionRecord | None:
    """Returns the record in the annotation of the PodGroup with this uid, or None if the scheduler did not write it for
    this PodGroup."""
    document = key.verify(uid, text)
    if document is None:
        return None
    queue, member, cards = document.get("queue"), document.get("minMember"), document.get("cards")
    if not isinstance(queue, str) or not isinstance(member, int) or not isinstance(cards, str):
        return None
    resources = document.get("minResources")
    if resources is None:
        return AdmissionRecord(queue, member, None, cards)
    if not isinstance(resources, dict) or not all(isinstance(amount, str) for amount in resources.values()):
        return None
    return AdmissionRecord(queue, member, resources, cards)
