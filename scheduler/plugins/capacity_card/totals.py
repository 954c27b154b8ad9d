"""Compares the quotas of all queues with the cards of the nodes, for statuses, metrics and Warning Events.

Quotas are not compared with the cluster when Pods are placed: over-granting is allowed, and Pods then wait for cards.
These figures show it before users notice. The admission of queues (``cardOverGrant``) computes them for the Nodes on
the API server.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from scheduler.api.card_totals import PROBLEM_TEXTS, CardTotals, QuotaProblem, problem_of, problem_of_queue
from scheduler.api.names import CARD_QUOTA, CPU, MEMORY, ROOT_QUEUE
from scheduler.api.node import Nodes
from scheduler.api.quantity import format_milli
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions
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


def card_totals(
    inventory: CardInventory,
    nodes: Nodes,
    dimensions: Dimensions,
    granted: Mapping[str, float],
    held: Mapping[str, float],
) -> dict[str, CardTotals]:
    """Returns the totals of all cards that nodes have or quotas list. ``granted``: of the listed ones; ``held``: what
    Pods hold of parts of cards. Of a part that requests determine, as many exist as nodes could have if they had no
    others."""
    ready = np.ones(len(nodes))
    ready[[nodes.index[name] for name in nodes.facts.unready]] = 0.0
    existing, allocatable, healthy, used = (
        inventory.sums(dimensions, amounts, granted)
        for amounts in (
            lambda position: np.maximum(nodes.capacity[position], nodes.allocatable[position]),
            lambda position: nodes.allocatable[position],
            lambda position: nodes.allocatable[position] * ready,
            lambda position: nodes.used[position],
        )
    )
    return {
        card: CardTotals(
            granted.get(card, 0.0),
            existing.get(card, 0.0),
            allocatable.get(card, 0.0),
            healthy.get(card, 0.0),
            held[card] if card in held else used.get(card, 0.0),
            card in granted,
        )
        for card in sorted(existing.keys() | granted.keys())
    }


def quota_warnings(totals: Mapping[str, CardTotals], quotas: Mapping[str, Mapping[str, float]]) -> Iterator[Malformed]:
    """Returns a Warning for each queue and card whose quota has a problem. ``quotas``: queue -> its limits. Of a card
    that no queue may use, the Warning is on the root queue, if this exists."""
    problems = {card: problem for card, its in totals.items() if (problem := problem_of(its)) is not None}
    if not problems:
        return
    for queue, limits in quotas.items():
        for card, limit in limits.items():
            problem = problem_of_queue(totals[card], limit) if card in problems else None
            if problem is not None:
                numbers = f"{totals[card].numbers}; quota of this queue: {format_milli(limit)}"
                yield _warning(queue, card, problem, numbers)
    if ROOT_QUEUE in quotas:
        for card, problem in problems.items():
            if problem is QuotaProblem.NOT_GRANTED:
                yield _warning(ROOT_QUEUE, card, problem, totals[card].numbers)


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
