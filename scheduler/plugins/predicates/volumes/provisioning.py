"""The nodes for which a volume can be provisioned: by the allowed topologies of the storage class, and by the storage
capacity that its driver publishes."""

import numpy as np

from scheduler.api.kinds import CSI_DRIVER, STORAGE_CAPACITY, STORAGE_CLASS
from scheduler.api.names import NO_PROVISIONER
from scheduler.api.node import Codes, Column
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.snapshot import Snapshot
from scheduler.api.storage import CsiStorageCapacity
from scheduler.plugins.predicates.volumes.claims import ClaimRequest
from scheduler.plugins.predicates.volumes.object_reporters import ObjectReporters
from scheduler.plugins.predicates.volumes.topology import VolumeTopology

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
