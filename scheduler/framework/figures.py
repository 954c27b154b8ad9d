"""What plugins know of queues, jobs and namespaces and others want to see: shares, limits, what is deserved.

A plugin answers FIGURES with one value once the actions are done. Decisions do not depend on it. What it holds does not
change any more, so it may be read while the next session runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.api.resource import Vector


class QueueFigures(Protocol):
    """One queue, as the plugin sees it that divides the cluster among queues."""

    @property
    def share(self) -> float:
        """The largest part in use of what it deserves of any resource."""

    @property
    def overused(self) -> bool:
        """It has all that it deserves (proportion), or more (capacity)."""

    @property
    def request(self) -> Vector:
        """What its jobs held and waited for when the session was opened; in a hierarchy, those of queues below it
        too."""

    @property
    def allocated(self) -> Vector:
        """What they hold or were promised."""

    @property
    def deserved(self) -> Vector: ...

    @property
    def limit(self) -> Vector:
        """The most it may have (Volcano's realCapability)."""

    @property
    def inqueue(self) -> Vector:
        """What jobs that were let in still lack of their minimum."""


@dataclass(frozen=True, slots=True)
class NamespaceFigures:
    """One namespace among others."""

    share: float
    """Its dominant share of the cluster, 0 to 1."""
    weight: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What one plugin has to tell, by name."""

    queues: Mapping[str, QueueFigures] = field(default_factory=dict)
    jobs: Iterable[tuple[str, str, float]] = ()
    """Namespace, name and dominant share of each job; may be gone through again and again."""
    namespaces: Mapping[str, NamespaceFigures] = field(default_factory=dict)
