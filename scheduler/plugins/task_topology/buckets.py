"""The topology annotations of a PodGroup (affinity, anti-affinity and order of its roles), buckets of tasks that should
run on the same node, and the scores of nodes for them.

``ps,worker;evaluator`` are two sets. Affinity (or anti-affinity) holds between the roles of a set; for a single role in
a set it holds between the tasks of this role.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import TASK_TOPOLOGY_AFFINITY, TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, SMALLEST, Vector
from scheduler.api.task import FINISHED_STATUSES, Task

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


_MEBI = 1024.0 * 1024.0
Roles = tuple[tuple[str, int], ...]
"""(role, number of tasks) pairs, sorted by role."""


class Bucket:
    """Tasks that attract each other."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: dict[str, Task] = {}
        """uid -> task without a node."""
        self.bound: Counter[str] = Counter()
        """Node -> number of tasks of the bucket there."""
        self.roles: Counter[str] = Counter()
        self.size = 0.0
        """Sum of the requests of the waiting tasks; one core counts as much as 1000 MiB or one card."""
        self.first = 0
        """Number of waiting tasks when the session opened; the order of buckets does not change afterwards."""

    @property
    def composition(self) -> Roles:
        return tuple(sorted(self.roles.items()))

    def add(self, task: Task) -> None:
        self.roles[task.role] += 1
        if task.node:
            self.bound[task.node] += 1
        else:
            self.waiting[task.uid] = task
            self.first += 1
            self.size += _size(task.cls.request)


class JobBuckets:
    """The buckets of one job."""

    def __init__(self, job: Job, topology: Topology) -> None:
        self.job = job
        self.topology = topology
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[str, Bucket] = {}
        """uid -> bucket."""
        self._roles_on: dict[str, Counter[str]] = {}
        """Node -> role -> number of the job's tasks on it."""
        tasks = sorted(job.tasks(), key=self._entry_key)
        constrained = [task for task in tasks if task.role in topology.strictness]
        self._add_bound(task for task in constrained if task.node)
        self._add_pending(task for task in constrained if not task.node)
        for task in tasks:
            if task.node and task.status not in FINISHED_STATUSES:
                self._roles_on.setdefault(task.node, Counter())[task.role] += 1
        self.largest = max((len(b.waiting) + b.bound.total() for b in self._buckets), default=0)

    def _entry_key(self, task: Task) -> tuple[object, ...]:
        """Order in which tasks are added to buckets: by node, by precedence, by name."""
        return (task.node, *self.topology.precedence(task.role), task.name)

    def _add_bound(self, tasks: Iterable[Task]) -> None:
        """Adds tasks on nodes: one bucket per node."""
        of_node: dict[str, Bucket] = {}
        for task in tasks:
            bucket = of_node.get(task.node)
            if bucket is None:
                bucket = of_node[task.node] = self._new_bucket()
            self._add(bucket, task)

    def _add_pending(self, tasks: Iterable[Task]) -> None:
        """Adds pending tasks: each to the bucket with the highest affinity, of equal ones to the smallest; to a new
        bucket if the affinity to all is negative. Buckets with the same roles have the same affinity, so one of them is
        checked."""
        by_composition: dict[Roles, list[tuple[float, int]]] = {}
        for bucket in self._buckets:
            heappush(by_composition.setdefault(bucket.composition, []), (bucket.size, bucket.index))
        for task in tasks:
            ranked = (
                (-self.topology.attraction(task.role, dict(roles)), *by_composition[roles][0], roles)
                for roles in by_composition
            )
            best = min(ranked, default=None)
            if best is not None and best[0] <= 0:
                _, _, index, roles = best
                heappop(by_composition[roles])
                if not by_composition[roles]:
                    del by_composition[roles]
                bucket = self._buckets[index]
            else:
                bucket = self._new_bucket()
            self._add(bucket, task)
            heappush(by_composition.setdefault(bucket.composition, []), (bucket.size, bucket.index))

    def _new_bucket(self) -> Bucket:
        bucket = Bucket(len(self._buckets))
        self._buckets.append(bucket)
        return bucket

    def _add(self, bucket: Bucket, task: Task) -> None:
        bucket.add(task)
        self._bucket_of[task.uid] = bucket

    # --- order ---
    def key(self, task: Task) -> tuple[int, ...]:
        """Returns the sort key of a task: larger buckets first, by precedence within a bucket, then tasks without
        one."""
        bucket = self._bucket_of.get(task.uid)
        if bucket is None:
            return (1,)
        return (0, -bucket.first, bucket.index, *self.topology.precedence(task.role))

    # --- books ---
    def move(self, tasks: Iterable[Task], nodes: Iterable[str], sign: int) -> None:
        """Records that tasks were placed on nodes (1), or removed from them (-1)."""
        for task, node in zip(tasks, nodes, strict=True):
            self._roles_on.setdefault(node, Counter())[task.role] += sign
            bucket = self._bucket_of.get(task.uid)
            if bucket is None:
                continue
            bucket.bound[node] += sign
            if sign > 0:
                bucket.waiting.pop(task.uid, None)
            elif not task.node:
                bucket.waiting[task.uid] = task

    # --- scores ---
    def column(self, task: Task, nodes: Nodes, rows: Rows) -> Column:
        """Scores each node: tasks of the bucket on the node, plus the waiting tasks of the bucket that fit together on
        it, minus tasks of the job on it with anti-affinity to the task. 0 if the task does not fit, or has no
        bucket."""
        bucket = self._bucket_of.get(task.uid)
        if bucket is None:
            return np.zeros(len(rows))
        free = nodes.idle[:, rows] + nodes.releasing[:, rows]
        node_scores: Column = np.zeros(len(nodes))
        for name in {*bucket.bound, *self._roles_on}:
            row = nodes.index.get(name)
            if row is not None:
                node_scores[row] = bucket.bound[name] - self.topology.repulsion(task.role, self._roles_on.get(name, {}))
        result: Column = len(bucket.waiting) - self._excluded_tasks(task, bucket, free) + node_scores[rows]
        result[(free < task.cls.request[:, np.newaxis]).any(axis=0)] = 0.0
        return result

    @staticmethod
    def _excluded_tasks(task: Task, bucket: Bucket, free: Column) -> Column:
        """Returns, per node, how many other waiting tasks of the bucket must be left out so that the rest fits."""
        others = [other for other in bucket.waiting.values() if other is not task]
        numbers = Counter(other.cls.id for other in others)
        requests = {other.cls.id: other.cls.request for other in others}
        total = task.cls.request + sum(requests[cls] * number for cls, number in numbers.items())
        excess: Column = total[:, np.newaxis] - free
        total_excluded: Column = np.zeros(free.shape[1])
        for cls, number in numbers.items():
            request = requests[cls][:, np.newaxis]
            over = excess >= SMALLEST
            needed = np.where(
                over, np.ceil(np.divide(excess, request, where=request > 0, out=np.zeros_like(excess))), 0
            )
            cannot_fit = (over & (request == 0)).any(axis=0)
            excluded = np.where(cannot_fit, number, np.clip(needed.max(axis=0), 0, number))
            excess = excess - request * excluded
            total_excluded += excluded
        return total_excluded


def _size(request: Vector) -> float:
    rest = request.sum() - request[CPU_INDEX] - request[MEMORY_INDEX]
    return float(request[CPU_INDEX] + request[MEMORY_INDEX] / _MEBI + rest)
