"""Gauges of the amounts of the whole cluster: the totals of its nodes, the amounts allocated to each kind of workload,
and the accelerator cards by model and state."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.device_states import Availability
from scheduler.api.memory import Memory
from scheduler.api.node import Nodes
from scheduler.api.resource import MEMORY_INDEX, PODS_INDEX, Dimensions, Vector
from scheduler.framework.figures import DeviceCounts
from scheduler.plugins.capacity_card.discovery import CardInventory, inventory_of

WORKLOADS: Final = ("online", "offline", "other")


CARD_STATES: Final = (Availability.FREE, Availability.ALLOCATED, Availability.UNHEALTHY, Availability.UNKNOWN)
_MILLI: Final = 1000


class ClusterFigures(Collector):
    """The gauges, in cores, bytes and numbers."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._cards: Sequence[tuple[str, Sequence[float]]] = ()
        """Name of a card, and the numbers in the order of ``CARD_STATES``."""
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
        inventory = inventory_of(self._memory, nodes.facts)
        self._cards = list(zip(inventory.names, card_counts(inventory, nodes, dimensions).tolist(), strict=True))
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
        cards = GaugeMetricFamily(
            "volcano_py_cards",
            "Accelerator cards by model and state: free, allocated, unhealthy (of the Node's capacity, but not "
            "allocatable), unknown (free, but the node is not ready)",
            labels=["card", "state"],
        )
        for name, numbers in self._cards:
            for state, number in zip(CARD_STATES, numbers, strict=True):
                cards.add_metric([name, state.value], number)
        return (allocatable, allocated, cards)


def card_counts(inventory: CardInventory, nodes: Nodes, dimensions: Dimensions) -> NDArray[np.float64]:
    """Counts the cards of all nodes. Shape (cards, states): the cards by code, the states as in ``CARD_STATES``."""
    counts = np.zeros((len(inventory.names), len(CARD_STATES)))
    for resource, by_node in cards_by_node(inventory, nodes, dimensions).items():
        codes = inventory.column(resource)
        has = codes >= 0
        for i in range(len(CARD_STATES)):
            counts[:, i] += np.bincount(codes[has], weights=by_node[has, i], minlength=len(counts))
    return counts


def cards_by_node(inventory: CardInventory, nodes: Nodes, dimensions: Dimensions) -> dict[str, NDArray[np.float64]]:
    """Counts the cards of each node by the resource that counts them. Shape (nodes, states), the states as in
    ``CARD_STATES``."""
    found = {}
    ready = np.ones(len(nodes), dtype=bool)
    ready[[nodes.index[name] for name in nodes.facts.unready]] = False
    for resource in inventory.by_resource:
        position = dimensions.find(resource)
        if position is None:
            continue
        allocatable, used = nodes.allocatable[position], nodes.used[position]
        free, allocated = (allocatable - used).clip(min=0), np.minimum(used, allocatable)
        unhealthy = (nodes.capacity[position] - allocatable).clip(min=0)
        found[resource] = np.stack([free * ready, allocated, unhealthy, free * ~ready], axis=1) / _MILLI
    return found


class CardDevices:
    """Counts the cards of nodes as devices without numbers. Remembers the labels of nodes between sessions."""

    def __init__(self) -> None:
        self._memory = Memory()

    def of(self, nodes: Nodes, dimensions: Dimensions) -> list[DeviceCounts]:
        """The cards of a session's nodes, by resource."""
        columns = [list(Availability).index(state) for state in CARD_STATES]
        names, inventory = nodes.names, inventory_of(self._memory, nodes.facts)
        found = []
        for resource, by_node in cards_by_node(inventory, nodes, dimensions).items():
            rows = np.flatnonzero(inventory.column(resource) >= 0)
            counts = np.zeros((len(rows), len(Availability)), dtype=np.int64)
            counts[:, columns] = by_node[rows]
            found.append(DeviceCounts(resource, [names[row] for row in rows.tolist()], counts))
        return found
