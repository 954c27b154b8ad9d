"""A gate is one reason why a job or Pod is not placed, with the plugin or mechanism that holds it."""

from enum import Enum

import msgspec

from scheduler.api.reasons import Shortage


class GateKind(Enum):
    """The kinds of gates. A job passes them in this order."""

    OWNER = "owner"
    """The object that creates its Pods has not created them."""
    QUEUE = "queue"
    """Its queue does not exist or accepts no jobs."""
    ENQUEUE = "enqueue"
    """Its queue does not admit it."""
    VALIDITY = "validity"
    """The job is invalid: no cluster could place it."""
    GATES = "scheduling gates"
    OVERUSED = "overused"
    """Its queue uses at least its deserved share and is skipped."""
    QUOTA = "quota"
    """A quota of its queue is exhausted."""
    VOLUMES = "volumes"
    """Its claims are not bound, or nodes cannot reach their volumes."""
    NODES = "nodes"
    """No node accepts it."""
    GANG = "gang"
    """Too few of its Pods find a node."""
    PIPELINED = "pipelined"
    """It is pipelined: its place is still held by terminating Pods."""
    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    GANG_PREEMPT = "gangpreempt"
    GANG_RECLAIM = "gangreclaim"
    """Why the action evicts no Pod for it."""


class Gate(msgspec.Struct, frozen=True):
    """One reason why a job or Pod is not placed."""

    kind: GateKind
    message: str
    plugin: str = ""
    """The plugin that refuses; "": no specific plugin."""
    shortages: tuple[Shortage, ...] = ()
