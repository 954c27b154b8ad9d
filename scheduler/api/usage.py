"""Measured usage of nodes, from a monitoring system: one average per node and resource, with its time."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column

PERIOD: Final = "10m"
"""Period of the averages, as in Volcano's names of them."""
STALE: Final = 300.0
"""A measurement of this age in seconds, or older, is ignored."""


class NodeUsage(msgspec.Struct, frozen=True):
    """The average usage of one node."""

    cpu: float
    """The used part of all cpus, in per cent."""
    memory: float
    """The used part of the memory, in per cent."""
    moment: float
    """Unix time of the measurement, in seconds."""


class UsageColumns(msgspec.Struct, frozen=True, eq=False):
    """The usage of all nodes. Each column has the shape (nodes,), in the order of the rows."""

    cpu: Column
    """The used part of the cpus of each node, in per cent; 0 without a measurement. ``memory`` likewise."""
    memory: Column
    moment: Column
    """Unix time in seconds; minus infinity without a measurement."""

    @classmethod
    def of(cls, names: Sequence[str], usages: Mapping[str, NodeUsage]) -> "UsageColumns":
        unknown = NodeUsage(0.0, 0.0, -np.inf)
        found = [usages.get(name, unknown) for name in names]
        return cls(
            np.array([usage.cpu for usage in found], dtype=np.float64),
            np.array([usage.memory for usage in found], dtype=np.float64),
            np.array([usage.moment for usage in found], dtype=np.float64),
        )

    def known(self, now: float) -> NDArray[np.bool_]:
        """Shape (nodes,): the nodes with a recent measurement."""
        recent: NDArray[np.bool_] = now - self.moment <= STALE
        return recent
