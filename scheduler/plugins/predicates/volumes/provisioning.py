"""Where volumes can be made: the topologies that a storage class allows, and what its driver says is left there."""

import numpy as np

from scheduler.api.kinds import STORAGE_CAPACITY
from scheduler.api.names import NO_PROVISIONER
from scheduler.api.node import Codes, Column
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.snapshot import Snapshot
from scheduler.api.storage import CsiStorageCapacity
from scheduler.plugins.predicates.volumes.claims import Wanted
from scheduler.plugins.predicates.volumes.complaints import Complaints
from scheduler.plugins.predicates.volumes.reach import Topology

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_STORAGE = "node(s) did not have enough free storage"
REASONS = (NO_VOLUME, NOT_ENOUGH_STORAGE)
"""By code."""


class Provisioning:
    """Where a volume could be made for a claim; for one session."""

    def __init__(self, snapshot: Snapshot, topology: Topology, complaints: Complaints) -> None:
        self._snapshot = snapshot
        self._topology = topology
        self._complaints = complaints
        self._codes: dict[tuple[str, int, bool], Codes] = {}
        self._left: dict[tuple[str, int], Column] = {}
        self._capacities: dict[str, list[CsiStorageCapacity]] | None = None

    def codes(self, wanted: Wanted) -> Codes:
        """Shape (nodes,): why no volume can be made for a node, as a place in REASONS, or -1."""
        key = (wanted.storage_class, wanted.size, bool(wanted.reserved))
        codes = self._codes.get(key)
        if codes is None:
            codes = self._codes[key] = self._find(wanted)
        return codes

    def _find(self, wanted: Wanted) -> Codes:
        nodes = len(self._topology.facts)
        storage = self._snapshot.storage_classes.get(wanted.storage_class)
        if storage is None or wanted.reserved or storage.provisioner in ("", NO_PROVISIONER):
            return np.zeros(nodes, dtype=np.int32)
        codes: Codes = np.full(nodes, -1, dtype=np.int32)
        left = self.left(wanted)
        if left is not None:
            codes[left == 0] = REASONS.index(NOT_ENOUGH_STORAGE)
        allowed = self._topology.of_topologies(storage.allowed_topologies)
        if allowed is not None:
            codes[~allowed] = REASONS.index(NO_VOLUME)
        return codes

    def left(self, wanted: Wanted) -> Column | None:
        """Shape (nodes,): bytes of which such a volume could be made, 0 where it could not; None: nobody says."""
        storage = self._snapshot.storage_classes.get(wanted.storage_class)
        driver = self._snapshot.csi_drivers.get(storage.provisioner) if storage is not None else None
        if not wanted.size or driver is None or not driver.spec.storage_capacity:
            return None
        key = (wanted.storage_class, wanted.size)
        left = self._left.get(key)
        if left is None:
            left = self._left[key] = self._add_up(wanted)
        return left

    def _add_up(self, wanted: Wanted) -> Column:
        """The first capacity by name that is enough, for each node."""
        if self._capacities is None:
            self._capacities = {}
            for _, capacity in sorted(self._snapshot.storage_capacities.items(), reverse=True):
                self._capacities.setdefault(capacity.storage_class_name, []).append(capacity)
        left: Column = np.zeros(len(self._topology.facts))
        for capacity in self._capacities.get(wanted.storage_class, ()):
            largest = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
            try:
                enough = largest is not None and parse_quantity(largest) >= wanted.size
                amount = max(parse_quantity(capacity.capacity or 0), 1)
            except QuantityError as error:
                self._complaints.about(STORAGE_CAPACITY, capacity)("capacity", str(error))
                continue
            if enough:
                report = self._complaints.about(STORAGE_CAPACITY, capacity, "nodeTopology: ")
                left[self._topology.of_labels(capacity.node_topology, report)] = amount
        return left
