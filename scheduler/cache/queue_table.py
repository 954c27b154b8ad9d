"""The queues' side of the cache: Queue objects in, the queues of sessions out."""

from typing import Final

import numpy as np

from scheduler.api.decisions import QueueAllocated
from scheduler.api.device_amounts import device_limits
from scheduler.api.quantity import QuantityError
from scheduler.api.queue import Queue
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Dimensions
from scheduler.api.scheduling import Queue as QueueObject
from scheduler.cache.metadata import seconds
from scheduler.cache.set_aside import SetAside
from scheduler.cache.version import Version

UNLIMITED: Final = float("inf")


class QueueTable:
    """All queues, by name."""

    def __init__(self, dimensions: Dimensions, version: Version, aside: SetAside) -> None:
        self._dimensions = dimensions
        self._version = version
        self._aside = aside
        self._objects: dict[str, QueueObject] = {}
        self._queues: dict[str, Queue] = {}

    def upsert(self, obj: QueueObject) -> None:
        """Take a Queue object."""
        try:
            new = self._queue(obj)
        except QuantityError as error:
            self._aside.add("spec", str(error))
            return
        if new.weight < 1:
            self._aside.add("spec.weight", f"{new.weight} is below 1")
            return
        old = self._queues.get(new.name)
        self._objects[new.name], self._queues[new.name] = obj, new
        if old is None or not _alike(old, new):
            self._version.grow()

    def _queue(self, obj: QueueObject) -> Queue:
        """The queue of an object. Raises QuantityError if one of its amounts is malformed."""
        meta, spec = obj.metadata, obj.spec
        capability = self._dimensions.limits(spec.capability)
        devices = device_limits(spec.capability)
        guarantee = self._dimensions.vector(spec.guarantee.resource if spec.guarantee else None)
        deserved = self._dimensions.vector(spec.deserved)
        for position in (CPU_INDEX, MEMORY_INDEX):
            if capability[position] <= 0:
                capability[position] = UNLIMITED
        return Queue(
            name=meta.name,
            weight=spec.weight,
            priority=spec.priority,
            creation=seconds(meta.creation_timestamp),
            state=obj.status.state,
            reclaimable=spec.reclaimable is not False,
            parent=spec.parent,
            capability=capability,
            has_capability=bool(spec.capability),
            guarantee=guarantee,
            deserved=deserved,
            deserves=frozenset([*(spec.deserved or ()), *((spec.guarantee and spec.guarantee.resource) or ())]),
            device_limits=devices,
            affinity=spec.affinity,
            annotations=meta.annotations or {},
            allocated={k: str(v) for k, v in (obj.status.allocated or {}).items()},
        )

    def delete(self, name: str) -> None:
        """A Queue is gone."""
        if self._queues.pop(name, None) is not None:
            del self._objects[name]
            self._version.grow()

    def count_again(self) -> None:
        """Work out all amounts anew, now that other resources are counted."""
        for name, old in self._queues.items():
            self._queues[name] = new = self._queue(self._objects[name])
            new.allocated = old.allocated

    def names(self) -> list[str]:
        return list(self._queues)

    def assume(self, told: QueueAllocated) -> None:
        """What is allocated to a queue, as written to its status."""
        queue = self._queues.get(told.name)
        if queue is not None:
            queue.allocated = told.allocated

    def allocations(self) -> list[QueueAllocated]:
        """What is allocated to each queue, as last written or heard."""
        return [QueueAllocated(queue.name, queue.allocated) for queue in self._queues.values()]

    def read(self) -> dict[str, Queue]:
        """The queues, as wide as the dimensions are now."""
        return {name: self._fit(queue) for name, queue in self._queues.items()}

    def _fit(self, queue: Queue) -> Queue:
        if len(queue.capability) != self._dimensions.width:
            wide = self._dimensions.fit(queue.capability)
            wide[len(queue.capability) :] = UNLIMITED
            queue.capability = wide
            queue.guarantee = self._dimensions.fit(queue.guarantee)
            queue.deserved = self._dimensions.fit(queue.deserved)
        return queue


def _alike(old: Queue, new: Queue) -> bool:
    """Whether two versions of a queue are alike to a session (its status.allocated is the session's own word)."""
    return (
        (old.weight, old.priority, old.creation, old.state, old.reclaimable, old.parent, old.annotations)
        == (new.weight, new.priority, new.creation, new.state, new.reclaimable, new.parent, new.annotations)
        and np.array_equal(old.capability, new.capability)
        and np.array_equal(old.guarantee, new.guarantee)
        and np.array_equal(old.deserved, new.deserved)
        and (old.deserves, old.device_limits, old.affinity) == (new.deserves, new.device_limits, new.affinity)
    )
