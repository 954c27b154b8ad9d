"""The accelerator cards of all nodes, by name and resource (``card_labels`` reads a single node).

Users write the memory of one card as 90, 95, 96 or 97 g, depending on the unit and the rounding. A name that
differs from the node's only in the memory, and by at most a tenth of it, therefore means the same card (``canonical``).
The number of cards is the allocatable amount of the node (``Nodes.allocatable``), never the count label.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.cards import WHOLE_CARD, kind_of, vendor_of
from scheduler.api.names import MPS_REPLICAS
from scheduler.api.node import Codes, Column, NodeFacts, Nodes
from scheduler.api.objects import Node
from scheduler.api.resource import Dimensions
from scheduler.api.snapshot import Memory
from scheduler.plugins.capacity_card.card_labels import (
    FIELDS,
    KNOWN_CARDS,
    MIG_PREFIX,
    MPS_RESOURCE,
    NO_CARDS,
    VENDORS,
    CardResources,
    NodeCards,
    read_cards,
    shared,
)

_MPS_NAME: Final = re.compile(r"(.+)/mps-([0-9]{1,9})g\*1/([0-9]{1,9})")
_MIG_NAME: Final = re.compile(r".+/mig-(.+)-mixed")
TOLERANCE: Final = 0.1
"""Largest relative difference between two values for the memory of one card."""


class CardInventory:
    """The cards of all nodes. Immutable. The object stays the same as long as the cards of all nodes do."""

    def __init__(self, rows: Sequence[NodeCards], card_resources: CardResources = KNOWN_CARDS) -> None:
        self._rows = rows
        self._card_resources = card_resources
        self._held: dict[str, tuple[Codes, Sequence[str]]] = {}
        cards: dict[str, set[str]] = {}
        for row in rows:
            for resource, card in row.by_resource.items():
                cards.setdefault(resource, set()).add(card)
        self.by_resource: dict[str, tuple[str, ...]] = {r: tuple(sorted(names)) for r, names in sorted(cards.items())}
        """Resource name -> names of the cards it counts on some node, sorted."""
        self.problems = tuple(problem for row in rows for problem in row.problems)
        self._resources: dict[str, set[str]] = {}
        for resource, names in self.by_resource.items():
            for name in names:
                self._resources.setdefault(name, set()).add(resource)
        self._codes = {name: code for code, name in enumerate(sorted(self._resources))}
        self._names = list(self._codes)
        self._columns = {resource: self._column(rows, resource) for resource in self.by_resource}
        self._unlabeled = {resource for row in rows for resource in row.unlabeled}
        self._described = {family.exact for row in rows for family in row.families}
        self._no_cards: Codes = np.full(len(rows) + 1, -1, dtype=np.int32)
        self._mps: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for name in self._names:
            match = _MPS_NAME.fullmatch(name)
            if match is not None:
                self._mps.setdefault((match[1], match[3]), []).append((int(match[2]), name))

    def _column(self, rows: Sequence[NodeCards], resource: str) -> Codes:
        codes = self._codes
        cards = (row.by_resource.get(resource) for row in rows)
        # The additional last element is for nodes that are not in the session.
        return np.array([*(-1 if card is None else codes[card] for card in cards), -1], dtype=np.int32)

    def column(self, resource: str) -> Codes:
        """Returns the code of the card that a resource counts on each node; shape (nodes,); -1 if it counts none."""
        return self._columns.get(resource, self._no_cards)[:-1]

    def codes_held(self, resource: str, rows: Sequence[int]) -> tuple[Codes, Sequence[str]]:
        """Returns the cards that Pods on the nodes at ``rows`` hold of a resource, as codes and the names by code; -1
        if the card is not known. The row -1 is a node that is not in the session. A node that no longer offers a
        resource has the cards that its labels name (``NodeCards.card_held``)."""
        known = self._held.get(resource)
        if known is None:
            by_code: dict[str, int] = {}
            by_cards: dict[int, int] = {}
            codes = np.full(len(self._rows) + 1, -1, dtype=np.int32)
            for row, cards in enumerate(self._rows):
                if cards is NO_CARDS:
                    continue
                code = by_cards.get(id(cards))
                if code is None:
                    card = cards.card_held(resource, self._card_resources)
                    code = by_cards[id(cards)] = -1 if card is None else by_code.setdefault(card, len(by_code))
                codes[row] = code
            known = self._held[resource] = codes, list(by_code)
        return known[0][np.array(rows, dtype=np.intp)], known[1]

    def missing_labels(self, resource: str) -> tuple[Codes, Sequence[str]]:
        """Returns the labels without which nodes that offer a resource do not say which cards these are: shape
        (nodes,), the index of the label, -1 if none is missing; and the labels."""
        labels: dict[str, int] = {}
        if resource not in self._unlabeled:
            return self._no_cards[:-1], ()
        missing = (row.unlabeled.get(resource) for row in self._rows)
        codes = [-1 if label is None else labels.setdefault(label, len(labels)) for label in missing]
        return np.array(codes, dtype=np.int32), list(labels)

    def is_reported(self, row: int, resource: str) -> bool:
        """Whether ``problems`` say that the node does not name the card of a resource that it offers."""
        return resource in self._rows[row].unlabeled

    def code(self, card: str) -> int:
        """Returns the code of a card in columns; -2, which no column contains, if no node has the card."""
        return self._codes.get(card, -2)

    @property
    def names(self) -> Sequence[str]:
        """Names of cards by code."""
        return self._names

    def amounts(self, nodes: Nodes, dimensions: Dimensions) -> dict[str, float]:
        """Returns how many allocatable cards of each name the nodes have, in thousandths."""
        return self.sums(dimensions, lambda position: nodes.allocatable[position])

    def sums(self, dimensions: Dimensions, amounts: Callable[[int], Column]) -> dict[str, float]:
        """Returns the sum of each card over all nodes. ``amounts``: returns the amounts of the resource at a position,
        shape (nodes,)."""
        sums = np.zeros(len(self._names))
        for resource, codes in self._columns.items():
            position = dimensions.find(resource)
            if position is not None:
                has = codes[:-1] >= 0
                sums += np.bincount(codes[:-1][has], weights=amounts(position)[has], minlength=len(sums))
        return dict(zip(self._names, sums.tolist(), strict=True))

    def nodes_with(self, cards: Iterable[str], resource: str | None = None) -> NDArray[np.bool_]:
        """Returns which nodes have one of the cards (counted by ``resource``, or by any); shape (nodes,)."""
        wanted = [self.code(card) for card in cards]
        result = np.zeros(len(self._no_cards) - 1, dtype=bool)
        for name in self._columns if resource is None else (resource,):
            result |= np.isin(self.column(name), wanted)
        return result

    def counts_cards(self, resource: str) -> bool:
        """Whether a resource counts cards: by its name, or because labels of a node say so."""
        return resource in self.by_resource or resource in self._described or self._card_resources.count(resource)

    def may_count(self, resource: str, card: str) -> bool:
        """Whether a resource may count a card: if nodes or the name of the card do not say which resources do, any that
        counts whole cards of its vendor."""
        known = self.resources_of(card)
        if known:
            return resource in known
        if shared(resource) or kind_of(card) != WHOLE_CARD:
            return False
        vendor = vendor_of(card)
        domain = resource.partition("/")[0]
        return not vendor or vendor == VENDORS.get(domain, vendor if vendor not in VENDORS.values() else "")

    def resources_of(self, card: str) -> frozenset[str]:
        """Returns the resources that count a card, on nodes or judging by its name; empty if unknown."""
        known = self._resources.get(card)
        if known:
            return frozenset(known)
        if _MPS_NAME.fullmatch(card) is not None:
            return frozenset((MPS_RESOURCE,))
        match = _MIG_NAME.fullmatch(card)
        return frozenset() if match is None else frozenset((f"{MIG_PREFIX}{match[1]}",))

    def canonical(self, name: str) -> str:
        """Returns the name on nodes of the card that a user calls ``name``; ``name`` itself if no node has the card."""
        if name in self._codes or not self._mps:
            return name
        match = _MPS_NAME.fullmatch(name)
        if match is None:
            return name
        asked = int(match[2])
        near = [
            (abs(memory - asked), card)
            for memory, card in self._mps.get((match[1], match[3]), ())
            if abs(memory - asked) <= max(1.0, memory * TOLERANCE)
        ]
        return min(near)[1] if near else name


class _Kept(msgspec.Struct, frozen=True):
    """The nodes of the last session and their cards."""

    facts: NodeFacts
    read: Mapping[str, tuple[Node, NodeCards]]
    rows: Sequence[NodeCards]
    inventory: CardInventory


def inventory_of(memory: Memory, facts: NodeFacts, card_resources: CardResources = KNOWN_CARDS) -> CardInventory:
    """Returns the inventory of the nodes; that of the last session if no card has changed. A node is read again only if
    its object has changed."""

    def discover(last: _Kept | None) -> _Kept:
        read: dict[str, tuple[Node, NodeCards]] = {}
        alike: dict[Hashable, NodeCards] = {}
        for name, node in zip(facts.names, facts.objects, strict=True):
            known = None if last is None else last.read.get(name)
            if known is None or known[0] is not node:
                cards = _read_like(alike, name, node, card_resources)
                known = (node, known[1] if known is not None and known[1] == cards else cards)
            read[name] = known
        rows = [cards for _, cards in read.values()]
        same = last is not None and last.facts.names == facts.names and _identical(rows, last.rows)
        return _Kept(
            facts, read, rows, last.inventory if last is not None and same else CardInventory(rows, card_resources)
        )

    return memory.memo(CardInventory, (facts,), discover, card_resources).inventory


def _read_like(alike: dict[Hashable, NodeCards], name: str, node: Node, card_resources: CardResources) -> NodeCards:
    """Returns the cards of a node. ``alike``: the labels and resources of nodes without problems -> their cards, shared
    by all nodes that have the same."""
    labels, resources = node.metadata.labels or {}, tuple(node.status.allocatable or ())
    described = [label for label in labels.items() if label[0].endswith(FIELDS)]
    key = (tuple(described), labels.get(MPS_REPLICAS), resources)
    cards = alike.get(key)
    if cards is None:
        cards = read_cards(name, labels, resources, card_resources)
        if not cards.problems:
            alike[key] = cards
    return cards


def _identical(left: Sequence[NodeCards], right: Sequence[NodeCards]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
