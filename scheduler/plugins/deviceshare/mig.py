"""MIG geometries: how a GPU may be partitioned into instances, and the instance for a request.

A GPU model has several groups of instances; a card is partitioned by one group at a time. An instance is identified by
its group and its position: the instances of a group are numbered in the order in which the group lists them.
"""

from collections.abc import Sequence

import msgspec


class Instances(msgspec.Struct, frozen=True):
    """Instances of one size."""

    name: str
    """``1g.10gb``."""
    memory: int
    count: int


class MigLayout(msgspec.Struct, frozen=True):
    """One way to partition a card."""

    name: str
    instances: tuple[Instances, ...]

    def memory_at(self, position: int) -> int | None:
        """Returns the memory of the instance at a position; None if the group has no such position."""
        for instances in self.instances:
            if position < instances.count:
                return instances.memory if position >= 0 else None
            position -= instances.count
        return None

    def smallest(self, memory: int, taken: frozenset[int]) -> tuple[int, int] | None:
        """Returns (position, memory) of the smallest free instance with at least ``memory``; the first of equal
        ones."""
        found: tuple[int, int] | None = None
        first = 0
        for instances in self.instances:
            if instances.memory >= memory and (found is None or instances.memory < found[1]):
                free = next((p for p in range(first, first + instances.count) if p not in taken), None)
                found = found if free is None else (free, instances.memory)
            first += instances.count
        return found


class Layouts(msgspec.Struct, frozen=True, eq=False):
    """The groups of a model, in the order in which they are tried. Compared by identity: there is one object per
    model."""

    groups: tuple[MigLayout, ...]

    def find(self, group: str) -> MigLayout | None:
        return next((g for g in self.groups if g.name == group), None)

    def instance(self, memory: int, taken: Sequence[tuple[str, int]]) -> tuple[str, int, int] | None:
        """Returns (group, position, memory) of the instance for a request, None if there is none. ``taken``: (group,
        position) of the instances in use; while there are any, the card keeps its group."""
        current = taken[0][0] if taken else None
        for group in self.groups:
            if current is not None and group.name != current:
                continue
            found = group.smallest(memory, frozenset(place for name, place in taken if name == group.name))
            if found is not None:
                return group.name, *found
        return None
