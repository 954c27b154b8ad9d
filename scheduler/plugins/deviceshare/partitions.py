"""MIG: how a GPU may be cut into instances, and which instance suits a request.

A model of GPU knows several groups of instances; a card is cut by one group at a time. An instance is named by its
group and by its place in it: the instances of a group are counted through in the order in which they are listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instances:
    """Instances of one size."""

    name: str
    """``1g.10gb``."""
    memory: int
    count: int


@dataclass(frozen=True, slots=True)
class Group:
    """One way of cutting."""

    name: str
    instances: tuple[Instances, ...]

    def memory_at(self, position: int) -> int | None:
        """The memory of the instance at a place, None if the group has no such place."""
        for instances in self.instances:
            if position < instances.count:
                return instances.memory if position >= 0 else None
            position -= instances.count
        return None

    def smallest(self, memory: int, taken: frozenset[int]) -> tuple[int, int] | None:
        """(place, memory) of the smallest instance not taken that has so much memory, the first of equal ones."""
        found: tuple[int, int] | None = None
        first = 0
        for instances in self.instances:
            if instances.memory >= memory and (found is None or instances.memory < found[1]):
                free = next((p for p in range(first, first + instances.count) if p not in taken), None)
                found = found if free is None else (free, instances.memory)
            first += instances.count
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Layouts:
    """The groups of a model, in the order in which they are tried. Compared by identity: one object per model."""

    groups: tuple[Group, ...]

    def find(self, group: str) -> Group | None:
        return next((g for g in self.groups if g.name == group), None)

    def instance(self, memory: int, taken: Sequence[tuple[str, int]]) -> tuple[str, int, int] | None:
        """(group, place, memory) of the instance for a request, None if there is none. ``taken``: (group, place) of
        those in use; while there are any, the card stays cut as it is."""
        current = taken[0][0] if taken else None
        for group in self.groups:
            if current is not None and group.name != current:
                continue
            found = group.smallest(memory, frozenset(place for name, place in taken if name == group.name))
            if found is not None:
                return group.name, *found
        return None
