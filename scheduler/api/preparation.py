"""Preparations: states of other objects that a binding requires, as data with pure functions.

Some bindings need writes to other objects first: a volume is bound to a claim, devices are allocated to a claim, a node
is locked. Each write depends on the present state of the object, so a preparation computes its next step from the
object. ``cluster`` reads, writes and waits. A session decides on preparations; they are carried out after it.
"""

from typing import Any, ClassVar

import msgspec

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject


class PreparationPatch(msgspec.Struct, frozen=True):
    """Patch the object if it still has the resource version that the step was computed from; otherwise compute the step
    again."""

    body: dict[str, Any]
    """A merge patch (RFC 7386) without uid and resource version, which the writer adds."""
    strategic: bool = False
    """Whether it is a strategic merge patch, which merges lists by key. Only built-in kinds support it."""
    subresource: str = ""


class Wait(msgspec.Struct, frozen=True):
    """Wait for another component to act; there is nothing to write now."""

    what: str
    """The condition that the preparation waits for, in words for users: ``claim default/data to be bound``."""


class Fail(msgspec.Struct, frozen=True):
    """The preparation has failed."""

    message: str


class Preparation(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one object that a binding requires. Immutable, compared by identity: a preparation that several
    bindings share is carried out once."""

    kind: Kind
    namespace: str
    name: str
    timeout: float
    """Seconds from its start until it fails."""
    at_binding: ClassVar[bool] = False
    """Whether it is carried out right before the binding of the Pod, after all other preparations of the gang, as for a
    lock that the previous binding releases. Otherwise the gang waits until it is done."""

    def step(self, found: KubeObject | None, now: float) -> "Step":
        """Returns the next step for the present object (None: it does not exist) at ``now`` (Unix seconds).

        It is called again after each write and while the preparation waits. It has no side effects.
        """
        raise NotImplementedError

    def follow_up(self, found: KubeObject | None, now: float) -> "Step":
        """Returns the next step after a write of this preparation was accepted. Others may have reverted the write."""
        return self.step(found, now)

    def undo(self, found: KubeObject, now: float) -> PreparationPatch | None:
        """Returns the patch that reverts a write for a binding that failed; None: there is nothing to revert."""
        return None

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {where}"


Step = PreparationPatch | Wait | Fail | Preparation | None
"""The next step. None: the object has the required state. A Preparation: it has, and that one follows."""
