"""The topology annotations of a PodGroup: affinity, anti-affinity and order of its roles.

``ps,worker;evaluator`` are two sets. Affinity (or anti-affinity) holds between the roles of a set; for a single role in
a set it holds between the tasks of this role.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER

_SELF_ANTI, _INTER, _SELF, _INTER_ANTI = 4, 3, 2, 1
"""Roles with stricter constraints are placed first."""


class TopologyError(ValueError):
    """An annotation is invalid; ``field`` names it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.field = f"metadata.annotations[{key}]"


@dataclass(slots=True)
class Topology:
    """The constraints of one job."""

    affinity: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of roles with affinity, in both orders; a role may be paired with itself."""
    anti_affinity: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of roles with anti-affinity."""
    strictness: dict[str, int] = field(default_factory=dict)
    """Strictness of every role with a constraint."""
    order: dict[str, int] = field(default_factory=dict)
    """Role -> precedence in the annotation; larger comes first."""

    def precedence(self, role: str) -> tuple[int, int]:
        """Returns a sort key: by the order in the annotation, then by strictness."""
        return (-self.order.get(role, 0), -self.strictness.get(role, 0))

    def attraction(self, role: str, others: Mapping[str, int]) -> int:
        """Returns how many of ``others`` (role -> number) have affinity to a role, minus those with anti-affinity."""
        return sum(
            number * (((role, other) in self.affinity) - ((role, other) in self.anti_affinity))
            for other, number in others.items()
        )

    def repulsion(self, role: str, others: Mapping[str, int]) -> int:
        """Returns how many of ``others`` have anti-affinity to a role."""
        return sum(number for other, number in others.items() if (role, other) in self.anti_affinity)


_SETS: Final = (TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY)


def read_topology(job: Job) -> Topology | None:
    """Reads the constraints from the annotations of a PodGroup; None if there are none. Raises TopologyError if the job
    has no Pod of a role, or if a set names a role twice."""
    if not any(key in job.annotations for key in (*_SETS, TASK_TOPOLOGY_TASK_ORDER)):
        return None
    roles = {task.role for task in job.tasks()}
    topology = Topology()
    for names in _sets(job, TASK_TOPOLOGY_AFFINITY, roles):
        _add_pairs(topology, names, topology.affinity, _SELF if len(names) == 1 else _INTER)
    for names in _sets(job, TASK_TOPOLOGY_ANTI_AFFINITY, roles):
        _add_pairs(topology, names, topology.anti_affinity, _SELF_ANTI if len(names) == 1 else _INTER_ANTI)
    order = _names(TASK_TOPOLOGY_TASK_ORDER, job.annotations.get(TASK_TOPOLOGY_TASK_ORDER, ""), roles)
    topology.order = {role: len(order) - i for i, role in enumerate(order)}
    return topology


def _add_pairs(topology: Topology, names: list[str], pairs: set[tuple[str, str]], strictness: int) -> None:
    pairs.update((a, b) for a in names for b in names if a != b or len(names) == 1)
    for role in names:
        topology.strictness[role] = max(topology.strictness.get(role, 0), strictness)


def _sets(job: Job, key: str, roles: set[str]) -> list[list[str]]:
    sets = (_names(key, text, roles) for text in job.annotations.get(key, "").split(";"))
    return [names for names in sets if names]


def _names(key: str, text: str, roles: set[str]) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in roles:
            raise TopologyError(key, f"no Pod of the job has the role {name!r:.66}")
        if names.count(name) > 1:
            raise TopologyError(key, f"role {name!r:.66} is named twice")
    return names
