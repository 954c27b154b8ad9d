"""Proof that the scheduler itself wrote an annotation.

Who may edit a Pod or a PodGroup may write any annotation onto it. What the scheduler has to believe again after a
restart therefore carries a signature: an HMAC-SHA256 under a key that only the scheduler's replicas can read, over the
uid of the object and the content, so that it can be neither changed nor copied onto another object.
"""

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from typing import Final

import msgspec

SIGNATURE: Final = "signature"
"""The member of a signed document that holds its signature."""
_LENGTH: Final = 32
"""Hexadecimal digits kept of a signature: 128 bits."""


class SigningKey:
    """Signs JSON documents for one object each, and verifies them."""

    def __init__(self, key: bytes, created: float = 0.0) -> None:
        """``created``: Unix time since which the key is in use; what was written before cannot carry a signature."""
        self.created = created
        self._key = key

    @property
    def shared(self) -> bool:
        """Whether it outlives this process, so that what it signs can be verified by another."""
        return math.isfinite(self.created)

    def sign(self, uid: str, document: Mapping[str, object]) -> str:
        """The document as JSON, with its signature for the object of that uid."""
        signature = self._signature(uid, document)
        return json.dumps({**document, SIGNATURE: signature}, separators=(",", ":"), sort_keys=True)

    def verify(self, uid: str, text: str) -> dict[str, object] | None:
        """The document that ``sign`` made into ``text`` for that uid, without its signature; None if it did not."""
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        if not isinstance(document, dict):
            return None
        signature = document.pop(SIGNATURE, None)
        if not isinstance(signature, str) or not signature.isascii():
            return None
        return document if hmac.compare_digest(signature, self._signature(uid, document)) else None

    def _signature(self, uid: str, document: Mapping[str, object]) -> str:
        content = json.dumps([uid, document], separators=(",", ":"), sort_keys=True).encode()
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()[:_LENGTH]
