"""Buckets: tasks of a job that should end up on one node, and how well each node would do for the next of them."""

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush

import numpy as np

from scheduler.api.job import Job
from scheduler.api.node import Column, Nodes, Rows
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, SMALLEST, Vector
from scheduler.api.task import FINISHED_STATUSES, Task
from scheduler.plugins.task_topology.topology import Topology

_MEBI = 1024.0 * 1024.0
Roles = tuple[tuple[str, int], ...]
"""Role -> number of tasks, in the order of names."""


class Bucket:
    """Tasks that attract each other."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: dict[str, Task] = {}
        """uid -> task that has no node yet."""
        self.bound: Counter[str] = Counter()
        """Node -> number of tasks of the bucket there."""
        self.roles: Counter[str] = Counter()
        self.size = 0.0
        """Sum of what the waiting tasks ask for, a core counting as much as 1000 MiB or a card."""
        self.first = 0
        """How many tasks waited when the session opened: its order is that of then."""

    @property
    def composition(self) -> Roles:
        return tuple(sorted(self.roles.items()))

    def enter(self, task: Task) -> None:
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
        self._of: dict[str, Bucket] = {}
        """uid -> bucket."""
        self._on: dict[str, Counter[str]] = {}
        """Node -> role -> number of tasks of the job there."""
        tasks = sorted(job.tasks(), key=self._entry_key)
        wishing = [task for task in tasks if task.role in topology.strictness]
        self._gather(task for task in wishing if task.node)
        self._distribute(task for task in wishing if not task.node)
        for task in tasks:
            if task.node and task.status not in FINISHED_STATUSES:
                self._on.setdefault(task.node, Counter())[task.role] += 1
        self.largest = max((len(b.waiting) + b.bound.total() for b in self._buckets), default=0)

    def _entry_key(self, task: Task) -> tuple[object, ...]:
        """Tasks enter buckets in this order: by node, by precedence, by name."""
        return (task.node, *self.topology.precedence(task.role), task.name)

    def _gather(self, tasks: Iterable[Task]) -> None:
        """Tasks on nodes: each node has a bucket."""
        of_node: dict[str, Bucket] = {}
        for task in tasks:
            bucket = of_node.get(task.node)
            if bucket is None:
                bucket = of_node[task.node] = self._new()
            self._enter(bucket, task)

    def _distribute(self, tasks: Iterable[Task]) -> None:
        """Tasks that wait: each into the bucket that attracts it most, of equal ones the smaller; into one of its own
        if all repel it. Buckets with the same numbers of each role are equally attractive: one stands for all."""
        alike: dict[Roles, list[tuple[float, int]]] = {}
        for bucket in self._buckets:
            heappush(alike.setdefault(bucket.composition, []), (bucket.size, bucket.index))
        for task in tasks:
            ranked = ((-self.topology.attraction(task.role, dict(roles)), *alike[roles][0], roles) for roles in alike)
            best = min(ranked, default=None)
            if best is not None and best[0] <= 0:
                _, _, index, roles = best
                heappop(alike[roles])
                if not alike[roles]:
                    del alike[roles]
                bucket = self._buckets[index]
            else:
                bucket = self._new()
            self._enter(bucket, task)
            heappush(alike.setdefault(bucket.composition, []), (bucket.size, bucket.index))

    def _new(self) -> Bucket:
        bucket = Bucket(len(self._buckets))
        self._buckets.append(bucket)
        return bucket

    def _enter(self, bucket: Bucket, task: Task) -> None:
        bucket.enter(task)
        self._of[task.uid] = bucket

    # --- order ---
    def key(self, task: Task) -> tuple[int, ...]:
        """Smaller comes first: large buckets, within one by precedence, then tasks of no bucket."""
        bucket = self._of.get(task.uid)
        if bucket is None:
            return (1,)
        return (0, -bucket.first, bucket.index, *self.topology.precedence(task.role))

    # --- books ---
    def move(self, tasks: Iterable[Task], nodes: Iterable[str], sign: int) -> None:
        """Tasks got nodes (1), or lost them again (-1)."""
        for task, node in zip(tasks, nodes, strict=True):
            self._on.setdefault(node, Counter())[task.role] += sign
            bucket = self._of.get(task.uid)
            if bucket is None:
                continue
            bucket.bound[node] += sign
            if sign > 0:
                bucket.waiting.pop(task.uid, None)
            elif not task.node:
                bucket.waiting[task.uid] = task

    # --- scores ---
    def column(self, task: Task, nodes: Nodes, rows: Rows) -> Column:
        """For each node: tasks of the bucket there, plus those waiting that fit there together, less tasks of the job
        there that repel the task. 0 where the task does not fit, or is in no bucket."""
        bucket = self._of.get(task.uid)
        if bucket is None:
            return np.zeros(len(rows))
        free = nodes.idle[:, rows] + nodes.releasing[:, rows]
        company: Column = np.zeros(len(nodes))
        for name in {*bucket.bound, *self._on}:
            row = nodes.index.get(name)
            if row is not None:
                company[row] = bucket.bound[name] - self.topology.repulsion(task.role, self._on.get(name, {}))
        result: Column = len(bucket.waiting) - self._left_out(task, bucket, free) + company[rows]
        result[(free < task.cls.request[:, np.newaxis]).any(axis=0)] = 0.0
        return result

    @staticmethod
    def _left_out(task: Task, bucket: Bucket, free: Column) -> Column:
        """How many of the bucket's other waiting tasks have to go elsewhere for the rest to fit, class by class."""
        others = [other for other in bucket.waiting.values() if other is not task]
        numbers = Counter(other.cls.id for other in others)
        requests = {other.cls.id: other.cls.request for other in others}
        total = task.cls.request + sum(requests[cls] * number for cls, number in numbers.items())
        excess: Column = total[:, np.newaxis] - free
        out: Column = np.zeros(free.shape[1])
        for cls, number in numbers.items():
            request = requests[cls][:, np.newaxis]
            over = excess >= SMALLEST
            needed = np.where(
                over, np.ceil(np.divide(excess, request, where=request > 0, out=np.zeros_like(excess))), 0
            )
            hopeless = (over & (request == 0)).any(axis=0)
            going = np.where(hopeless, number, np.clip(needed.max(axis=0), 0, number))
            excess = excess - request * going
            out += going
        return out


def _size(request: Vector) -> float:
    rest = request.sum() - request[CPU_INDEX] - request[MEMORY_INDEX]
    return float(request[CPU_INDEX] + request[MEMORY_INDEX] / _MEBI + rest)
