"""What the scheduler decided when it bound a Pod, in a signed annotation of the Pod.

The binding's other annotations speak to device plugins, and a tenant can change them afterwards. This record is the one
that counts after a restart: which queue is charged for the Pod, and which chips it was given.
"""

from collections.abc import Mapping

import msgspec

from scheduler.api.names import HAMI_ALLOCATED_SUFFIX, HAMI_PREFIX, TASK_ANNOTATIONS
from scheduler.api.signing import SigningKey


class BindingRecord(msgspec.Struct, frozen=True, gc=False):
    """The decision about one Pod."""

    node: str
    queue: str
    """The queue that is charged."""
    chips: Mapping[str, str] = {}
    """Key -> value of the binding's annotations that say which devices the Pod was given (``device_annotations``)."""
    cards: Mapping[str, str] = {}
    """Resource -> name of the card it counts, of those for which the queue's card quota is charged."""

    def text(self, uid: str, key: SigningKey) -> str:
        """The value of the annotation ``names.BINDING_RECORD`` of the Pod of that uid."""
        document = {"node": self.node, "queue": self.queue, "chips": dict(self.chips), "cards": dict(self.cards)}
        return key.sign(uid, document)


def read_binding_record(text: str, uid: str, key: SigningKey) -> BindingRecord | None:
    """The record in the annotation of the Pod of that uid; None if the scheduler did not write it for that Pod."""
    document = key.verify(uid, text)
    if document is None:
        return None
    node, queue = document.get("node"), document.get("queue")
    chips, cards = document.get("chips", {}), document.get("cards", {})
    if not isinstance(node, str) or not isinstance(queue, str):
        return None
    if not isinstance(chips, dict) or not isinstance(cards, dict):
        return None
    if not all(isinstance(value, str) for value in (*chips.values(), *cards.values())):
        return None
    return BindingRecord(node, queue, chips, cards)


def device_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a Pod that say which devices it has."""
    return {
        key: value
        for key, value in annotations.items()
        if key in TASK_ANNOTATIONS or (key.startswith(HAMI_PREFIX) and key.endswith(HAMI_ALLOCATED_SUFFIX))
    }
