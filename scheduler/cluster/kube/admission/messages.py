"""What the server process and its worker process send each other: msgpack, each message after its length."""

from typing import Final

import msgspec

from scheduler.api.objects import Namespace
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.decision import Outcome
from scheduler.webhooks.contract import Settings

LENGTH: Final = 4
"""Bytes of the length of a message, big-endian."""


# --- to the worker process ---
class Changes(msgspec.Struct, tag=True):
    """Objects of the cluster that were created or changed, and the kind and name of those that were deleted."""

    queues: list[Queue] = []
    namespaces: list[Namespace] = []
    deleted: list[tuple[str, str]] = []


class Rules(msgspec.Struct, tag=True):
    """The settings in force."""

    settings: Settings


class Review(msgspec.Struct, tag=True):
    """A review to decide on. The only message that is replied to."""

    path: str
    body: bytes
    read: list[Queue]
    """Queues that were read from the API server for this decision."""


# --- from the worker process ---
class NoReview(msgspec.Struct, tag=True):
    """The body is no review of the path."""

    why: str


class OutOfMemory(msgspec.Struct, tag=True):
    """The decision needs more than the memory limit of the worker process."""

    limit: int
    """Bytes."""


encode: Final = msgspec.msgpack.Encoder().encode
decode_message: Final = msgspec.msgpack.Decoder(Changes | Rules | Review).decode
decode_reply: Final = msgspec.msgpack.Decoder(Outcome | NoReview | OutOfMemory).decode
