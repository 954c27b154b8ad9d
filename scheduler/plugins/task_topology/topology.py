"""What a PodGroup says of its roles: which attract and which repel each other, and which come first.

``ps,worker;evaluator`` are two sets: the roles of a set attract (or repel) each other, a role alone in a set its own
kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER

_SELF_ANTI, _INTER, _SELF, _INTER_ANTI = 4, 3, 2, 1
"""Roles with stricter wishes are placed first."""


class TopologyError(ValueError):
    """An annotation cannot be used; ``field`` names it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.field = f"metadata.annotations[{key}]"


@dataclass(slots=True)
class Topology:
    """The wishes of one job."""

    near: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of roles that attract each other, in both orders; a role with itself."""
    apart: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of roles that repel each other."""
    strictness: dict[str, int] = field(default_factory=dict)
    """Of every role that has a wish."""
    order: dict[str, int] = field(default_factory=dict)
    """Larger comes first."""

    def precedence(self, role: str) -> tuple[int, int]:
        """Smaller comes first: the order that is written, then strictness."""
        return (-self.order.get(role, 0), -self.strictness.get(role, 0))

    def attraction(self, role: str, others: Mapping[str, int]) -> int:
        """How many of the others (role -> number) attract a task of the role, less those that repel it."""
        return sum(
            number * (((role, other) in self.near) - ((role, other) in self.apart)) for other, number in others.items()
        )

    def repulsion(self, role: str, others: Mapping[str, int]) -> int:
        """How many of the others repel a task of the role."""
        return sum(number for other, number in others.items() if (role, other) in self.apart)


_SETS: Final = (TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY)


def read_topology(job: Job) -> Topology | None:
    """The wishes in the annotations of a PodGroup, or None. Raises TopologyError if a role is not one of the job's, or
    is named twice in a set."""
    if not any(key in job.annotations for key in (*_SETS, TASK_TOPOLOGY_TASK_ORDER)):
        return None
    roles = {task.role for task in job.tasks()}
    topology = Topology()
    for names in _sets(job, TASK_TOPOLOGY_AFFINITY, roles):
        _wish(topology, names, topology.near, _SELF if len(names) == 1 else _INTER)
    for names in _sets(job, TASK_TOPOLOGY_ANTI_AFFINITY, roles):
        _wish(topology, names, topology.apart, _SELF_ANTI if len(names) == 1 else _INTER_ANTI)
    order = _names(job, TASK_TOPOLOGY_TASK_ORDER, job.annotations.get(TASK_TOPOLOGY_TASK_ORDER, ""), roles)
    topology.order = {role: len(order) - i for i, role in enumerate(order)}
    return topology


def _wish(topology: Topology, names: list[str], pairs: set[tuple[str, str]], strictness: int) -> None:
    pairs.update((a, b) for a in names for b in names if a != b or len(names) == 1)
    for role in names:
        topology.strictness[role] = max(topology.strictness.get(role, 0), strictness)


def _sets(job: Job, key: str, roles: set[str]) -> list[list[str]]:
    sets = (_names(job, key, text, roles) for text in job.annotations.get(key, "").split(";"))
    return [names for names in sets if names]


def _names(job: Job, key: str, text: str, roles: set[str]) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in roles:
            raise TopologyError(key, f"no Pod of the job has the role {name!r:.66}")
        if names.count(name) > 1:
            raise TopologyError(key, f"role {name!r:.66} is named twice")
    return names
