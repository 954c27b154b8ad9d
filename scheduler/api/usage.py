"""How busy nodes are, as some monitoring system has measured it: one figure per node and resource, and since when."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.node import Column

PERIOD: Final = "10m"
"""Over which the figures are averages, as Volcano's names for them say."""
STALE: Final = 300.0
"""Seconds after which a figure says nothing any more."""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """One node's average load."""

    cpu: float
    """Per cent of all cpus."""
    memory: float
    """Per cent."""
    moment: float
    """When it was measured, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, eq=False)
class UsageColumns:
    """The loads of all nodes; each column of shape (nodes,), in the order of the nodes' rows."""

    cpu: Column
    """Per cent; 0 where nothing is known."""
    memory: Column
    moment: Column
    """Minus infinity where nothing is known."""

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
        """Shape (nodes,): whose load was measured recently."""
        recent: NDArray[np.bool_] = now - self.moment <= STALE
        return recent
