"""What the scheduler decided when it bound a Pod, in a signed annotation of the Pod.

The binding's other annotations speak to device plugins, and a tenant can change them afterwards. This record is the one
that counts after a restart: which queue is charged for the Pod, and which chips it was given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.api.names import HAMI_ALLOCATED_SUFFIX, HAMI_PREFIX, TASK_ANNOTATIONS
from scheduler.api.signing import SigningKey


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """The decision about one Pod."""

    node: str
    queue: str
    """The queue that is charged."""
    chips: Mapping[str, str] = field(default_factory=dict)
    """Key -> value of the binding's annotations that say which devices the Pod was given (``device_annotations``)."""

    def text(self, uid: str, key: SigningKey) -> str:
        """The value of the annotation ``names.BINDING_RECORD`` of the Pod of that uid."""
        return key.sign(uid, {"node": self.node, "queue": self.queue, "chips": dict(self.chips)})


def read_binding_record(text: str, uid: str, key: SigningKey) -> BindingRecord | None:
    """The record in the annotation of the Pod of that uid; None if the scheduler did not write it for that Pod."""
    document = key.verify(uid, text)
    if document is None:
        return None
    node, queue, chips = document.get("node"), document.get("queue"), document.get("chips")
    if not isinstance(node, str) or not isinstance(queue, str) or not isinstance(chips, dict):
        return None
    if not all(isinstance(value, str) for value in chips.values()):
        return None
    return BindingRecord(node, queue, chips)


def device_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotations of a Pod that say which devices it has."""
    return {
        key: value
        for key, value in annotations.items()
        if key in TASK_ANNOTATIONS or (key.startswith(HAMI_PREFIX) and key.endswith(HAMI_ALLOCATED_SUFFIX))
    }
