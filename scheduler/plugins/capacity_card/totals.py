"""Compares the quotas of all queues with the cards of the nodes, for statuses, metrics and Warning Events.

Quotas are not compared with the cluster when Pods are placed: over-granting is allowed, and Pods then wait for cards.
These figures show it before users notice. The admission of queues (``cardOverGrant``) computes them for the Nodes on
the API server.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from scheduler.api.card_totals import PROBLEM_TEXTS, CardTotals, QuotaProblem, problem_of, problem_of_queue
from scheduler.api.cards import MILLI
from scheduler.api.names import CARD_QUOTA, CPU, MEMORY, ROOT_QUEUE
from scheduler.api.node import Nodes
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions
from scheduler.api.snapshot import Memory
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import Amounts, add

_CONSEQUENCES: Final = {
    QuotaProblem.NOT_FOUND: "Pods that need it wait",
    QuotaProblem.OVER_GRANTED: "Pods within the quota may wait",
    QuotaProblem.UNHEALTHY: "Pods within the quota may wait",
    QuotaProblem.NOT_GRANTED: "no Pod gets it",
}


def granted_cards(limits: Iterable[Mapping[str, float]]) -> Amounts:
    """Returns card -> the sum of the quotas. ``limits``: those of each queue, by dimension."""
    sums: Amounts = {}
    for each in limits:
        add(sums, ((name, limit) for name, limit in each.items() if name not in (CPU, MEMORY)))
    return sums


class CardSupply(NamedTuple):
    """Card -> what the nodes have, as in ``CardTotals``. Of a part that requests determine, as many as nodes could have
    if they had no others."""

    existing: Mapping[str, float]
    allocatable: Mapping[str, float]
    healthy: Mapping[str, float]


def card_supply(
    memory: Memory, inventory: CardInventory, nodes: Nodes, dimensions: Dimensions, listed: Iterable[str]
) -> CardSupply:
    """Returns the supply of the cards that nodes have or quotas list (``listed``). It is kept until a node changes."""
    names = tuple(sorted(listed))

    def compute(_: CardSupply | None) -> CardSupply:
        ready = np.ones(len(nodes))
        ready[[nodes.index[name] for name in nodes.facts.unready]] = 0.0
        capacity, allocatable = nodes.capacity, nodes.allocatable
        return CardSupply(
            inventory.sums(dimensions, lambda position: np.maximum(capacity[position], allocatable[position]), names),
            inventory.sums(dimensions, lambda position: allocatable[position], names),
            inventory.sums(dimensions, lambda position: allocatable[position] * ready, names),
        )

    version = (inventory, nodes.facts, nodes.allocatable, nodes.capacity)
    return memory.memo(CardSupply, version, compute, names)


def card_totals(supply: CardSupply, granted: Mapping[str, float], used: Mapping[str, float]) -> dict[str, CardTotals]:
    """Returns the totals of all cards that nodes have or quotas list. ``granted``: of the listed ones; ``used``: what
    Pods hold."""
    return {
        card: CardTotals(
            granted.get(card, 0.0),
            supply.existing.get(card, 0.0),
            supply.allocatable.get(card, 0.0),
            supply.healthy.get(card, 0.0),
            used.get(card, 0.0),
            card in granted,
        )
        for card in sorted(supply.existing.keys() | granted.keys())
    }


def quota_warnings(totals: Mapping[str, CardTotals], quotas: Mapping[str, Mapping[str, float]]) -> Iterator[Malformed]:
    """Returns a Warning for each queue and card whose quota has a problem. ``quotas``: queue -> its limits. Of a card
    that no queue may use, the Warning is on the root queue, if this exists."""
    problems = {card: problem for card, its in totals.items() if (problem := problem_of(its)) is not None}
    if not problems:
        return
    numbers = {card: totals[card].numbers for card in problems}
    for queue, limits in quotas.items():
        for card, limit in limits.items():
            if card in problems and problem_of_queue(totals[card], limit) is not None:
                yield _warning(
                    queue, card, problems[card], f"{numbers[card]}; quota of this queue: {limit / MILLI:.0f}"
                )
    if ROOT_QUEUE in quotas:
        for card, problem in problems.items():
            if problem is QuotaProblem.NOT_GRANTED:
                yield _warning(ROOT_QUEUE, card, problem, numbers[card])


def _warning(queue: str, card: str, problem: QuotaProblem, numbers: str) -> Malformed:
    text = PROBLEM_TEXTS[problem].format(card)
    return Malformed(
        "Queue",
        "",
        queue,
        f"metadata.annotations[{CARD_QUOTA}][{card}]",
        text,
        _CONSEQUENCES[problem],
        problem.value,
        numbers,
        resolved=f"{card}: no longer: {text}",
    )
