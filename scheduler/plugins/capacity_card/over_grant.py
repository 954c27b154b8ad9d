"""What the admission of Queues says of a quota that grants more cards than exist (``cardOverGrant``).

The figures are those of the scheduler (``totals``), computed for the Nodes and Queues of the API server. Admission does
not know the scheduler's configuration. So of cards that labels of nodes do not name, such as parts that requests
determine, it takes the numbers that the scheduler has written to Queues.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scheduler.api.card_kinds import MIG, MPS, PART, kind_of
from scheduler.api.card_totals import PROBLEM_TEXTS, CardTotals, QuotaProblem, problem_of_queue
from scheduler.api.cards import MILLI, parse_quota
from scheduler.api.messages import cards_in
from scheduler.api.names import CARD_QUOTA
from scheduler.api.node import NodeFacts, Nodes
from scheduler.api.objects import Node, ResourceList
from scheduler.api.quantity import QuantityError, format_milli, parse_quantity
from scheduler.api.resource import Dimensions, scale_of
from scheduler.api.scheduling import Queue
from scheduler.api.snapshot import Memory
from scheduler.plugins.capacity_card.discovery import CardInventory, inventory_of
from scheduler.plugins.capacity_card.totals import card_supply, card_totals, granted_cards

REFUSED: Final = frozenset((QuotaProblem.OVER_GRANTED, QuotaProblem.NOT_FOUND))
"""Problems for which ``refuse`` refuses a quota. Cards that are not healthy now may be so again."""


class OverGrant(NamedTuple):
    """A card of which a quota grants too many."""

    problem: QuotaProblem
    message: str


def over_grants(
    queue: str, raised: Mapping[str, float], queues: Iterable[Queue], nodes: Collection[Node]
) -> list[OverGrant]:
    """Returns what is wrong with the quotas of some cards after a write. ``raised``: card, as written -> its new quota
    in the queue of this name, in thousandths; ``queues``: as stored, perhaps with this queue."""
    facts = NodeFacts(sorted(nodes, key=lambda node: node.metadata.name))
    inventory = inventory_of(Memory(), facts)
    others = [other for other in queues if other.metadata.name != queue]
    limits = [_quota(inventory, other) for other in others]
    own: dict[str, float] = {}
    written: dict[str, str] = {}
    for name, number in raised.items():
        card = inventory.canonical(name)
        own.setdefault(card, number)
        written.setdefault(card, name)
    dimensions = Dimensions()
    dimensions.declare(inventory.by_resource)
    table = _table(facts, inventory.by_resource, dimensions)
    granted = granted_cards([*limits, own])
    totals = card_totals(card_supply(Memory(), inventory, table, dimensions, granted), granted, {})
    found = []
    for card, number in own.items():
        its = totals[card] if totals[card].existing else _reported(totals[card], card, others)
        problem = problem_of_queue(its, number)
        if problem is QuotaProblem.NOT_FOUND and _is_divided(card):
            continue
        if problem is not None:
            text = PROBLEM_TEXTS[problem].format(written[card])
            numbers = f"{written[card]}: {its.numbers}; quota of this queue: {format_milli(number)}"
            found.append(OverGrant(problem, f"metadata.annotations[{CARD_QUOTA}]: {text}: {numbers}"))
    return found


def _quota(inventory: CardInventory, queue: Queue) -> dict[str, float]:
    """Returns the quota of a queue, by the names of cards on nodes. Of several names of a card, the first counts."""
    found: dict[str, float] = {}
    for names, number in parse_quota((queue.metadata.annotations or {}).get(CARD_QUOTA)).amounts.items():
        found.setdefault(inventory.canonical(names[0]), number)
    return found


def _table(facts: NodeFacts, resources: Iterable[str], dimensions: Dimensions) -> Nodes:
    """Returns the amounts of resources of nodes. Malformed ones count as 0."""
    table = Nodes.empty(facts, dimensions.width)
    for resource in resources:
        position = dimensions.index(resource)
        allocatable = [_amount(node.status.allocatable, resource) for node in facts.objects]
        table.allocatable[position] = allocatable
        table.capacity[position] = [_amount(node.status.capacity, resource) for node in facts.objects]
    return table


def _amount(amounts: ResourceList | None, resource: str) -> float:
    try:
        return float(parse_quantity((amounts or {}).get(resource, 0), scale_of(resource)))
    except QuantityError:
        return 0.0


def _is_divided(card: str) -> bool:
    """Whether requests determine the name of a card, so that labels of nodes do not."""
    return PART in card and kind_of(card) not in (MPS, MIG)


def _reported(totals: CardTotals, card: str, queues: Sequence[Queue]) -> CardTotals:
    """Returns the totals of a card with the numbers of cards that the scheduler has written to Queues, if it has."""
    for queue in queues:
        its = cards_in(queue.status.cards).get(card, {})
        existing, healthy = (_cards(its.get(key)) for key in ("existing", "healthy"))
        if existing:
            return totals._replace(existing=existing, allocatable=healthy, healthy=healthy)
    return totals


def _cards(text: Any) -> float:
    try:
        return float(parse_quantity(str(text), MILLI))
    except QuantityError:
        return 0.0
