"""The interface of controllers. A controller observes changes, returns the keys of its objects that they concern, and
plans for one object at a time. One key of one controller is never reconciled concurrently."""

from typing import Protocol

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.effects import Effect, Plan
from scheduler.controllers.store import Key


class Controller(Protocol):
    """A controller reads the store that it was given, and writes nothing. Controllers inherit from this class: by
    default nothing happens after a plan."""

    name: str
    """Its name in Volcano's flag ``--controllers``."""
    kinds: tuple[Kind, ...]
    """The kinds that it observes."""

    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        """An object was added (``old`` None), changed, or deleted (``new`` None); the store is up to date. Returns the
        keys to reconcile. The objects of the first list count as added. ``now``: seconds since the epoch."""

    def plan(self, key: Key, now: float) -> Plan:
        """Plans the writes for an object. Raises nothing: malformed fields are ignored and reported by Events."""

    def done(self, key: Key, now: float) -> None:
        """All effects of the last plan for the key succeeded, and the store has their results."""
        return

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        """An effect of the last plan for the key failed; the key is reconciled again after an increasing pause."""
        return
