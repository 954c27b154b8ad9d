"""What claims are promised, by this session and by bindings that still wait: no volume goes to two.

A claim that several Pods share is decided for once, by the first of them that is placed; the others follow. The promise
is taken back when the last of them has lost its place.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.api.decisions import Bind
from scheduler.plugins.predicates.volumes.pool import Pool
from scheduler.plugins.predicates.volumes.preparations import AwaitVolume, ProvisionVolume


@dataclass(slots=True)
class Promise:
    """What a claim is to get."""

    volume: str
    """The volume's name, or "": one is made."""
    node: str
    """The node that it is made for, or "": it is there."""
    tasks: set[str] = field(default_factory=set)
    """uids of this session's tasks that count on it."""
    lasting: bool = False
    """It was made before this session, which cannot take it back."""


class Promises:
    """By claim (``namespace/name``)."""

    def __init__(self, preparing: Iterable[Bind]) -> None:
        self.version = 0
        """Grows whenever a volume is taken or given back."""
        self._promises: dict[str, Promise] = {}
        self._of_task: dict[str, list[str]] = {}
        self._pool: Pool | None = None
        for bind in preparing:
            for preparation in bind.preparations:
                key = f"{preparation.namespace}/{preparation.name}"
                if isinstance(preparation, AwaitVolume):
                    self._promises[key] = Promise(preparation.volume, "", lasting=True)
                elif isinstance(preparation, ProvisionVolume):
                    self._promises[key] = Promise("", preparation.selected, lasting=True)

    def get(self, claim: str) -> Promise | None:
        return self._promises.get(claim)

    def note_in(self, pool: Pool) -> None:
        """Note in the pool which volumes are taken, now and from now on."""
        self._pool = pool
        for promise in self._promises.values():
            self._mark(promise.volume, True)

    def make(self, claim: str, volume: str, node: str, task: str) -> None:
        """A claim is promised a volume, or that one is made for a node; a task counts on it."""
        self._promises[claim] = Promise(volume, node)
        self._mark(volume, True)
        self.join(claim, task)

    def join(self, claim: str, task: str) -> None:
        """A task counts on what a claim is promised, if that is anything."""
        promise = self._promises.get(claim)
        if promise is not None and task not in promise.tasks:
            promise.tasks.add(task)
            self._of_task.setdefault(task, []).append(claim)

    def leave(self, task: str) -> None:
        """A task counts on nothing any more."""
        for claim in self._of_task.pop(task, ()):
            promise = self._promises[claim]
            promise.tasks.discard(task)
            if not promise.tasks and not promise.lasting:
                del self._promises[claim]
                self._mark(promise.volume, False)

    def _mark(self, volume: str, taken: bool) -> None:
        rank = self._pool.rank.get(volume) if self._pool is not None else None
        if self._pool is not None and rank is not None:
            self._pool.taken[rank] = taken
            self.version += 1
