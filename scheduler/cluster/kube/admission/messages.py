"""The messages between the server process and its worker process: msgpack, each preceded by its length."""

from typing import Final

import msgspec

from scheduler.api.objects import Namespace
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.decision import ReviewOutcome
from scheduler.webhooks.contract import WebhookSettings

LENGTH_BYTES: Final = 4
"""Size of the length field; big-endian."""


# --- to the worker process ---
class ObjectChanges(msgspec.Struct, tag=True):
    """The created and updated objects of the cluster, and kind and name of the deleted ones."""

    queues: list[Queue] = []
    namespaces: list[Namespace] = []
    deleted: list[tuple[str, str]] = []


class SettingsChange(msgspec.Struct, tag=True):
    """The settings for the following reviews."""

    settings: WebhookSettings


class Review(msgspec.Struct, tag=True):
    """A review to decide on, the only message with a reply."""

    path: str
    body: bytes
    read: list[Queue]
    """Queues read from the API server for this decision."""


# --- from the worker process ---
class InvalidReview(msgspec.Struct, tag=True):
    """The body is not a review of the path."""

    reason: str


class OutOfMemory(msgspec.Struct, tag=True):
    """The decision needs more than the memory limit of the worker process."""

    limit: int
    """Bytes."""


encode: Final = msgspec.msgpack.Encoder().encode
decode_message: Final = msgspec.msgpack.Decoder(ObjectChanges | SettingsChange | Review).decode
decode_reply: Final = msgspec.msgpack.Decoder(ReviewOutcome | InvalidReview | OutOfMemory).decode
