"""What must be so of another object before a Pod may be bound, as data with pure functions.

Some bindings depend on writes elsewhere: a volume is promised to a claim, devices to another, a node is locked. What is
to be written depends on what is there when it is written, so a preparation is asked, with the object in hand, for its
next step; whoever carries it out (``cluster``) reads, writes and waits. As other decisions it is told by a session and
carried out after it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject


@dataclass(frozen=True, slots=True)
class Patch:
    """Change the object that was looked at, that very version: if it has changed meanwhile, ask again."""

    body: dict[str, Any]
    """A merge patch (RFC 7386) without uid and resource version, which are added."""
    strategic: bool = False
    """It is a strategic merge patch, which kinds built into Kubernetes know: lists are merged by key."""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Waits:
    """There is nothing to write now; others have to act."""

    what: str
    """What is waited for, for people: ``claim default/data to be bound``."""


@dataclass(frozen=True, slots=True)
class Fails:
    """It cannot come about."""

    message: str


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What must be so of one object before a Pod may be bound. Immutable, and told apart by identity: one that several
    bindings share is carried out once."""

    kind: Kind
    namespace: str
    name: str
    timeout: float
    """Seconds it may take from its beginning."""
    at_binding: ClassVar[bool] = False
    """It is carried out right before the Pod's own binding, when the rest of the gang has been waited for: a lock that
    only the binding before it sets free. Otherwise the gang waits until it is done."""

    def step(self, found: KubeObject | None, now: float) -> "Step":
        """The next step, for the object as it is (None: it is not there) at ``now`` (seconds since the epoch).

        Asked again after each write and while it waits. Has no effect but its answer.
        """
        raise NotImplementedError

    def follow_up(self, found: KubeObject | None, now: float) -> "Step":
        """``step``, once a write of this preparation was accepted: others may have taken it back since."""
        return self.step(found, now)

    def undo(self, found: KubeObject, now: float) -> Patch | None:
        """What takes back a write that was made for a binding that did not come about; None: nothing (any more)."""
        return None

    def __str__(self) -> str:
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.name} {where}"


Step = Patch | Waits | Fails | Preparation | None
"""What comes next; None: the object is as it must be; a Preparation: it is, and that one is to follow."""
