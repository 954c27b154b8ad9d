"""The work queue of the controllers: which objects are to be reconciled, and when.

An object is in the list once, however often it changes, and is never reconciled concurrently. Namespaces take turns, so
that a tenant with many objects does not hold up the others. An object is retried after increasing pauses when something
about it fails; a change of it shortens such a pause, but does not end it at once. Callers pass the time as a number.
"""

import heapq
from collections.abc import Callable, Sequence
from itertools import count

import msgspec

from scheduler.api.fair_queue import FairQueue
from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.controller import Controller
from scheduler.controllers.effects import Effect, Plan
from scheduler.controllers.store import Key

FIRST_PAUSE = 0.2
MAX_PAUSE = 60.0
"""Seconds between two reconciliations of an object that keep failing."""
CHANGED_PAUSE = 1.0
"""Seconds for which a write that keeps failing is not repeated even if its object changes."""
DEFERRABLE_PAUSE = 5.0
MAX_DEFERRABLE_PAUSE = 300.0
"""Seconds until an object is reconciled again after a deferrable write failed: the first time, and at most."""


class Item(msgspec.Struct, frozen=True):
    """One object of one controller."""

    controller: Controller
    key: Key


class ReconcileQueue:
    """The objects to reconcile, and the times of retries. One thread uses it."""

    def __init__(self, controllers: Sequence[Controller]) -> None:
        self._interested: dict[Kind, list[Controller]] = {}
        for controller in controllers:
            for kind in controller.kinds:
                self._interested.setdefault(kind, []).append(controller)
        self._ready: FairQueue[Item] = FairQueue()
        self._busy: set[Item] = set()
        self._missed: set[Item] = set()
        """The items that changed while they were being reconciled."""
        self._due: dict[Item, float] = {}
        self._timers: list[tuple[float, int, Item]] = []
        """A heap; entries that ``_due`` does not confirm are void."""
        self._numbers = count()
        self._failures: dict[Item, int] = {}
        self._not_before: dict[Item, float] = {}
        """When an object whose write failed may be reconciled again at the earliest, though it changes."""
        self._failed_deferrable: dict[Item, int] = {}
        """Failed deferrable writes in a row."""

    def fork(self, copied: Callable[[Controller], Controller]) -> "ReconcileQueue":
        """An independent list of these objects, for copies of the controllers. Not while any is being reconciled."""

        def moved(item: Item) -> Item:
            return Item(copied(item.controller), item.key)

        other = ReconcileQueue(())
        other._interested = {kind: [copied(c) for c in those] for kind, those in self._interested.items()}
        for namespace, item in self._ready:
            other._ready.add(namespace, moved(item))
        other._due = {moved(item): due for item, due in self._due.items()}
        other._timers = [(due, number, moved(item)) for due, number, item in self._timers]
        other._numbers = count(next(self._numbers))
        other._failures = {moved(item): number for item, number in self._failures.items()}
        other._not_before = {moved(item): earliest for item, earliest in self._not_before.items()}
        other._failed_deferrable = {moved(item): number for item, number in self._failed_deferrable.items()}
        return other

    def __len__(self) -> int:
        """Objects that are to be reconciled now, or are being reconciled."""
        return len(self._ready) + len(self._busy)

    # --- updates ------------------------------------------------------------------------------------------------------
    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> None:
        """Passes a change to the controllers of the kind, and queues the keys that they return."""
        for controller in self._interested.get(kind, ()):
            for key in controller.observe(kind, old, new, now):
                item = Item(controller, key)
                earliest = self._not_before.get(item)
                if earliest is not None and now < earliest:
                    self._later(item, earliest)
                else:
                    self._queue(item)

    def _queue(self, item: Item) -> None:
        """Has the object reconciled now, or again if it is being reconciled."""
        if item in self._busy:
            self._missed.add(item)
        else:
            self._ready.add(item.key[0], item)

    # --- taking work --------------------------------------------------------------------------------------------------
    def take(self, now: float) -> Item | None:
        """The next object to reconcile, or None if there is none now. It is busy until ``finish`` or ``fail``."""
        while self._timers and self._timers[0][0] <= now:
            due, _, item = heapq.heappop(self._timers)
            if self._due.get(item) == due:
                del self._due[item]
                self._queue(item)
        if not self._ready:
            return None
        item = self._ready.take()
        self._busy.add(item)
        return item

    def next_due(self) -> float | None:
        """When the next scheduled retry is due, or None."""
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def finish(self, item: Item, plan: Plan, now: float) -> None:
        """All effects of the plan succeeded."""
        item.controller.done(item.key, now)
        if plan.problem:
            self._pause(item, now)
        else:
            self._failures.pop(item, None)
        self._not_before.pop(item, None)
        if item in self._failed_deferrable and not plan.deferrable:
            del self._failed_deferrable[item]
        if plan.after is not None:
            self._later(item, now + plan.after)
        self._release(item)

    def fail(self, item: Item, effect: Effect | None, error: str, now: float) -> None:
        """An effect failed, or (None) planning itself did."""
        if effect is not None:
            item.controller.failed(item.key, effect, error, now)
        pause = self._pause(item, now)
        self._not_before[item] = now + min(CHANGED_PAUSE, pause)
        self._missed.discard(item)  # it is retried after the pause
        self._release(item)

    def clock_set_back(self, seconds: float) -> None:
        """Moves all retries, because the clock of the callers was set back: the pauses must not become longer."""
        self._due = {item: due - seconds for item, due in self._due.items()}
        self._timers = [(due - seconds, number, item) for due, number, item in self._timers]
        self._not_before = {item: earliest - seconds for item, earliest in self._not_before.items()}

    def retry_failed(self, now: float) -> None:
        """Ends the pauses of all objects that failed."""
        for item in self._failures:
            self._not_before.pop(item, None)
            self._later(item, now)

    def retry(self, item: Item, effect: Effect, error: str, now: float) -> None:
        """A deferrable effect failed. The object may be being reconciled."""
        item.controller.failed(item.key, effect, error, now)
        failures = self._failed_deferrable.get(item, 0)
        self._failed_deferrable[item] = failures + 1
        self._later(item, now + min(MAX_DEFERRABLE_PAUSE, DEFERRABLE_PAUSE * 2.0 ** min(failures, 16)))

    def _release(self, item: Item) -> None:
        self._busy.discard(item)
        if item in self._missed:
            self._missed.discard(item)
            self._queue(item)

    def _pause(self, item: Item, now: float) -> float:
        """Schedules a retry after a pause that grows with each failure. Returns the pause in seconds."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        pause = min(MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 16))
        self._later(item, now + pause)
        return pause

    def _later(self, item: Item, due: float) -> None:
        """Schedules a retry at ``due``, or earlier if one is scheduled already."""
        known = self._due.get(item)
        if known is None or due < known:
            self._due[item] = due
            heapq.heappush(self._timers, (due, next(self._numbers), item))
