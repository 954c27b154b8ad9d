"""What every controller is: it is told what changed, says which of its objects that concerns, and plans for one object
at a time. Whoever runs controllers looks at one key of one controller never twice at the same time."""

from typing import Protocol

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.effects import Effect, Plan
from scheduler.controllers.store import Key


class Controller(Protocol):
    """A controller reads the store it was made with, and writes nothing."""

    name: str
    """As Volcano's ``--controllers`` flag calls it."""
    kinds: tuple[Kind, ...]
    """What it wants to be told of."""

    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        """An object came (``old`` None), changed, or went (``new`` None); the store knows already. The keys to look at.
        The first list comes as objects that come, ``now`` is in seconds since the epoch."""

    def plan(self, key: Key, now: float) -> Plan:
        """What to do about an object. Raises nothing: what is malformed is set aside and told by a Post."""

    def done(self, key: Key, now: float) -> None:
        """All effects of the last plan for the key came about, and the store knows their outcome."""

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        """An effect of the last plan for the key failed; the key will be looked at again after a pause that grows."""
