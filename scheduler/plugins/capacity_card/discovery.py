"""The accelerator cards of a node, determined from its labels and its allocatable resources.

A node has the labels ``<vendor domain>/<type>.product``, ``.count`` and ``.memory`` (MiB). The product is the name of
its whole cards. Cards that are shared by MPS or partitioned by MIG have other names:

* MPS, resource ``nvidia.com/gpu.shared``: ``<product>/mps-<memory>g*1/<replicas>``, the memory of the whole card in
  GiB, rounded to the nearest one (81559 MiB: ``mps-80g``)
* MIG, resource ``nvidia.com/mig-<profile>``: ``<product>/mig-<profile>-mixed``

Users write the memory of one card as 90, 95, 96 or 97 g, depending on the unit and the rounding. A name that
differs from the node's only in the memory, and by at most a tenth of it, therefore means the same card (``canonical``).
The number of cards is the allocatable amount of the node (``Nodes.allocatable``), never the count label.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import MPS_REPLICAS
from scheduler.api.node import Codes, NodeFacts, Nodes
from scheduler.api.objects import Node
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions

NVIDIA: Final = "nvidia.com"
MPS_RESOURCE: Final = f"{NVIDIA}/gpu.shared"
MIG_PREFIX: Final = f"{NVIDIA}/mig-"
_FIELDS: Final = (".product", ".count", ".memory")
_PRODUCT: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]{1,12}")
_MPS_NAME: Final = re.compile(r"(.+)/mps-([0-9]{1,9})g\*1/([0-9]{1,9})")
_MIG_NAME: Final = re.compile(r".+/mig-(.+)-mixed")
TOLERANCE: Final = 0.1
"""Largest relative difference between two values for the memory of one card."""


class NodeCards(msgspec.Struct, frozen=True):
    """The cards of one node."""

    by_resource: Mapping[str, str]
    """Resource name -> name of the card that it counts there."""
    problems: tuple[Malformed, ...] = ()


NO_CARDS: Final = NodeCards({})


def read_node(name: str, labels: Mapping[str, str], resources: Iterable[str]) -> NodeCards:
    """Returns the cards of a node with these labels and allocatable resources. Invalid labels are ignored and reported
    in ``problems``."""
    families: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in labels.items():
        if not key.endswith(_FIELDS):
            continue
        head, _, field = key.rpartition(".")
        vendor, _, kind = head.rpartition("/")
        if vendor and kind and not kind.startswith("mig-"):  # labels of MIG profiles describe no separate card
            families.setdefault((vendor, kind), {})[field] = value
    if not families:
        return NO_CARDS
    offered = sorted(resources)
    found: dict[str, str] = {}
    problems: list[Malformed] = []

    def set_aside(label: str, problem: str) -> None:
        problems.append(Malformed("Node", "", name, f"metadata.labels[{label}]", problem))

    for (vendor, kind), fields in sorted(families.items()):
        label = f"{vendor}/{kind}"
        product = fields.get("product")
        if product is None:
            if len(fields) == 2:  # a single label of this form may mean something else
                set_aside(f"{label}.product", "missing, though the card's count and memory are given")
            continue
        if len(fields) == 1:
            continue
        if _PRODUCT.fullmatch(product) is None:
            set_aside(f"{label}.product", f"{product[:64]!r} is not the name of a card")
            continue
        for field in ("count", "memory"):
            if field in fields and _NUMBER.fullmatch(fields[field]) is None:
                set_aside(f"{label}.{field}", f"{fields[field][:64]!r} is not a whole number")
        for resource in _whole_card_resources(vendor, label, offered):
            found.setdefault(resource, product)
        if vendor != NVIDIA:
            continue
        for resource in offered:
            if resource.startswith(MIG_PREFIX):
                found.setdefault(resource, f"{product}/mig-{resource.removeprefix(MIG_PREFIX)}-mixed")
        if MPS_RESOURCE in offered:
            memory, replicas = fields.get("memory", ""), labels.get(MPS_REPLICAS, "")
            if not _positive(replicas):
                problem = f"{replicas[:64]!r} is not a number of shares, the node's MPS cards have no name"
                set_aside(MPS_REPLICAS, problem)
            elif not _positive(memory):
                set_aside(f"{label}.memory", "no usable number, the node's MPS cards have no name")
            else:
                found.setdefault(MPS_RESOURCE, f"{product}/mps-{(int(memory) + 512) // 1024}g*1/{int(replicas)}")
    return NodeCards(found, tuple(problems))


def _whole_card_resources(vendor: str, exact: str, offered: Sequence[str]) -> list[str]:
    """Returns the resources that count whole cards: the one with the name of the labels, else all resources of the
    vendor that do not count shares."""
    if exact in offered and not _shared(exact):
        return [exact]
    return [r for r in offered if r.startswith(f"{vendor}/") and not _shared(r)]


def _shared(resource: str) -> bool:
    return resource == MPS_RESOURCE or resource.startswith(MIG_PREFIX)


def _positive(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and int(text) > 0


class Inventory:
    """The cards of all nodes. Immutable. The object stays the same as long as the cards of all nodes do."""

    def __init__(self, rows: Sequence[NodeCards]) -> None:
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
        """Shape (nodes,): ``code`` of the card that a resource counts on each node; -1 if it counts none."""
        return self._columns.get(resource, self._no_cards)[:-1]

    def codes_on(self, resource: str, rows: Sequence[int]) -> Codes:
        """Returns ``column`` at the given rows; the row -1 is a node that is not in the session."""
        codes: Codes = self._columns.get(resource, self._no_cards)[np.array(rows, dtype=np.intp)]
        return codes

    def code(self, card: str) -> int:
        """The code of a card in columns; -2, which no column contains, if no node has the card."""
        return self._codes.get(card, -2)

    @property
    def names(self) -> Sequence[str]:
        """Names of cards by code."""
        return self._names

    def amounts(self, nodes: Nodes, dimensions: Dimensions) -> dict[str, float]:
        """Returns how many allocatable cards of each name the nodes have, in thousandths."""
        sums = np.zeros(len(self._names))
        for resource, codes in self._columns.items():
            position = dimensions.find(resource)
            if position is not None:
                has = codes[:-1] >= 0
                weights = nodes.allocatable[position][has]
                sums += np.bincount(codes[:-1][has], weights=weights, minlength=len(sums))
        return dict(zip(self._names, sums.tolist(), strict=True))

    def nodes_with(self, cards: Iterable[str], resource: str | None = None) -> NDArray[np.bool_]:
        """Shape (nodes,): which nodes have one of the cards (counted by ``resource``, or by any)."""
        wanted = [self.code(card) for card in cards]
        result = np.zeros(len(self._no_cards) - 1, dtype=bool)
        for name in self._columns if resource is None else (resource,):
            result |= np.isin(self.column(name), wanted)
        return result

    def counts_cards(self, resource: str) -> bool:
        """Whether a resource counts cards, on some node or judging by its name."""
        return resource in self.by_resource or _shared(resource)

    def resources_of(self, card: str) -> frozenset[str]:
        """The resources that count a card, on nodes or judging by its name; empty if unknown."""
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


class _CachedNodes(msgspec.Struct, frozen=True):
    """The nodes of the last session and their cards."""

    facts: NodeFacts | None
    read: Mapping[str, tuple[Node, NodeCards]]
    rows: Sequence[NodeCards]
    inventory: Inventory


class Discovery:
    """Computes the inventory of each session. A node is read again only if its object has changed."""

    def __init__(self) -> None:
        self._last = _CachedNodes(None, {}, [], Inventory(()))

    def of(self, facts: NodeFacts) -> Inventory:
        """Returns the inventory of the nodes; the previous object if no card has changed."""
        last = self._last
        if facts is last.facts:
            return last.inventory
        read: dict[str, tuple[Node, NodeCards]] = {}
        alike: dict[Hashable, NodeCards] = {}
        for name, node in zip(facts.names, facts.objects, strict=True):
            known = last.read.get(name)
            if known is None or known[0] is not node:
                cards = _read_like(alike, name, node)
                known = (node, known[1] if known is not None and known[1] == cards else cards)
            read[name] = known
        rows = [cards for _, cards in read.values()]
        same = last.facts is not None and last.facts.names == facts.names and _identical(rows, last.rows)
        inventory = last.inventory if same else Inventory(rows)
        self._last = _CachedNodes(
            facts, read, rows, inventory
        )  # one assignment, because sessions may run in several threads
        return inventory


def _read_like(alike: dict[Hashable, NodeCards], name: str, node: Node) -> NodeCards:
    """Returns the cards of a node. ``alike``: the labels and resources of nodes without problems -> their cards, shared
    by all nodes that have the same."""
    labels, resources = node.metadata.labels or {}, tuple(node.status.allocatable or ())
    described = [label for label in labels.items() if label[0].endswith(_FIELDS)]
    if not described:
        return NO_CARDS
    key = (tuple(described), labels.get(MPS_REPLICAS), resources)
    cards = alike.get(key)
    if cards is None:
        cards = read_node(name, labels, resources)
        if not cards.problems:
            alike[key] = cards
    return cards


def _identical(left: Sequence[NodeCards], right: Sequence[NodeCards]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))
