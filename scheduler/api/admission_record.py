"""What a PodGroup was admitted with, in a signed annotation of the PodGroup.

A user who may edit a PodGroup may write its status, and may change what it asks for after it was admitted. So a
PodGroup reserves what the scheduler admitted it with: that is remembered, and after a restart this record counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.api.objects import Quantity
from scheduler.api.signing import SigningKey


@dataclass(frozen=True, slots=True)
class AdmissionRecord:
    """The decision about one PodGroup."""

    queue: str
    min_member: int
    min_resources: Mapping[str, str] | None
    """spec.minResources; None when it was not given."""
    cards: str = ""
    """The annotation ``names.CARD_REQUEST``."""

    @classmethod
    def of(
        cls, queue: str, min_member: int, min_resources: Mapping[str, Quantity] | None, cards: str
    ) -> "AdmissionRecord":
        """The record of an admission with what a PodGroup says."""
        amounts = None if min_resources is None else {name: str(amount) for name, amount in min_resources.items()}
        return cls(queue, min_member, amounts, cards)

    def text(self, uid: str, key: SigningKey) -> str:
        """The value of the annotation ``names.ADMISSION_RECORD`` of the PodGroup of that uid."""
        resources = None if self.min_resources is None else dict(self.min_resources)
        document = {"queue": self.queue, "minMember": self.min_member, "minResources": resources, "cards": self.cards}
        return key.sign(uid, document)


def read_admission_record(text: str, uid: str, key: SigningKey) -> AdmissionRecord | None:
    """The record in the annotation of the PodGroup of that uid; None if the scheduler did not write it for that one."""
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
