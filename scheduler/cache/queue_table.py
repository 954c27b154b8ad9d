"""Queues and PriorityClasses: watched objects in, what sessions read of them out."""

from typing import Final

import numpy as np

from scheduler.api.decisions import QueueAllocated
from scheduler.api.objects import PriorityClass
from scheduler.api.quantity import QuantityError
from scheduler.api.queue import QUEUE_PHASES, Queue, device_limits
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Dimensions
from scheduler.api.scheduling import Queue as QueueObject
from scheduler.api.times import seconds_of
from scheduler.cache.malformed_fields import MalformedFields
from scheduler.cache.versioning import Version

UNLIMITED: Final = float("inf")


class QueueTable:
    """All queues, by name."""

    def __init__(self, dimensions: Dimensions, version: Version, malformed: MalformedFields) -> None:
        self._dimensions = dimensions
        self._version = version
        self._malformed = malformed
        self._objects: dict[str, QueueObject] = {}
        self._queues: dict[str, Queue] = {}

    def upsert(self, obj: QueueObject) -> None:
        """Stores a Queue object, unless one of its fields is malformed."""
        try:
            new = self._queue(obj)
        except QuantityError as error:
            self._malformed.add("spec", str(error))
            return
        if new.weight < 1:
            self._malformed.add("spec.weight", f"{new.weight} is below 1")
            return
        old = self._queues.get(new.name)
        if old is not None:
            new.cards, new.shown_deserved, new.without_queue = old.cards, old.shown_deserved, old.without_queue
        self._objects[new.name], self._queues[new.name] = obj, new
        if old is None or not _equivalent(old, new):
            self._version.changed()

    def _queue(self, obj: QueueObject) -> Queue:
        """Builds the queue of an object. Raises QuantityError if one of its amounts is malformed."""
        meta, spec = obj.metadata, obj.spec
        reserved = spec.guarantee.resource if spec.guarantee else None
        for amounts in (spec.capability, reserved, spec.deserved):
            self._dimensions.declare(amounts or ())
        capability = self._dimensions.limits(spec.capability)
        devices = device_limits(spec.capability)
        guarantee = self._dimensions.vector(reserved)
        deserved = self._dimensions.vector(spec.deserved)
        for position in (CPU_INDEX, MEMORY_INDEX):
            if capability[position] <= 0:
                capability[position] = UNLIMITED
        return Queue(
            name=meta.name,
            weight=spec.weight,
            priority=spec.priority,
            creation=seconds_of(meta.creation_timestamp),
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
            groups={phase: getattr(obj.status, phase) or 0 for phase in QUEUE_PHASES},
            cards=obj.status.cards if isinstance(obj.status.cards, dict) else {},
            shown_deserved=obj.status.deserved if isinstance(obj.status.deserved, dict) else None,
            without_queue=(obj.status.without_queue or None) if isinstance(obj.status.without_queue, dict) else None,
        )

    def delete(self, name: str) -> None:
        """Removes a deleted Queue."""
        if self._queues.pop(name, None) is not None:
            del self._objects[name]
            self._version.changed()

    def recount(self) -> None:
        """Computes all amounts again after the set of counted resources has changed."""
        for name, old in self._queues.items():
            self._queues[name] = new = self._queue(self._objects[name])
            new.allocated, new.groups, new.cards = old.allocated, old.groups, old.cards
            new.shown_deserved, new.without_queue = old.shown_deserved, old.without_queue

    def parents(self) -> dict[str, str]:
        """Queue -> its parent, or ""."""
        return {name: queue.parent for name, queue in self._queues.items()}

    def assume(self, update: QueueAllocated) -> None:
        """Sets the amounts of a queue as the scheduler writes them to its status."""
        queue = self._queues.get(update.name)
        if queue is not None:
            queue.allocated, queue.groups, queue.cards = update.allocated, update.groups, update.cards or {}
            queue.without_queue = update.without_queue or None
            if update.deserved is not None:
                queue.shown_deserved = update.deserved

    def allocations(self) -> list[QueueAllocated]:
        """The amounts in the status of each queue, as last written or watched."""
        return [
            QueueAllocated(
                queue.name,
                queue.allocated,
                queue.cards,
                queue.groups,
                queue.shown_deserved,
                without_queue=queue.without_queue,
            )
            for queue in self._queues.values()
        ]

    def read(self) -> dict[str, Queue]:
        """The queues, their vectors as wide as the dimensions are now."""
        return {name: self._fit(queue) for name, queue in self._queues.items()}

    def _fit(self, queue: Queue) -> Queue:
        if len(queue.capability) != self._dimensions.width:
            wide = self._dimensions.fit(queue.capability)
            wide[len(queue.capability) :] = UNLIMITED
            queue.capability = wide
            queue.guarantee = self._dimensions.fit(queue.guarantee)
            queue.deserved = self._dimensions.fit(queue.deserved)
        return queue


def _equivalent(old: Queue, new: Queue) -> bool:
    """Whether two versions of a queue are the same to a session, which writes ``allocated`` itself."""
    return (
        (old.weight, old.priority, old.creation, old.state, old.reclaimable, old.parent, old.annotations)
        == (new.weight, new.priority, new.creation, new.state, new.reclaimable, new.parent, new.annotations)
        and np.array_equal(old.capability, new.capability)
        and np.array_equal(old.guarantee, new.guarantee)
        and np.array_equal(old.deserved, new.deserved)
        and (old.deserves, old.device_limits, old.affinity) == (new.deserves, new.device_limits, new.affinity)
    )


class PriorityClasses:
    """All PriorityClass objects, by name."""

    def __init__(self) -> None:
        self._classes: dict[str, PriorityClass] = {}

    def upsert(self, obj: PriorityClass) -> bool:
        """Stores an object. Returns whether a value may have changed."""
        old = self._classes.get(obj.metadata.name)
        if old is not None and (old.value, old.global_default) == (obj.value, obj.global_default):
            return False
        self._classes[obj.metadata.name] = obj
        return True

    def delete(self, name: str) -> bool:
        """Removes a deleted PriorityClass. Returns whether it was there."""
        return self._classes.pop(name, None) is not None

    def value(self, name: str) -> int:
        """The value of a priority class; if it does not exist, the value of the default class of the cluster (the
        lowest of several, as in Kubernetes); without one 0."""
        found = self._classes.get(name)
        if found is not None:
            return found.value
        return min((p.value for p in self._classes.values() if p.global_default), default=0)
