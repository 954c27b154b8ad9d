"""Gauges of the amounts of the whole cluster: what its nodes have, and what is allocated to which kind of workload."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.job import Job
from scheduler.api.node import Nodes
from scheduler.api.resource import MEMORY_INDEX, PODS_INDEX, Dimensions, Vector
from scheduler.observability.session_figures import sums_by_position

WORKLOADS: Final = ("online", "offline", "other")
_ONLINE: Final = 0
_OFFLINE: Final = 1


class ClusterFigures(Collector):
    """The gauges, in cores, bytes and numbers."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._allocatable: list[float] = []
        self._allocated: dict[str, list[float]] = {}

    def update(self, jobs: Mapping[str, Job], nodes: Nodes, dimensions: Dimensions) -> None:
        """``jobs``, ``nodes``: as a session left them."""
        position = [_ONLINE if _is_online(job) else _OFFLINE for job in jobs.values()]
        at = np.array(position, dtype=np.intp)
        sums = sums_by_position([job.allocated for job in jobs.values()], at, 2, dimensions)
        other = (dimensions.fit(nodes.used.sum(axis=1)) - sums.sum(axis=0)).clip(min=0)
        self._names = list(dimensions.names)
        self._allocatable = self._in_base_units(dimensions.fit(nodes.allocatable.sum(axis=1)))
        amounts_of = zip(WORKLOADS, (*sums, other), strict=True)
        self._allocated = {workload: self._in_base_units(amounts) for workload, amounts in amounts_of}

    def _in_base_units(self, amounts: Vector) -> list[float]:
        """One number for each name. ``amounts``: in the units of vectors."""
        values = amounts / 1000
        values[[MEMORY_INDEX, PODS_INDEX]] = amounts[[MEMORY_INDEX, PODS_INDEX]]
        numbers: list[float] = values[: len(self._names)].tolist()
        return numbers

    def collect(self) -> Iterator[GaugeMetricFamily]:
        allocatable = GaugeMetricFamily(
            "volcano_py_cluster_allocatable", "Amounts that all nodes have for Pods", labels=["resource"]
        )
        for name, amount in zip(self._names, self._allocatable, strict=True):
            allocatable.add_metric([name], amount)
        yield allocatable
        allocated = GaugeMetricFamily(
            "volcano_py_cluster_allocated",
            "Amounts that Pods hold: online (of ReplicaSets, StatefulSets and ReplicationControllers), offline "
            "(other jobs), other (of other schedulers, or terminating)",
            labels=["workload", "resource"],
        )
        for workload, amounts in self._allocated.items():
            for name, amount in zip(self._names, amounts, strict=True):
                allocated.add_metric([workload, name], amount)
        yield allocated


def _is_online(job: Job) -> bool:
    """Whether a workload that runs services manages the Pods."""
    for tasks in job.by_status.values():
        for task in tasks.values():
            return task.cls.workload != ""
    return False
