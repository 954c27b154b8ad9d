"""The accelerator cards of all nodes, by name and resource (``card_labels`` reads a single node).

Users write the memory of one card as 90, 95, 96 or 97 g, depending on the unit and the rounding. A name that
differs from the node's only in the memory, and by at most a tenth of it, therefore means the same card (``canonical``).
The number of cards is the allocatable amount of the node (``Nodes.allocatable``), never the count label.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.card_kinds import (
    MIG,
    MIG_PREFIX,
    MPS,
    MPS_RESOURCE,
    PART,
    VNPU,
    WHOLE_CARD,
    kind_of,
    normal_name,
    static_resources,
    title_of,
)
from scheduler.api.cards import MILLI, vendor_of
from scheduler.api.names import MPS_REPLICAS
from scheduler.api.node import Codes, Column, NodeFacts, Nodes
from scheduler.api.objects import Node
from scheduler.api.resource import Dimensions
from scheduler.api.snapshot import Memory
from scheduler.framework.card_parts import PartRequest
from scheduler.plugins.capacity_card.card_labels import (
    FIELDS,
    NO_CARDS,
    DividedCard,
    NodeCards,
    product_label,
    read_cards,
)
from scheduler.plugins.capacity_card.card_resources import KNOWN_CARDS, VENDORS, CardResources, shared

_ASCEND: Final = "Ascend"
TOLERANCE: Final = 0.1
"""Largest relative difference between two values for the memory of one card."""


class CardColumn(NamedTuple):
    """The cards that one request gets on each node."""

    codes: Codes
    """Shape (nodes + 1,): the code of the card; -1 if it gets none that is known. The last element is for nodes that
    are not in the session."""
    names: Sequence[str]
    """Code -> name of the card. Several codes may have the same name."""
    amounts: Sequence[float] | None = None
    """Code -> number of cards, in thousandths; None: the amount of the request, whatever the node."""

    def passes(self, cards: Iterable[str]) -> NDArray[np.bool_]:
        """Returns which nodes have one of the cards; shape (nodes,)."""
        wanted = set(cards)
        codes = [code for code, name in enumerate(self.names) if name in wanted]
        result: NDArray[np.bool_] = np.isin(self.codes[:-1], codes)
        return result

    def of(self, name: str) -> NDArray[np.bool_]:
        """Returns which nodes have a card; shape (nodes,)."""
        return self.passes((name,))


class _Divided(NamedTuple):
    """Which cards a resource divides on each node."""

    codes: Codes
    """Shape (nodes + 1,): the index in ``cards``; -1 if no label names the model."""
    cards: Sequence[DividedCard]


class CardInventory:
    """The cards of all nodes. Immutable. The object stays the same as long as the cards of all nodes do."""

    def __init__(self, rows: Sequence[NodeCards], card_resources: CardResources = KNOWN_CARDS) -> None:
        self._rows = rows
        self.card_resources = card_resources
        self._held: dict[str, CardColumn] = {}
        self._divided: dict[tuple[str, bool], _Divided] = {}
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
        self._no_cards: Codes = np.full(len(rows) + 1, -1, dtype=np.int32)
        self._columns = {resource: self._column(rows, resource) for resource in self.by_resource}
        self._unlabeled = {resource for row in rows for resource in row.unlabeled}
        families = [family for row in rows for family in row.families]
        self._described = {family.exact for family in families}
        self._models = {family.product for family in families}.union(name.partition(PART)[0] for name in self._names)
        self._mps: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for name in self._names:
            model, _, part = name.partition(PART)
            size = MPS.size_of(part)
            if size is not None:
                self._mps.setdefault((model, size[2]), []).append((int(size[1]), name))

    def _column(self, rows: Sequence[NodeCards], resource: str) -> CardColumn:
        codes = self._codes
        cards = (row.by_resource.get(resource) for row in rows)
        of_nodes = [-1 if card is None else codes[card] for card in cards]
        return CardColumn(np.array([*of_nodes, -1], dtype=np.int32), self._names)

    def column(self, resource: str) -> CardColumn:
        """Returns the cards that a resource counts on each node."""
        known = self._columns.get(resource)
        return CardColumn(self._no_cards, self._names) if known is None else known

    def held(self, resource: str) -> CardColumn:
        """Returns the cards that Pods on each node hold of a resource. A node that no longer offers the resource has
        the cards that its labels name (``NodeCards.card_held``)."""
        known = self._held.get(resource)
        if known is None:
            by_code: dict[str, int] = {}
            by_cards: dict[int, int] = {}
            codes = self._no_cards.copy()
            for row, cards in enumerate(self._rows):
                if cards is NO_CARDS:
                    continue
                code = by_cards.get(id(cards))
                if code is None:
                    card = cards.card_held(resource, self.card_resources)
                    code = by_cards[id(cards)] = -1 if card is None else by_code.setdefault(card, len(by_code))
                codes[row] = code
            known = self._held[resource] = CardColumn(codes, list(by_code))
        return known

    def parts(self, request: PartRequest, amount: float, *, held: bool) -> CardColumn:
        """Returns the parts of cards that a request gets on each node. ``amount``: what it has of the resource, in
        thousandths; ``held``: the parts that running Pods hold, also if a node no longer offers the resource."""
        divided = self._divided_cards(request.resource, held)
        names: list[str] = []
        amounts: list[float] = []
        codes = []
        for card in divided.cards:
            if card.whole is not None and request.kind not in self.card_resources.kinds:
                name, number = card.whole, amount
            else:
                parts = request.on_node(dict(card.labels))
                name = "" if parts is None else f"{card.model}{PART}{parts.part}" if parts.part else card.model
                number = 0.0 if parts is None else float(parts.number * MILLI)
            codes.append(len(names) if name else -1)
            if name:
                names.append(name)
                amounts.append(number)
        of_cards: Codes = np.array([*codes, -1], dtype=np.int32)
        return CardColumn(of_cards[divided.codes], names, amounts)

    def _divided_cards(self, resource: str, held: bool) -> _Divided:
        known = self._divided.get((resource, held))
        if known is None:
            numbers: dict[DividedCard, int] = {}
            by_row: dict[int, int] = {}
            codes = self._no_cards.copy()
            for row, of_node in enumerate(self._rows):
                code = by_row.get(id(of_node))
                if code is None:
                    card = of_node.divided_card(resource, self.card_resources, held=held)
                    code = by_row[id(of_node)] = -1 if card is None else numbers.setdefault(card, len(numbers))
                codes[row] = code
            known = self._divided[resource, held] = _Divided(codes, list(numbers))
        return known

    def divides(self, resource: str) -> bool:
        """Whether nodes name the model of the cards that a resource divides, or have to: whether its parts count."""
        return self.card_resources.known or bool(self._divided_cards(resource, False).cards)

    def is_divided(self, card: str) -> bool:
        """Whether requests determine the name of a card: no resource of a node counts it alone."""
        return kind_of(card) in self.card_resources.kinds or card not in self._codes

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

    def product_label(self, resource: str) -> str:
        """Returns the label that names the cards of a resource."""
        return product_label(resource, self.card_resources.vendor_of_parts(resource))

    @property
    def names(self) -> Sequence[str]:
        """Names of cards by code, without those of parts that requests determine."""
        return self._names

    def amounts(self, nodes: Nodes, dimensions: Dimensions, listed: Iterable[str] = ()) -> dict[str, float]:
        """Returns how many allocatable cards of each name the nodes have, in thousandths. ``listed``: as for
        ``sums``."""
        return self.sums(dimensions, lambda position: nodes.allocatable[position], listed)

    def sums(
        self, dimensions: Dimensions, amounts: Callable[[int], Column], listed: Iterable[str] = ()
    ) -> dict[str, float]:
        """Returns the sum of each card over all nodes. ``amounts``: returns the amounts of the resource at a position,
        shape (nodes,). ``listed``: names of cards; of those that requests determine, the sum is what the nodes could
        have if they had no others."""
        sums = np.zeros(len(self._names))
        for resource, column in self._columns.items():
            position = dimensions.find(resource)
            if position is not None:
                codes = column.codes[:-1]
                has = codes >= 0
                sums += np.bincount(codes[has], weights=amounts(position)[has], minlength=len(sums))
        found = dict(zip(self._names, sums.tolist(), strict=True))
        for name in listed if self.card_resources.parts else ():
            if PART in name or name not in found:
                found[name] = found.get(name, 0.0) + self._possible_parts(name, dimensions, amounts)
        return found

    def _possible_parts(self, name: str, dimensions: Dimensions, amounts: Callable[[int], Column]) -> float:
        """Returns how many cards of one name the nodes could have that divide cards on demand, in thousandths."""
        model, _, part = name.partition(PART)
        kind, total = kind_of(name), 0
        counted = np.zeros(len(self._rows), dtype=bool)
        """The nodes that are counted: two plugins may divide the cards of one."""
        for parts in self.card_resources.parts:
            if kind is not None and kind not in parts.kinds:
                continue
            columns = [None if (d := dimensions.find(r)) is None else amounts(d) for r in parts.counted]
            for resource in parts.vendors:
                divided = self._divided_cards(resource, False)
                for code, card in enumerate(divided.cards):
                    has = (divided.codes[:-1] == code) & ~counted
                    if card.model != model or not has.any():
                        continue
                    counted |= has
                    nothing = [0.0] * int(has.sum())
                    of_nodes = (nothing if column is None else column[has].tolist() for column in columns)
                    for row, number in Counter(zip(*of_nodes, strict=True)).items():
                        of_node = {r: int(a // MILLI) for r, a in zip(parts.counted, row, strict=True)}
                        total += number * parts.count(part, dict(card.labels), of_node)
        return float(total * MILLI)

    def nodes_with(self, cards: Iterable[str]) -> NDArray[np.bool_]:
        """Returns which nodes have one of the cards, whatever resource counts them; shape (nodes,)."""
        wanted = tuple(cards)
        result = np.zeros(len(self._no_cards) - 1, dtype=bool)
        for column in self._columns.values():
            result |= column.passes(wanted)
        return result

    def counts_cards(self, resource: str) -> bool:
        """Whether a resource counts cards: by its name, or because labels of a node say so."""
        return resource in self.by_resource or resource in self._described or self.card_resources.count(resource)

    def may_count(self, resource: str, card: str) -> bool:
        """Whether a resource may count a card: if nodes or the name of the card do not say which resources do, any that
        counts whole cards of its vendor."""
        known = self.resources_of(card)
        if known:
            return resource in known
        if shared(resource) or title_of(card) != WHOLE_CARD:
            return False
        vendor = vendor_of(card)
        domain = self.card_resources.vendor_of_parts(resource) or resource.partition("/")[0]
        return not vendor or vendor == VENDORS.get(domain, vendor if vendor not in VENDORS.values() else "")

    def resources_of(self, card: str) -> frozenset[str]:
        """Returns the resources that count a card, on nodes or judging by its name; empty if unknown."""
        known = self._resources.get(card, ())
        kind, part = kind_of(card), card.partition(PART)[2]
        if kind is None or (known and kind not in self.card_resources.kinds):
            return frozenset(known)
        if kind is MPS:
            return frozenset((MPS_RESOURCE,))
        if kind is MIG:
            return frozenset((f"{MIG_PREFIX}{part.removeprefix(MIG.part('')).removesuffix('-mixed')}",))
        found = {name for parts in self.card_resources.parts if kind in parts.kinds for name in parts.vendors}
        if kind is VNPU:
            found.update(static_resources(part.removeprefix(VNPU.part(""))))
        return frozenset(found.union(known))

    def canonical(self, name: str) -> str:
        """Returns the name on nodes of the card that a user calls ``name``; the name itself if no node has the card.
        ``Ascend-910B3`` is ``Ascend910B3``, where no node calls its cards so."""
        if name in self._codes:
            return name
        name = normal_name(name)
        model, slash, part = name.partition(PART)
        if model not in self._models and model.startswith(f"{_ASCEND}-"):
            without = f"{_ASCEND}{model.removeprefix(f'{_ASCEND}-')}"
            return f"{without}{slash}{part}" if without in self._models else name
        size = MPS.size_of(part) if self._mps else None
        if size is None:
            return name
        asked = int(size[1])
        near = [
            (abs(memory - asked), card)
            for memory, card in self._mps.get((model, size[2]), ())
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
        keys = tuple(sorted(card_resources.labels))
        for name, node in zip(facts.names, facts.objects, strict=True):
            known = None if last is None else last.read.get(name)
            if known is None or known[0] is not node:
                cards = _read_like(alike, keys, name, node, card_resources)
                known = (node, known[1] if known is not None and known[1] == cards else cards)
            read[name] = known
        rows = [cards for _, cards in read.values()]
        same = last is not None and last.facts.names == facts.names and _identical(rows, last.rows)
        return _Kept(
            facts, read, rows, last.inventory if last is not None and same else CardInventory(rows, card_resources)
        )

    return memory.memo(CardInventory, (facts,), discover, card_resources).inventory


def _read_like(
    alike: dict[Hashable, NodeCards], keys: Sequence[str], name: str, node: Node, card_resources: CardResources
) -> NodeCards:
    """Returns the cards of a node. ``alike``: the labels and resources of nodes without problems -> their cards, shared
    by all nodes that have the same. ``keys``: the labels that count besides those with the name of a field."""
    labels, resources = node.metadata.labels or {}, tuple(node.status.allocatable or ())
    described = [label for label in labels.items() if label[0].endswith(FIELDS)]
    key = (tuple(described), labels.get(MPS_REPLICAS), resources, tuple(map(labels.get, keys)))
    cards = alike.get(key)
    if cards is None:
        cards = read_cards(name, labels, resources, card_resources)
        if not cards.problems:
            alike[key] = cards
    return cards


def _identical(left: Sequence[NodeCards], right: Sequence[NodeCards]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
