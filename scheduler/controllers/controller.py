"""The interface of controllers. A controller observes changes, returns the keys of its objects that they concern, and
plans for one object at a time. One key of one controller is never reconciled concurrently."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.effects import Effect, Plan
from scheduler.controllers.store import Key

C = TypeVar("C")
T = TypeVar("T", bound=KubeObject)
Observer = Callable[[C, T | None, T | None, float], list[Key]]
"""Takes the two versions of an object, as ``Controller.observe`` does."""


def latest(old: T | None, new: T | None) -> T:
    """The newest version of an object that an observer receives: at least one of the two exists."""
    obj = old if new is None else new
    if obj is None:
        raise ValueError("an observer receives at least one version of an object")
    return obj


def observes(*kinds: Kind[T]) -> Callable[[Observer[C, T]], Observer[C, T]]:
    """Makes a method of a controller observe the objects of these kinds, which have the type of its parameters."""

    def mark(method: Observer[C, T]) -> Observer[C, T]:
        method.__dict__["observed"] = kinds
        return method

    return mark


class Controller(ABC):
    """A controller reads the store that it was given, and writes nothing. By default nothing happens after a plan."""

    name: str
    """Its name in Volcano's flag ``--controllers``."""
    reads: ClassVar[tuple[Kind, ...]] = ()
    """Further kinds that it reads in the store, without a method that observes them."""
    kinds: tuple[Kind, ...] = ()
    """The kinds that it observes or reads."""
    observers: ClassVar[Mapping[Kind, Callable[..., list[Key]]]] = {}
    """Kind -> the method that observes it."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        methods = [value for value in vars(cls).values() if callable(value)]
        own = {kind: method for method in methods for kind in getattr(method, "observed", ())}
        cls.observers = {**cls.observers, **own}
        if "kinds" not in vars(cls):
            cls.kinds = (*cls.observers, *cls.reads)

    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        """An object was added (``old`` None), changed, or deleted (``new`` None); the store is up to date. Returns the
        keys to reconcile. The objects of the first list count as added. ``now``: seconds since the epoch."""
        observer = self.observers.get(kind)
        return [] if observer is None else observer(self, old, new, now)

    @abstractmethod
    def plan(self, key: Key, now: float) -> Plan:
        """Plans the writes for an object. Raises nothing: malformed fields are ignored and reported by Events."""

    def done(self, key: Key, now: float) -> None:
        """All effects of the last plan for the key succeeded, and the store has their results."""
        return

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        """An effect of the last plan for the key failed; the key is reconciled again after an increasing pause."""
        return
