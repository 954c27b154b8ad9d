"""What a Pod uses of its queue's quota: cpu, memory and cards by name.

A Pod requests a resource (``nvidia.com/gpu``), or parts of cards, which the plugin that divides them names
(``framework.card_parts``). Its annotation ``volcano.sh/card.name`` names the acceptable cards, and its node determines
the actual card. A Pod that names no card may get any card that its queue has quota of, and is
charged for it; omitting the annotation does not bypass the quota. A bound Pod is charged for the cards in its binding
record, even if its annotations or the labels of the node change.
"""

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api.card_kinds import PART, title_of
from scheduler.api.cards import MILLI, SEPARATOR, Names, cards_of_pod, vendor_of
from scheduler.api.job import Job
from scheduler.api.names import CARD_ALTERNATIVES, CPU, MEMORY
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions
from scheduler.api.task import Task, TaskClass
from scheduler.framework.card_parts import PartRequest
from scheduler.plugins.capacity_card.discovery import CardColumn, CardInventory

AmountList = list[tuple[str, float]]
"""(name, amount) pairs; a name may occur several times."""


class PossibleCards(NamedTuple):
    """The cards of which a Pod holds one, where its node does not say which."""

    resource: str
    cards: Names
    """The cards that the Pod names; none if it may be any that the resource counts."""
    parts: Names = ()
    """The parts of which it holds one, if it may be of any model; none: whole cards, or parts of any size."""


class HeldCards(NamedTuple):
    """What bound tasks hold."""

    amounts: AmountList
    uncertain: list[tuple[PossibleCards, float]]
    """Amounts of cards that are not known."""


UNKNOWN: Final = -1
"""The row of a node that is not in the session."""
RECORD: Final = attrgetter("record")


class CardsOfTask(msgspec.Struct, frozen=True, eq=False):
    """The request of one task for cards of one resource, or for parts of one size of these cards."""

    resource: str
    amount: float
    """The number of cards, in thousandths; the largest one if it depends on the node."""
    cards: Names
    """The acceptable cards by their names on nodes, the preferred one first."""
    written: Names
    """The same cards by their names in the Pod's annotation."""
    named: bool
    """The Pod names the cards. False: ``cards`` are all cards that the resource counts on any node."""
    column: CardColumn
    """The cards that the nodes offer."""
    held: CardColumn
    """The cards that Pods on the nodes hold."""

    def amount_of(self, code: int) -> float:
        """Returns the number of cards with a code of ``held``, in thousandths; the largest one if the code is -1."""
        amounts = self.held.amounts
        return self.amount if amounts is None or code < 0 else amounts[code]

    @property
    def possible(self) -> PossibleCards:
        """The cards that a task may hold whose node does not say which."""
        if self.named:
            return PossibleCards(self.resource, self.cards)
        parts = () if self.held.amounts is None else {card.partition(PART)[2]: None for card in self.held.names}
        return PossibleCards(self.resource, (), tuple(parts))


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
        self._known: dict[tuple[int, Hashable], CardDemand] = {}
        self._parts = inventory.card_resources.parts
        self.per_job = any(parts.per_job for parts in self._parts)
        """Whether demands depend on jobs besides classes."""

    def of_job(self, job: Job | None) -> Hashable:
        """Returns what the demands of a job's classes depend on besides the classes; None for most jobs."""
        if not self.per_job or job is None:
            return None
        found = tuple(parts.of_job(job) for parts in self._parts)
        return found if any(each is not None for each in found) else None

    def of(self, cls: TaskClass, job: Job | None = None) -> CardDemand:
        """Returns the demand of a class of a job. ``job``: None for Pods without one."""
        return self.of_class(cls, self.of_job(job))

    def of_class(self, cls: TaskClass, of_job: Hashable) -> CardDemand:
        """Returns the demand of a class. ``of_job``: the answer of ``of_job``."""
        key = (cls.id, of_job)
        demand = self._known.get(key)
        if demand is None:
            demand = self._known[key] = self._demand(cls, of_job)
        return demand

    def charge(self, demand: CardDemand, rows: Sequence[int]) -> HeldCards:
        """Returns the cards and amounts that tasks use on the nodes at ``rows`` (UNKNOWN: not in the session): the card
        of the node. If the node does not say which card it has, the Pod holds the one that it names, or an uncertain
        one."""
        amounts: AmountList = []
        uncertain: list[tuple[PossibleCards, float]] = []
        for card_request in demand.card_requests:
            held = card_request.held
            codes = held.codes[np.array(rows, dtype=np.intp)]
            for code, number in enumerate(np.bincount(codes + 1).tolist(), start=-1):
                if not number:
                    continue
                if code >= 0:
                    amounts.append((held.names[code], card_request.amount_of(code) * number))
                elif card_request.named and len(card_request.cards) == 1:
                    amounts.append((card_request.cards[0], card_request.amount * number))
                else:
                    uncertain.append((card_request.possible, card_request.amount * number))
        return HeldCards(amounts, uncertain)

    def cards_on(self, demand: CardDemand, rows: Sequence[int]) -> dict[int, Mapping[str, str]]:
        """Returns row -> resource -> the card that a task is charged for there, by the rule of ``charge``, as a binding
        record has it: for parts of cards with their number. Rows with the same cards share a mapping."""
        where = np.array(rows, dtype=np.intp)
        known: dict[tuple[int, ...], Mapping[str, str]] = {}
        result: dict[int, Mapping[str, str]] = {}
        held = (card_request.held.codes[where].tolist() for card_request in demand.card_requests)
        for row, *found in zip(rows, *held, strict=True):
            key = tuple(found)
            if key not in known:
                known[key] = _recorded_cards(demand.card_requests, key)
            result[row] = known[key]
        return result

    def cards_held(self, tasks: Sequence[Task], rows: Sequence[int], of_job: Hashable) -> HeldCards:
        """Returns the cards and amounts that bound tasks of one class hold: those in the binding records; without a
        record, by the rule of ``charge``. ``of_job``: of the job of the tasks."""
        cls = tasks[0].cls
        return self._cards_held(cls, self.of_class(cls, of_job), *_by_record(tasks, rows))

    def _cards_held(
        self, cls: TaskClass, demand: CardDemand, recorded: Mapping[tuple[str, str], int], others: Sequence[int]
    ) -> HeldCards:
        held = self.charge(demand, others) if others and demand.card_requests else HeldCards([], [])
        for (resource, text), number in recorded.items():
            parts, _, card = text.rpartition(_NUMBER_OF)
            amount = int(parts) * MILLI if parts.isdecimal() else self._amount(cls, resource)
            if amount > 0:
                held.amounts.append((self.inventory.canonical(card), float(amount * number)))
        return held

    def holdings(self, tasks: Sequence[Task], rows: Callable[[], Sequence[int]], of_job: Hashable = None) -> HeldCards:
        """Returns ``cards_held`` together with cpu and memory. ``rows``: not called for tasks without cards.
        ``of_job``: of the job of the tasks; None for tasks without one."""
        cls = tasks[0].cls
        demand = self.of_class(cls, of_job)
        if not demand.card_requests and not any(map(RECORD, tasks)):
            return HeldCards([(CPU, demand.cpu * len(tasks)), (MEMORY, demand.memory * len(tasks))], [])
        recorded, others = _by_record(tasks, rows())
        # Cpu and memory may be unlimited for Pods with cards, even if the labels that name the cards were removed.
        number = len(others) if self.unlimited else len(tasks)
        held = self._cards_held(cls, demand, recorded, others)
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
        elif len({title_of(card) for card in cards}) > 1:
            types = {card: title_of(card) for card in cards}
        elif len({vendor for card in cards if (vendor := vendor_of(card))}) > 1:
            types = {card: f"{vendor} card" for card in cards if (vendor := vendor_of(card))}
        else:
            return ""
        listed = ", ".join(f"<{card}> is {resource}" for card, resource in types.items())
        return (
            f"cards of different resource types cannot stand for each other in {where}: {listed}; a vcjob can list "
            f"them in the annotation {CARD_ALTERNATIVES} of its Pod template, and its Pods get one of them"
        )

    def _demand(self, cls: TaskClass, of_job: Hashable) -> CardDemand:
        inventory = self.inventory
        key, listed = cards_of_pod(cls.annotations)
        written = {inventory.canonical(name): name for name in reversed(listed.names)}
        cards = self.canonical(listed.names)
        requested = {
            self._dimensions.names[d]: float(cls.request[d]) for d in np.flatnonzero(cls.request) if d > PODS_INDEX
        }
        plain = dict(requested)
        card_requests = []
        of_parts: set[str] = set()
        """The named cards that are parts."""
        for request in self._part_requests(cls, of_job, plain):
            amount = requested.get(request.resource, 0.0)
            offered = inventory.parts(request, amount, held=False)
            held = inventory.parts(request, amount, held=True)
            named = {name: card for card in cards for name in self._meant(request, offered, card)}
            of_parts.update(named.values())
            as_written = {name: written[card] for name, card in named.items()}
            card_requests.append(_parts_of_task(request.resource, as_written, offered, held))
        others = tuple(card for card in cards if card not in of_parts)
        for resource, own in self._counting(others, plain).items():
            fitting = tuple(card for card in others if not (r := inventory.resources_of(card)) or resource in r)
            named_here = own and bool(fitting)
            card_requests.append(
                CardsOfTask(
                    resource,
                    plain[resource],
                    fitting if named_here else inventory.by_resource.get(resource, ()),
                    tuple(written[card] for card in fitting) if named_here else (resource,),
                    named_here,
                    inventory.column(resource),
                    inventory.held(resource),
                )
            )
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

    def _part_requests(self, cls: TaskClass, of_job: Hashable, requested: dict[str, float]) -> Iterator[PartRequest]:
        """Yields the requests of a task for parts of cards. Removes their resources from ``requested``."""
        of_jobs = of_job if isinstance(of_job, tuple) else itertools.repeat(None)
        divided: set[str] = set()
        for parts, mine in zip(self._parts, of_jobs, strict=False):
            found = [each for each in parts.requests(cls, mine) if each.resource not in divided]
            found = [each for each in found if self.inventory.divides(each.resource)]
            divided.update(each.resource for each in found)
            for resource in (*divided, *parts.counted) if found else ():
                requested.pop(resource, None)
            yield from found

    def _meant(self, request: PartRequest, offered: CardColumn, card: str) -> Iterator[str]:
        """Yields the parts that a Pod with a request means by a card: the card itself, or parts of the model."""
        of_model = [name for name in offered.names if name.partition(PART)[0] == card]
        if card not in offered.names and of_model:
            yield from of_model
        elif card in offered.names or request.resource in self.inventory.resources_of(card):
            yield card

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


def _parts_of_task(resource: str, named: Mapping[str, str], offered: CardColumn, held: CardColumn) -> CardsOfTask:
    """``named``: name of a part that the Pod accepts -> the card in its annotation."""
    every = tuple(sorted(set(offered.names)))
    cards, written = (tuple(named), tuple(named.values())) if named else (every, every or (resource,))
    amount = max((*(offered.amounts or ()), *(held.amounts or ())), default=float(MILLI))
    return CardsOfTask(resource, amount, cards, written, bool(named), offered, held)


_NUMBER_OF: Final = " "
"""Separates the number of parts from their name in binding records: ``2 NVIDIA-A100/vgpu-8g``."""


def _recorded_cards(card_requests: Sequence[CardsOfTask], codes: Sequence[int]) -> Mapping[str, str]:
    """Returns resource -> card for binding records. ``codes``: by request, the code of the node's card; -1 if the node
    has no known card. Several requests for parts of one resource have numbered keys."""
    found: dict[str, str] = {}
    for card_request, code in zip(card_requests, codes, strict=True):
        if code < 0 and not card_request.named:
            continue
        card = card_request.held.names[code] if code >= 0 else card_request.cards[0]
        key = card_request.resource
        if card_request.held.amounts is not None:
            card = f"{int(card_request.amount_of(code)) // MILLI}{_NUMBER_OF}{card}"
            key = next(
                each for number in itertools.count() if (each := f"{key}#{number}" if number else key) not in found
            )
        found[key] = card
    return found


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
