"""The worker process: decides on large reviews, one after the other, until its standard input ends.

It has a copy of what the server process knows of the cluster. It writes nothing to disk, makes no connection, and has
a session of its own, so that signals that are meant for the server do not reach it.
"""

import contextlib
import gc
import os
import resource
import sys
from pathlib import Path
from typing import BinaryIO, Final

from scheduler.api.kinds import NAMESPACE, QUEUE
from scheduler.cluster.kube.admission.decision import Outcome, decide
from scheduler.cluster.kube.admission.messages import (
    LENGTH,
    Changes,
    NoReview,
    OutOfMemory,
    Review,
    Rules,
    decode_message,
    encode,
)
from scheduler.cluster.kube.admission.review import ReviewError
from scheduler.cluster.kube.admission.view import CompletedView, WatchedView
from scheduler.webhooks.contract import Settings
from scheduler.webhooks.routes import routes

MEMORY: Final = 512 * 1024 * 1024
"""Bytes of heap."""


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Reply to the reviews of a stream until it ends."""
    view, settings = WatchedView(), Settings()
    while length := requests.read(LENGTH):
        message = decode_message(requests.read(int.from_bytes(length)))
        if isinstance(message, Rules):
            settings = message.settings
        elif isinstance(message, Changes):
            _apply(message, view)
        else:
            reply = encode(_reply(message, view, settings))
            replies.write(len(reply).to_bytes(LENGTH))
            replies.write(reply)
            replies.flush()
            del message, reply
            gc.collect()


def _apply(changes: Changes, view: WatchedView) -> None:
    for queue in changes.queues:
        view.upsert(QUEUE.name, queue)
    for namespace in changes.namespaces:
        view.upsert(NAMESPACE.name, namespace)
    for kind, name in changes.deleted:
        view.delete(kind, "", name)


def _reply(review: Review, view: WatchedView, settings: Settings) -> Outcome | NoReview | OutOfMemory:
    completed = CompletedView(view, {queue.metadata.name: queue for queue in review.read})
    try:
        return decide(routes()[review.path], review.body, completed, settings)
    except ReviewError as error:
        return NoReview(str(error))
    except MemoryError:
        return OutOfMemory(MEMORY)


def main() -> None:
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever is printed goes to the log
    # A request is a tree by the hundred thousand objects: to search it for cycles again and again finds nothing.
    gc.disable()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # where memory is short, the kernel is to end this process, not the server
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
