"""The worker process: decides on large reviews, one after the other, until its standard input ends.

It has a copy of the server process's view of the cluster. It writes nothing to disk and opens no connection. It runs in
its own session, so that signals for the server do not reach it. The messages between the two processes are msgpack,
each preceded by its length.
"""

import contextlib
import gc
import os
import resource
import sys
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from scheduler.api.kinds import NAMESPACE, QUEUE
from scheduler.api.objects import Namespace
from scheduler.api.scheduling import Queue
from scheduler.cluster.kube.admission.decision import DecisionView, ReviewOutcome, WatchedView, decide
from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.webhooks.contract import WebhookSettings
from scheduler.webhooks.routes import routes

LENGTH_BYTES: Final = 4
"""Size of the length field; big-endian."""
MEMORY_LIMIT: Final = 512 * 1024 * 1024
"""Bytes of heap that the process may use."""


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


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Replies to the reviews of a stream until it ends."""
    view, settings = WatchedView(), WebhookSettings()
    while length := requests.read(LENGTH_BYTES):
        message = decode_message(requests.read(int.from_bytes(length)))
        if isinstance(message, SettingsChange):
            settings = message.settings
        elif isinstance(message, ObjectChanges):
            _apply(message, view)
        else:
            reply = encode(_reply(message, view, settings))
            replies.write(len(reply).to_bytes(LENGTH_BYTES))
            replies.write(reply)
            replies.flush()
            del message, reply
            gc.collect()


def _apply(changes: ObjectChanges, view: WatchedView) -> None:
    for queue in changes.queues:
        view.upsert(QUEUE, queue)
    for namespace in changes.namespaces:
        view.upsert(NAMESPACE, namespace)
    for kind, name in changes.deleted:
        view.delete(QUEUE if kind == QUEUE.name else NAMESPACE, "", name)


def _reply(review: Review, view: WatchedView, settings: WebhookSettings) -> ReviewOutcome | InvalidReview | OutOfMemory:
    completed = DecisionView(view, {queue.metadata.name: queue for queue in review.read})
    try:
        return decide(routes()[review.path], review.body, completed, settings)
    except ReviewError as error:
        return InvalidReview(str(error))
    except MemoryError:
        return OutOfMemory(MEMORY_LIMIT)


def main() -> None:
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printed output goes to the log, not into the replies
    # A request is a tree of some hundred thousand objects, in which repeated collections find no cycles.
    gc.disable()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # when memory is short, the kernel kills this process rather than the server
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
