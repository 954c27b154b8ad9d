"""The nodes from which volumes are accessible (by node affinity and zone labels), and those for which volumes can be
provisioned (by the allowed topologies of the storage class, and by the storage capacity that its driver publishes).

Each distinct requirement is evaluated once: volumes with the same requirement share one ``NodeSet`` object.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from scheduler.api.kinds import CSI_DRIVER, STORAGE_CAPACITY, STORAGE_CLASS
from scheduler.api.names import NO_PROVISIONER, REGION_LABELS, ZONE_LABELS
from scheduler.api.node import Codes, Column, Mask, NodeFacts, Rows
from scheduler.api.objects import LabelSelector, NodeSelectorTerm, Requirement
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.selectors import FieldReporter, nodes_of_term, nodes_of_terms
from scheduler.api.snapshot import Snapshot
from scheduler.api.storage import CsiStorageCapacity, PersistentVolume, TopologyTerm
from scheduler.plugins.predicates.volumes.claims import ClaimRequest, ObjectReporters

Zones = tuple[tuple[str, str], ...]
"""The zone and region labels of a volume: (key, values joined by ``__``), in the order of evaluation."""


class NodeSet:
    """The nodes from which a volume is accessible, as rows in ascending order. Compared by identity."""

    __slots__ = ("rows",)

    def __init__(self, rows: Rows) -> None:
        self.rows = rows


class VolumeTopology:
    """Evaluates requirements on the nodes of one session."""

    def __init__(self, facts: NodeFacts) -> None:
        self.facts = facts
        self.everywhere = NodeSet(np.arange(len(facts), dtype=np.intp))
        self.nowhere = NodeSet(np.empty(0, dtype=np.intp))
        self._cached: dict[object, NodeSet] = {}

    def mask(self, nodes: NodeSet) -> Mask:
        """Converts a node set to a mask of shape (nodes,)."""
        mask = np.zeros(len(self.facts), dtype=bool)
        mask[nodes.rows] = True
        return mask

    # --- volumes ---
    def of_volume(self, volume: PersistentVolume, report: FieldReporter) -> NodeSet:
        """The nodes that match a volume's node affinity."""
        required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
        if required is None:
            return self.everywhere
        terms = required.node_selector_terms
        one_label = _values_of_one_label(terms)
        if one_label is not None:
            return self._intern(one_label, lambda: self._with_any(*one_label))
        return self._intern(
            msgspec.json.encode(terms), lambda: np.flatnonzero(nodes_of_terms(self.facts, terms, report))
        )

    def interned(self, rows: Rows) -> NodeSet:
        """The node set of rows in ascending order."""
        return self._intern(("rows", rows.tobytes()), lambda: rows)

    def single(self, row: int) -> NodeSet:
        return self._intern(("row", row), lambda: np.array([row], dtype=np.intp))

    def _intern(self, key: object, find: Callable[[], Rows]) -> NodeSet:
        nodes = self._cached.get(key)
        if nodes is None:
            nodes = self._cached[key] = NodeSet(find())
        return nodes

    def _with_any(self, key: str, values: Sequence[str]) -> Rows:
        if len(values) == 1:
            return self.facts.rows_with(key, values[0])
        rows: Rows = np.unique(np.concatenate([self.facts.rows_with(key, value) for value in values]))
        return rows

    def in_zones(self, zones: Zones) -> Mask:
        """The nodes in the zones and regions that a volume's labels name.

        A volume may have the deprecated labels while nodes have only the current ones. Nodes without any of these
        labels always match.
        """
        facts = self.facts
        labelled = [facts.label_column(key)[0] >= 0 for key in (*ZONE_LABELS, *REGION_LABELS)]
        zoneless: Mask = ~np.logical_or.reduce(labelled)
        mask = np.ones(len(facts), dtype=bool)
        for key, joined in zones:
            current = next(pair[0] for pair in (ZONE_LABELS, REGION_LABELS) if key in pair)
            mask &= self._labelled(key, joined.split("__"), fallback=current)
        return mask | zoneless

    def _labelled(self, key: str, allowed: Sequence[str], fallback: str) -> Mask:
        """The nodes whose label, or else the label ``fallback``, has one of the values."""
        here = self.mask(NodeSet(self._with_any(key, allowed)))
        if fallback != key:
            here |= (self.facts.label_column(key)[0] < 0) & self._labelled(fallback, allowed, fallback)
        return here

    # --- provisioning ---
    def of_topologies(self, terms: Iterable[TopologyTerm] | None) -> Mask | None:
        """The nodes in the ``allowedTopologies`` of a storage class; None if all nodes are allowed."""
        listed = list(terms or ())
        if not listed:
            return None
        mask = np.zeros(len(self.facts), dtype=bool)
        for term in listed:
            here = np.ones(len(self.facts), dtype=bool)
            for requirement in term.match_label_expressions or ():
                here &= self.mask(NodeSet(self._with_any(requirement.key, requirement.values or [""])))
            mask |= here
        return mask

    def of_labels(self, selector: LabelSelector | None, report: FieldReporter) -> Rows:
        """The rows of the nodes that match a label selector. A selector of None matches no node, an empty selector
        all."""
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
    """The zone and region labels of a volume."""
    labels = volume.metadata.labels or {}
    return tuple((key, labels[key]) for key in (*ZONE_LABELS, *REGION_LABELS) if key in labels)


def _values_of_one_label(terms: Sequence[NodeSelectorTerm]) -> tuple[str, tuple[str, ...]] | None:
    """The key and values of a requirement that one label has one of several values, which most volumes have; None for
    other requirements."""
    expressions = (terms[0].match_expressions or []) if len(terms) == 1 else []
    if len(expressions) != 1 or terms[0].match_fields:
        return None
    requirement = expressions[0]
    if requirement.operator != "In" or not requirement.values:
        return None
    return requirement.key, tuple(requirement.values)


NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_STORAGE = "node(s) did not have enough free storage"
REASONS = (NO_VOLUME, NOT_ENOUGH_STORAGE)
"""Indexed by code."""


class Provisioning:
    """The nodes for which volumes can be provisioned, in one session."""

    def __init__(self, snapshot: Snapshot, topology: VolumeTopology, reporters: ObjectReporters) -> None:
        self._snapshot = snapshot
        self._topology = topology
        self._reporters = reporters
        self._codes: dict[tuple[str, int, bool], Codes] = {}
        self._free: dict[tuple[str, int], Column] = {}
        self._capacities: dict[str, list[CsiStorageCapacity]] | None = None

    def codes(self, request: ClaimRequest) -> Codes:
        """Shape (nodes,): why no volume can be provisioned for a node (index in REASONS), or -1."""
        key = (request.storage_class, request.size, bool(request.prebound))
        codes = self._codes.get(key)
        if codes is None:
            codes = self._codes[key] = self._find(request)
        return codes

    def _find(self, request: ClaimRequest) -> Codes:
        nodes = len(self._topology.facts)
        storage = self._snapshot.objects[STORAGE_CLASS].get(request.storage_class)
        if storage is None or request.prebound or storage.provisioner in ("", NO_PROVISIONER):
            return np.zeros(nodes, dtype=np.int32)
        codes: Codes = np.full(nodes, -1, dtype=np.int32)
        free = self.free_capacity(request)
        if free is not None:
            codes[free == 0] = REASONS.index(NOT_ENOUGH_STORAGE)
        allowed = self._topology.of_topologies(storage.allowed_topologies)
        if allowed is not None:
            codes[~allowed] = REASONS.index(NO_VOLUME)
        return codes

    def free_capacity(self, request: ClaimRequest) -> Column | None:
        """Shape (nodes,): the bytes from which the volume could be provisioned for each node; 0 if they are too few.
        None if the driver publishes no capacity."""
        storage = self._snapshot.objects[STORAGE_CLASS].get(request.storage_class)
        driver = self._snapshot.objects[CSI_DRIVER].get(storage.provisioner) if storage is not None else None
        if not request.size or driver is None or not driver.spec.storage_capacity:
            return None
        key = (request.storage_class, request.size)
        free = self._free.get(key)
        if free is None:
            free = self._free[key] = self._read_capacities(request)
        return free

    def _read_capacities(self, request: ClaimRequest) -> Column:
        """Returns the amount of the first CSIStorageCapacity, by name, that is large enough, for each node."""
        if self._capacities is None:
            self._capacities = {}
            for _, capacity in sorted(self._snapshot.objects[STORAGE_CAPACITY].items(), reverse=True):
                self._capacities.setdefault(capacity.storage_class_name, []).append(capacity)
        free: Column = np.zeros(len(self._topology.facts))
        for capacity in self._capacities.get(request.storage_class, ()):
            largest = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
            try:
                enough = largest is not None and parse_quantity(largest) >= request.size
                amount = max(parse_quantity(capacity.capacity or 0), 1)
            except QuantityError as error:
                self._reporters.reporter(STORAGE_CAPACITY, capacity)("capacity", str(error))
                continue
            if enough:
                report = self._reporters.reporter(STORAGE_CAPACITY, capacity, "nodeTopology: ")
                free[self._topology.of_labels(capacity.node_topology, report)] = amount
        return free
