"""From which nodes volumes can be reached, as rows: node affinity, zone labels, topologies of classes and capacities.

Volumes of one zone say the same, so each requirement is looked up once and its answer shared (``Reach`` is told apart
by identity).
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from scheduler.api.names import REGION_LABELS, ZONE_LABELS
from scheduler.api.node import Mask, NodeFacts, Rows
from scheduler.api.objects import LabelSelector, NodeSelectorTerm, Requirement
from scheduler.api.selectors import FieldReporter, nodes_of_term, nodes_of_terms
from scheduler.api.storage import PersistentVolume, TopologyTerm

Zones = tuple[tuple[str, str], ...]
"""(label, values joined by ``__``) of a volume, in the order in which they are looked at."""


class Reach:
    """The nodes from which a volume can be reached."""

    __slots__ = ("rows",)

    def __init__(self, rows: Rows) -> None:
        self.rows = rows


class Topology:
    """The nodes of one session by what is required of them."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self.everywhere = Reach(np.arange(len(facts), dtype=np.intp))
        self.nowhere = Reach(np.empty(0, dtype=np.intp))
        self._known: dict[object, Reach] = {}

    def mask(self, reach: Reach) -> Mask:
        """Shape (nodes,)."""
        mask = np.zeros(len(self.facts), dtype=bool)
        mask[reach.rows] = True
        return mask

    # --- volumes ---
    def of_volume(self, volume: PersistentVolume, report: FieldReporter) -> Reach:
        """The nodes that a volume's node affinity admits."""
        required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
        if required is None:
            return self.everywhere
        terms = required.node_selector_terms
        simple = _values_of_one_label(terms)
        if simple is not None:
            return self._reach(simple, lambda: self._with_any(*simple))
        return self._reach(
            msgspec.json.encode(terms), lambda: np.flatnonzero(nodes_of_terms(self.facts, terms, report))
        )

    def interned(self, rows: Rows) -> Reach:
        """The Reach of some rows, ascending."""
        return self._reach(("rows", rows.tobytes()), lambda: rows)

    def alone(self, row: int) -> Reach:
        return self._reach(("row", row), lambda: np.array([row], dtype=np.intp))

    def _reach(self, key: object, find: Callable[[], Rows]) -> Reach:
        reach = self._known.get(key)
        if reach is None:
            reach = self._known[key] = Reach(find())
        return reach

    def _with_any(self, key: str, values: Sequence[str]) -> Rows:
        if len(values) == 1:
            return self.facts.rows_with(key, values[0])
        rows: Rows = np.unique(np.concatenate([self.facts.rows_with(key, value) for value in values]))
        return rows

    def in_zones(self, zones: Zones) -> Mask:
        """Nodes in one of the zones (and regions) that a volume's labels name.

        A volume may carry the labels' old names where the nodes carry only the new ones. A node with none of these
        labels is in a cluster without zones, or knows nothing of them: it is not held to any.
        """
        facts = self.facts
        placed = [facts.label_column(key)[0] >= 0 for key in (*ZONE_LABELS, *REGION_LABELS)]
        zoneless: Mask = ~np.logical_or.reduce(placed)
        mask = np.ones(len(facts), dtype=bool)
        for key, joined in zones:
            current = next(pair[0] for pair in (ZONE_LABELS, REGION_LABELS) if key in pair)
            mask &= self._labelled(key, joined.split("__"), fallback=current)
        return mask | zoneless

    def _labelled(self, key: str, allowed: Sequence[str], fallback: str) -> Mask:
        """Nodes whose label, or ``fallback`` where they lack it, has one of the values."""
        here = self.mask(Reach(self._with_any(key, allowed)))
        if fallback != key:
            here |= (self.facts.label_column(key)[0] < 0) & self._labelled(fallback, allowed, fallback)
        return here

    # --- where volumes may be made ---
    def of_topologies(self, terms: Iterable[TopologyTerm] | None) -> Mask | None:
        """The nodes that a class may provision for (``allowedTopologies``); None: all."""
        listed = list(terms or ())
        if not listed:
            return None
        mask = np.zeros(len(self.facts), dtype=bool)
        for term in listed:
            here = np.ones(len(self.facts), dtype=bool)
            for requirement in term.match_label_expressions or ():
                here &= self.mask(Reach(self._with_any(requirement.key, requirement.values or [""])))
            mask |= here
        return mask

    def of_labels(self, selector: LabelSelector | None, report: FieldReporter) -> Rows:
        """The nodes whose labels meet a label selector; none meet no selector, all an empty one."""
        if selector is None:
            return np.empty(0, dtype=np.intp)
        labels, expressions = selector.match_labels or {}, selector.match_expressions or []
        if len(labels) == 1 and not expressions:
            ((key, value),) = labels.items()
            return self.facts.rows_with(key, value)
        required = [Requirement(key=key, operator="In", values=[value]) for key, value in labels.items()] + expressions
        if not required:
            return self.everywhere.rows
        term = NodeSelectorTerm(match_expressions=required)
        return np.flatnonzero(nodes_of_term(self.facts, term, report))


def zones_of(volume: PersistentVolume) -> Zones:
    """The zones and regions that a volume's labels name."""
    labels = volume.metadata.labels or {}
    return tuple((key, labels[key]) for key in (*ZONE_LABELS, *REGION_LABELS) if key in labels)


def _values_of_one_label(terms: Sequence[NodeSelectorTerm]) -> tuple[str, tuple[str, ...]] | None:
    """What most volumes require, that one label has one of some values; None: it is something else."""
    expressions = (terms[0].match_expressions or []) if len(terms) == 1 else []
    if len(expressions) != 1 or terms[0].match_fields:
        return None
    requirement = expressions[0]
    if requirement.operator != "In" or not requirement.values:
        return None
    return requirement.key, tuple(requirement.values)
