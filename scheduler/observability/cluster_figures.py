"""Gauges of the amounts of the whole cluster: what its nodes have, and what is allocated to which kind of workload."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.node import Nodes
from scheduler.api.resource import MEMORY_INDEX, PODS_INDEX, Dimensions, Vector

WORKLOADS: Final = ("online", "offline", "other")


class ClusterFigures(Collector):
    """The gauges, in cores, bytes and numbers."""

    def __init__(self) -> None:
        self._last: Sequence[tuple[str, float, Sequence[float]]] = ()
        """Resource, its allocatable amount, and the allocated amounts in the order of ``WORKLOADS``."""

    def update(self, online: Vector, offline: Vector, nodes: Nodes, dimensions: Dimensions) -> None:
        """``online``, ``offline``: what jobs hold; ``nodes``: as a session left them."""
        other = (dimensions.fit(nodes.used.sum(axis=1)) - online - offline).clip(min=0)
        allocatable = dimensions.fit(nodes.allocatable.sum(axis=1))
        amounts = np.stack([allocatable, online, offline, other])
        values = amounts / 1000
        values[:, [MEMORY_INDEX, PODS_INDEX]] = amounts[:, [MEMORY_INDEX, PODS_INDEX]]
        by_resource = zip(dimensions.names, values.T.tolist(), strict=False)
        self._last = [(name, everything, allocated) for name, (everything, *allocated) in by_resource]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        allocatable = GaugeMetricFamily(
            "volcano_py_cluster_allocatable", "Amounts that all nodes have for Pods", labels=["resource"]
        )
        allocated = GaugeMetricFamily(
            "volcano_py_cluster_allocated",
            "Amounts that Pods hold: online (of ReplicaSets, StatefulSets and ReplicationControllers), offline "
            "(other jobs), other (of other schedulers, terminating, or of unknown queues)",
            labels=["workload", "resource"],
        )
        for name, everything, amounts in self._last:
            allocatable.add_metric([name], everything)
            for workload, amount in zip(WORKLOADS, amounts, strict=True):
                allocated.add_metric([workload, name], amount)
        return (allocatable, allocated)
