"""What a Pod uses of its queue's quota: cpu, memory and cards by name.

A Pod requests a resource (``nvidia.com/gpu``). Its annotation ``volcano.sh/card.name`` names the acceptable cards, and
its node determines the actual card. A Pod that names no card may get any card that its queue has quota of, and is
charged for it; omitting the annotation does not bypass the quota. A bound Pod is charged for the cards in its binding
record, even if its annotations or the labels of the node change.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api.cards import SEPARATOR, Names, cards_of_pod, kind_of, vendor_of
from scheduler.api.names import CARD_ALTERNATIVES, CPU, MEMORY
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.capacity_card.discovery import CardInventory

AmountList = list[tuple[str, float]]
"""(name, amount) pairs; a name may occur several times."""


class PossibleCards(NamedTuple):
    """The cards of which a Pod holds one, where its node does not say which."""

    resource: str
    cards: Names
    """The cards that the Pod names; none if it may be any that the resource counts."""


class HeldCards(NamedTuple):
    """What bound tasks hold."""

    amounts: AmountList
    uncertain: list[tuple[PossibleCards, float]]
    """Amounts of cards that are not known."""


UNKNOWN: Final = -1
"""The row of a node that is not in the session."""
RECORD: Final = attrgetter("record")


class CardsOfTask(msgspec.Struct, frozen=True):
    """The request of one task for one resource that counts cards."""

    resource: str
    amount: float
    """The number of cards, in thousandths."""
    cards: Names
    """The acceptable cards by their names on nodes, the preferred one first."""
    written: Names
    """The same cards by their names in the Pod's annotation."""
    named: bool
    """The Pod names the cards. False: ``cards`` are all cards that the resource counts on any node."""


class CardDemand(msgspec.Struct, frozen=True):
    """What one task of a class requests."""

    card_requests: tuple[CardsOfTask, ...]
    cards: Names
    """The cards that the Pod names, by their names on nodes."""
    written: Names
    cpu: float
    """The cpu, in thousandths of a core; 0 if the queue's limit does not apply to the task."""
    memory: float
    """The memory, in bytes; 0 if the queue's limit does not apply to the task."""
    independent_of_nodes: bool
    """The task requests only cpu, memory and pods, and names no card, so that changes of nodes do not matter."""
    field: str
    """The annotation in which the Pod names cards."""
    problems: tuple[str, ...]
    """Problems found in it."""
    conflict: str
    """Why the named cards cannot be alternatives, or ""."""


class Demands:
    """The demands of task classes against one inventory."""

    def __init__(self, inventory: CardInventory, dimensions: Dimensions, unlimited: bool) -> None:
        """``unlimited``: whether cpu and memory of Pods that request cards are not limited."""
        self.inventory = inventory
        self._dimensions = dimensions
        self.unlimited = unlimited
        self._known: dict[int, CardDemand] = {}

    def of(self, cls: TaskClass) -> CardDemand:
        demand = self._known.get(cls.id)
        if demand is None:
            demand = self._known[cls.id] = self._demand(cls)
        return demand

    def charge(self, demand: CardDemand, rows: Sequence[int]) -> HeldCards:
        """Returns the cards and amounts that tasks use on the nodes at ``rows`` (UNKNOWN: not in the session): the card
        of the node. If the node does not say which card it has, the Pod holds the one that it names, or an uncertain
        one."""
        amounts: AmountList = []
        uncertain: list[tuple[PossibleCards, float]] = []
        for card_request in demand.card_requests:
            codes, names = self.inventory.codes_held(card_request.resource, rows)
            for code, number in enumerate(np.bincount(codes + 1).tolist(), start=-1):
                amount = card_request.amount * number
                if not number:
                    continue
                if code >= 0:
                    amounts.append((names[code], amount))
                elif card_request.named and len(card_request.cards) == 1:
                    amounts.append((card_request.cards[0], amount))
                else:
                    cards = card_request.cards if card_request.named else ()
                    uncertain.append((PossibleCards(card_request.resource, cards), amount))
        return HeldCards(amounts, uncertain)

    def cards_on(self, demand: CardDemand, rows: Sequence[int]) -> dict[int, Mapping[str, str]]:
        """Returns row -> resource -> the card that a task is charged for there, by the rule of ``charge``. Rows with
        the same cards share a mapping."""
        held = [self.inventory.codes_held(card_request.resource, rows) for card_request in demand.card_requests]
        known: dict[tuple[int, ...], Mapping[str, str]] = {}
        result: dict[int, Mapping[str, str]] = {}
        for row, *found in zip(rows, *(codes.tolist() for codes, _ in held), strict=True):
            key = tuple(found)
            if key not in known:
                cards = (
                    (card_request.resource, _card(card_request, code, names))
                    for card_request, code, (_, names) in zip(demand.card_requests, key, held, strict=True)
                )
                known[key] = {resource: card for resource, card in cards if card}
            result[row] = known[key]
        return result

    def cards_held(self, tasks: Sequence[Task], rows: Sequence[int]) -> HeldCards:
        """Returns the cards and amounts that bound tasks of one class hold: those in the binding records; without a
        record, by the rule of ``charge``."""
        return self._cards_held(tasks[0].cls, *_by_record(tasks, rows))

    def _cards_held(self, cls: TaskClass, recorded: Mapping[tuple[str, str], int], others: Sequence[int]) -> HeldCards:
        demand = self.of(cls)
        held = self.charge(demand, others) if others and demand.card_requests else HeldCards([], [])
        for (resource, card), number in recorded.items():
            amount = self._amount(cls, resource)
            if amount > 0:
                held.amounts.append((self.inventory.canonical(card), amount * number))
        return held

    def holdings(self, tasks: Sequence[Task], rows: Callable[[], Sequence[int]]) -> HeldCards:
        """Returns ``cards_held`` together with cpu and memory. ``rows``: not called for tasks without cards."""
        cls = tasks[0].cls
        demand = self.of(cls)
        if not demand.card_requests and not any(map(RECORD, tasks)):
            return HeldCards([(CPU, demand.cpu * len(tasks)), (MEMORY, demand.memory * len(tasks))], [])
        recorded, others = _by_record(tasks, rows())
        # Cpu and memory may be unlimited for Pods with cards, even if the labels that name the cards were removed.
        number = len(others) if self.unlimited else len(tasks)
        held = self._cards_held(cls, recorded, others)
        held.amounts.extend(((CPU, demand.cpu * number), (MEMORY, demand.memory * number)))
        return held

    def _amount(self, cls: TaskClass, resource: str) -> float:
        position = self._dimensions.find(resource)
        return 0.0 if position is None or position >= len(cls.request) else float(cls.request[position])

    def canonical(self, names: Names) -> Names:
        return tuple(dict.fromkeys(self.inventory.canonical(name) for name in names))

    def conflict(self, cards: Names, where: str) -> str:
        """Returns why cards cannot be alternatives in one annotation, or "". If no node has the cards, their names
        say that they are different resources."""
        known = {card: self.inventory.resources_of(card) for card in cards}
        known = {card: resources for card, resources in known.items() if resources}
        if len(known) > 1 and not frozenset.intersection(*known.values()):
            types = {card: " or ".join(sorted(resources)) for card, resources in known.items()}
        elif len(known) == len(cards):
            return ""
        elif len({kind_of(card) for card in cards}) > 1:
            types = {card: kind_of(card) for card in cards}
        elif len({vendor for card in cards if (vendor := vendor_of(card))}) > 1:
            types = {card: f"{vendor} card" for card in cards if (vendor := vendor_of(card))}
        else:
            return ""
        listed = ", ".join(f"<{card}> is {resource}" for card, resource in types.items())
        return (
            f"cards of different resource types cannot stand for each other in {where}: {listed}; a vcjob can list "
            f"them in the annotation {CARD_ALTERNATIVES} of its Pod template, and its Pods get one of them"
        )

    def _demand(self, cls: TaskClass) -> CardDemand:
        key, listed = cards_of_pod(cls.annotations)
        written = {self.inventory.canonical(name): name for name in reversed(listed.names)}
        cards = self.canonical(listed.names)
        requested = {
            self._dimensions.names[d]: float(cls.request[d]) for d in np.flatnonzero(cls.request) if d > PODS_INDEX
        }
        counting = self._counting(cards, requested)
        card_requests = []
        for resource, own in counting.items():
            fitting = tuple(card for card in cards if not (r := self.inventory.resources_of(card)) or resource in r)
            if own and fitting:
                card_request = CardsOfTask(
                    resource, requested[resource], fitting, tuple(written[c] for c in fitting), True
                )
            else:
                every = self.inventory.by_resource.get(resource, ())
                card_request = CardsOfTask(resource, requested[resource], every, (resource,), False)
            card_requests.append(card_request)
        free = self.unlimited and bool(card_requests)
        return CardDemand(
            card_requests=tuple(card_requests),
            cards=cards,
            written=tuple(written[card] for card in cards),
            cpu=0.0 if free else float(cls.request[CPU_INDEX]),
            memory=0.0 if free else float(cls.request[MEMORY_INDEX]),
            independent_of_nodes=not requested and not cards,
            field=f"metadata.annotations[{key}]",
            problems=listed.problems,
            conflict=self.conflict(cards, key),
        )

    def _counting(self, cards: Names, requested: dict[str, float]) -> dict[str, bool]:
        """Returns requested resource that counts cards -> whether it may count the named cards."""
        counting = {r: not cards for r in sorted(requested) if self.inventory.counts_cards(r)}
        if not cards:
            return dict.fromkeys(counting, False)
        unknown = []
        for card in cards:
            resources = self.inventory.resources_of(card)
            if not resources:
                unknown.append(card)
            counting.update(dict.fromkeys(resources & requested.keys(), True))
        if unknown and not any(counting.values()):
            # No node has these cards, so the resource that counts them is unknown. Assume every resource that may count
            # them by its name or, if there is none, the extended resource with the largest request.
            whole = [r for r in counting if any(self.inventory.may_count(r, card) for card in unknown)]
            whole = whole or [r for r in counting if r in self.inventory.by_resource]
            extended = sorted((r for r in requested if "/" in r and r not in counting), key=lambda r: -requested[r])
            counting.update(dict.fromkeys(whole or extended[:1], True))
        return counting


def _card(card_request: CardsOfTask, code: int, names: Sequence[str]) -> str:
    """Returns the card to charge, or "". ``code``: the code of the node's card; -1 if the node has no known card."""
    if code >= 0:
        return names[code]
    return card_request.cards[0] if card_request.named else ""


def join_names(names: Names) -> str:
    return SEPARATOR.join(names)


def _by_record(tasks: Sequence[Task], rows: Sequence[int]) -> tuple[Mapping[tuple[str, str], int], Sequence[int]]:
    """Returns (resource, card) -> number of tasks with it in their records, and the rows of tasks without a record."""
    cards_of = [None if task.record is None else task.record.cards for task in tasks]
    if not any(cards_of):
        return {}, rows
    shared: dict[int, tuple[Mapping[str, str], int]] = {}
    others = []
    for cards, row in zip(cards_of, rows, strict=True):
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
