"""The dominant share: the largest part that an amount is of any resource of the cluster (``pods`` included)."""

import numpy as np
from numpy.typing import NDArray

from scheduler.api.resource import SMALLEST, Vector

CLOSE_ENOUGH = 1e-6
"""Shares that differ by no more are equal."""


class Shares:
    """Dominant shares in one cluster; amounts it does not have at all are left out."""

    def __init__(self, total: Vector) -> None:
        """``total``: what all nodes together have."""
        self.dims: NDArray[np.intp] = np.flatnonzero(total >= SMALLEST)
        self.total: Vector = total[self.dims]

    def of(self, amount: Vector) -> float:
        """The dominant share of an amount of all resources, 0 to 1."""
        return self.of_part(amount[self.dims])

    def of_part(self, amount: Vector) -> float:
        """The same of an amount of ``dims`` alone."""
        return float((amount / self.total).max()) if len(self.dims) else 0.0


def at_least(share: float, other: float) -> bool:
    """Whether a share is as large as another, or as good as."""
    return share > other or abs(share - other) <= CLOSE_ENOUGH
