"""What a Pod takes of its queue's quota: cpu, memory and cards by name.

A Pod asks for a resource (``nvidia.com/gpu``); which card that is, its annotation ``volcano.sh/card.name`` says, and in
the end the node it is on. A Pod that names no card may land on any card its queue has quota of, and is charged for that
one: leaving out the annotation is no way around the quota. A bound Pod is charged for the cards in its binding record,
whatever becomes of its annotations and of the node's labels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.api.names import CARD_NAME, CPU, MEMORY
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.capacity_card.discovery import Inventory
from scheduler.plugins.capacity_card.quota import SEPARATOR, CardNames, Names, parse_names

FIELD: Final = f"metadata.annotations[{CARD_NAME}]"
NO_NAMES: Final = CardNames(())
Listed = list[tuple[str, float]]
"""Names and amounts; a name may be listed several times."""
UNKNOWN: Final = -1
"""The row of a node that the session does not know."""


@dataclass(frozen=True, slots=True)
class Part:
    """One resource that counts cards, as asked for by one task."""

    resource: str
    amount: float
    """In thousandths of a card."""
    cards: Names
    """The cards it may be, the preferred one first; as nodes call them."""
    written: Names
    """The same as the Pod's annotation calls them."""
    named: bool
    """The Pod names them; False: they are all cards that the resource counts anywhere."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one task of a class asks for."""

    parts: tuple[Part, ...]
    cards: Names
    """The cards that the Pod names, as nodes call them."""
    written: Names
    cpu: float
    """In thousandths; 0 if the queue's limit does not concern the task."""
    memory: float
    """In bytes; 0 likewise."""
    bare: bool
    """Asks for nothing but cpu, memory and Pods, and names no card: no change of nodes changes that."""
    problems: tuple[str, ...]
    """What is wrong with the annotation."""
    conflict: str
    """Why the cards named cannot stand for each other, or ""."""


class Demands:
    """The demands of task classes against one inventory."""

    def __init__(self, inventory: Inventory, dimensions: Dimensions, unlimited: bool) -> None:
        """``unlimited``: cpu and memory of Pods that ask for cards are not limited."""
        self.inventory = inventory
        self._dimensions = dimensions
        self._unlimited = unlimited
        self._known: dict[int, Demand] = {}

    def of(self, cls: TaskClass) -> Demand:
        demand = self._known.get(cls.id)
        if demand is None:
            demand = self._known[cls.id] = self._demand(cls)
        return demand

    def charge(self, demand: Demand, rows: Sequence[int]) -> Listed:
        """Cards and amounts that tasks take on their nodes (UNKNOWN: not among the session's): the node's card where
        there is one, else the first that the Pod names."""
        result: Listed = []
        for part in demand.parts:
            codes = self.inventory.codes_on(part.resource, rows)
            for code, number in enumerate(np.bincount(codes + 1).tolist(), start=-1):
                card = self._card(part, code) if number else ""
                if card:
                    result.append((card, part.amount * number))
        return result

    def cards_on(self, demand: Demand, rows: Sequence[int]) -> dict[int, Mapping[str, str]]:
        """Row -> resource -> the card that a task is charged for there, as ``charge`` counts. Rows with the same cards
        share a mapping."""
        codes = [self.inventory.codes_on(part.resource, rows).tolist() for part in demand.parts]
        known: dict[tuple[int, ...], Mapping[str, str]] = {}
        result: dict[int, Mapping[str, str]] = {}
        for row, *found in zip(rows, *codes, strict=True):
            key = tuple(found)
            if key not in known:
                cards = ((part.resource, self._card(part, code)) for part, code in zip(demand.parts, key, strict=True))
                known[key] = {resource: card for resource, card in cards if card}
            result[row] = known[key]
        return result

    def _card(self, part: Part, code: int) -> str:
        """``code``: of the node's card, -1 if it has none of a known name. "" if there is nothing to charge."""
        if code >= 0:
            return self.inventory.names[code]
        return part.cards[0] if part.named else ""

    def cards_held(self, tasks: Sequence[Task], rows: Sequence[int]) -> Listed:
        """Cards and amounts that bound tasks of one class hold: those recorded when they were bound; without a record,
        as ``charge`` counts. A card may be listed several times."""
        return self._cards_held(tasks[0].cls, *_by_record(tasks, rows))

    def _cards_held(self, cls: TaskClass, recorded: Mapping[tuple[str, str], int], others: Sequence[int]) -> Listed:
        result: Listed = []
        for (resource, card), number in recorded.items():
            amount = self._amount(cls, resource)
            if amount > 0:
                result.append((self.inventory.canonical(card), amount * number))
        demand = self.of(cls)
        if others and demand.parts:
            result += self.charge(demand, others)
        return result

    def holdings(self, tasks: Sequence[Task], rows: Sequence[int]) -> Listed:
        """``cards_held``, with the cpu and the memory that count."""
        cls, (recorded, others) = tasks[0].cls, _by_record(tasks, rows)
        demand = self.of(cls)
        # Cpu and memory may be free for Pods on cards; the labels that made them cards may be gone.
        number = len(others) if self._unlimited else len(tasks)
        return [(CPU, demand.cpu * number), (MEMORY, demand.memory * number), *self._cards_held(cls, recorded, others)]

    def _amount(self, cls: TaskClass, resource: str) -> float:
        position = self._dimensions.find(resource)
        return 0.0 if position is None or position >= len(cls.request) else float(cls.request[position])

    def canonical(self, names: Names) -> Names:
        return tuple(dict.fromkeys(self.inventory.canonical(name) for name in names))

    def conflict(self, cards: Names, where: str) -> str:
        """Why cards cannot stand for each other in one annotation, or ""."""
        known = [(card, self.inventory.resources_of(card)) for card in cards]
        known = [(card, resources) for card, resources in known if resources]
        if len(known) < 2 or frozenset.intersection(*(resources for _, resources in known)):
            return ""
        listed = ", ".join(f"<{card}> is {' or '.join(sorted(resources))}" for card, resources in known)
        return f"cards of different resource types cannot stand for each other in {where}: {listed}"

    def _demand(self, cls: TaskClass) -> Demand:
        text = cls.annotations.get(CARD_NAME)
        listed = NO_NAMES if text is None else parse_names(text)
        written = {self.inventory.canonical(name): name for name in reversed(listed.names)}
        cards = self.canonical(listed.names)
        requested = {
            self._dimensions.names[d]: float(cls.request[d]) for d in np.flatnonzero(cls.request) if d > PODS_INDEX
        }
        counting = self._counting(cards, requested)
        parts = []
        for resource, own in counting.items():
            fitting = tuple(card for card in cards if not (r := self.inventory.resources_of(card)) or resource in r)
            if own and fitting:
                part = Part(resource, requested[resource], fitting, tuple(written[c] for c in fitting), True)
            else:
                every = self.inventory.by_resource.get(resource, ())
                part = Part(resource, requested[resource], every, (resource,), False)
            parts.append(part)
        free = self._unlimited and bool(parts)
        return Demand(
            parts=tuple(parts),
            cards=cards,
            written=tuple(written[card] for card in cards),
            cpu=0.0 if free else float(cls.request[CPU_INDEX]),
            memory=0.0 if free else float(cls.request[MEMORY_INDEX]),
            bare=not requested and not cards,
            problems=listed.problems,
            conflict=self.conflict(cards, CARD_NAME),
        )

    def _counting(self, cards: Names, requested: dict[str, float]) -> dict[str, bool]:
        """The resources requested that count cards -> whether they may count the cards named."""
        counting = {r: not cards for r in sorted(requested) if self.inventory.counts_cards(r)}
        if not cards:
            return dict.fromkeys(counting, False)
        strange = False
        for card in cards:
            resources = self.inventory.resources_of(card)
            strange = strange or not resources
            counting.update(dict.fromkeys(resources & requested.keys(), True))
        if strange and not any(counting.values()):
            # No node has these cards at present, so nothing tells what resource counts them. Any that counts whole
            # cards elsewhere may; failing that, the extended resource asked for most.
            whole = [r for r in counting if r in self.inventory.by_resource]
            extended = sorted((r for r in requested if "/" in r and r not in counting), key=lambda r: -requested[r])
            counting.update(dict.fromkeys(whole or extended[:1], True))
        return counting


def joined(names: Names) -> str:
    return SEPARATOR.join(names)


def _by_record(tasks: Sequence[Task], rows: Sequence[int]) -> tuple[Mapping[tuple[str, str], int], list[int]]:
    """(resource, card) -> how many of the tasks have it in their records; the rows of tasks without any."""
    shared: dict[int, tuple[Mapping[str, str], int]] = {}
    others = []
    for task, row in zip(tasks, rows, strict=True):
        cards = None if task.record is None else task.record.cards
        if cards:
            _, number = shared.get(id(cards), (cards, 0))  # bindings of one run share the mapping
            shared[id(cards)] = cards, number + 1
        else:
            others.append(row)
    recorded: dict[tuple[str, str], int] = {}
    for cards, number in shared.values():
        for item in cards.items():
            recorded[item] = recorded.get(item, 0) + number
    return recorded, others
