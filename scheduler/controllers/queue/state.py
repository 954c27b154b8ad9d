"""Whether a Queue is open: the table of states, which also depends on the parent Queue (as in Volcano's queue
controller).

A Queue that is closed because the one above it is closed carries an annotation, and opens again with that one; a Queue
that was closed for itself stays closed, also if it was closed already when its owner closed it.
"""

import msgspec

from scheduler.api.batch import Action
from scheduler.api.names import CLOSED_BY_PARENT, ROOT_QUEUE
from scheduler.api.queue import CLOSED, CLOSING, OPEN, UNKNOWN
from scheduler.api.scheduling import Queue

SHUT = (CLOSING, CLOSED)


class DesiredState(msgspec.Struct, frozen=True):
    """The desired state of a Queue."""

    state: str
    closed_by_parent: bool | None = None
    """The desired annotation; None: unchanged."""
    refusal: str = ""
    """Why a Command was refused, or ""."""


def decide(queue: Queue, above: str, action: Action | None, populated: bool) -> DesiredState:
    """``above``: the state of the Queue above, "" if that is not known. ``action``: what a Command asks.
    ``populated``: whether it has PodGroups."""
    if queue.metadata.name == ROOT_QUEUE:
        return DesiredState(OPEN, refusal="the root queue cannot be closed" if action == Action.CLOSE_QUEUE else "")
    state = queue.status.state or OPEN
    inherited = (queue.metadata.annotations or {}).get(CLOSED_BY_PARENT) == "true"
    shut = CLOSING if populated else CLOSED
    refusal = ""
    if action == Action.OPEN_QUEUE and above in SHUT:
        refusal = (
            f"Failed to open queue {queue.metadata.name} because its parent queue {queue.spec.parent} is closing or "
            "closed. Open the parent queue first."
        )
    elif action == Action.OPEN_QUEUE and state != OPEN:
        return DesiredState(OPEN, False)
    elif action == Action.CLOSE_QUEUE and (inherited or state not in SHUT):
        return DesiredState(CLOSED if state == CLOSED else shut, False if inherited else None)
    if state in SHUT:
        if inherited and above == OPEN:
            return DesiredState(OPEN, False)
        return DesiredState(CLOSED if state == CLOSED else shut, refusal=refusal)
    if above in SHUT:
        return DesiredState(shut, True, refusal)
    return DesiredState(OPEN if state == OPEN else UNKNOWN, False if inherited else None)
