"""The dominant share: the largest ratio of an amount to the cluster total of any resource (including ``pods``)."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.node import Column
from scheduler.api.resource import SMALLEST, Vector

TOLERANCE = 1e-6
"""Shares that differ by at most this count as equal."""


class Shares:
    """Dominant shares in one cluster. Resources that the cluster does not have are ignored."""

    def __init__(self, total: Vector) -> None:
        """``total``: the total of all nodes."""
        self.dims: NDArray[np.intp] = np.flatnonzero(total >= SMALLEST)
        self.total: Vector = total[self.dims]

    def of(self, amount: Vector) -> float:
        """Returns the dominant share of an amount of all resources, 0 to 1."""
        return self.of_part(amount[self.dims])

    def of_part(self, amount: Vector) -> float:
        """Returns the dominant share of an amount that has only ``dims``."""
        return float((amount / self.total).max()) if len(self.dims) else 0.0

    def of_each(self, amounts: Column) -> list[float]:
        """Returns the dominant shares of ``amounts``, shape (amounts, resources)."""
        if not len(self.dims):
            return [0.0] * len(amounts)
        shares: list[float] = (amounts[:, self.dims] / self.total).max(axis=1).tolist()
        return shares


class JobShares:
    """Namespace, name and dominant share of jobs at the time of construction; computed on iteration."""

    def __init__(self, shares: Shares, jobs: Iterable[Job]) -> None:
        self._shares = shares
        self._held = [(job.namespace, job.name, job.allocated, job.pipelined) for job in jobs]

    def __iter__(self) -> Iterator[tuple[str, str, float]]:
        if not self._held:
            return
        namespaces, names, allocated, pipelined = zip(*self._held, strict=True)
        amounts = (np.concatenate(allocated) + np.concatenate(pipelined)).reshape(len(names), -1)
        yield from zip(namespaces, names, self._shares.of_each(amounts), strict=True)


def at_least(share: float, other: float) -> bool:
    """Whether a share is greater than another, or equal within the tolerance."""
    return share > other or abs(share - other) <= TOLERANCE
