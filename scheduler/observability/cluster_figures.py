"""Gauges of what the cluster has: the amounts of its nodes by kind of workload, the accelerator cards by model and
state, the chips that plugins count, by state, for the cluster and by node, and the usage of vGPUs.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.device_states import Availability
from scheduler.api.node import Nodes
from scheduler.api.resource import MEMORY_INDEX, PODS_INDEX, Dimensions, Vector
from scheduler.api.snapshot import Memory
from scheduler.framework.figures import DeviceCounts, Figures
from scheduler.plugins.capacity_card.discovery import CardInventory, inventory_of
from scheduler.plugins.deviceshare.ledger import DeviceUsage

WORKLOADS: Final = ("online", "offline", "other")


CARD_STATES: Final = (Availability.FREE, Availability.ALLOCATED, Availability.UNHEALTHY, Availability.UNKNOWN)
_MILLI: Final = 1000
NODES: Final = 1000
"""Maximum of nodes with series of their own, per resource. Nodes with unusable chips come first, then names decide."""
_UNUSABLE: Final = (Availability.UNHEALTHY, Availability.UNKNOWN)


class ClusterFigures(Collector):
    """The gauges, in cores, bytes and numbers."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._cards: Sequence[tuple[str, Sequence[float]]] = ()
        """Name of a card, and the numbers in the order of ``CARD_STATES``."""
        self._last: Sequence[tuple[str, float, Sequence[float]]] = ()
        """Resource, its allocatable amount, and the allocated amounts in the order of ``WORKLOADS``."""

    def update(self, online: Vector, offline: Vector, nodes: Nodes, dimensions: Dimensions) -> None:
        """``online``, ``offline``: what jobs hold; ``nodes``: the nodes at the end of a session."""
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
            "Amounts that Pods hold: online (jobs that serve until they are stopped), offline (other jobs), other "
            "(of Pods without a queue, terminating, or of unknown queues)",
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
        codes = inventory.column(resource).codes[:-1]
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
            rows = np.flatnonzero(inventory.column(resource).codes[:-1] >= 0)
            counts = np.zeros((len(rows), len(Availability)), dtype=np.int64)
            counts[:, columns] = by_node[rows]
            found.append(DeviceCounts(resource, [names[row] for row in rows.tolist()], counts))
        return found


class ChipFigures(Collector):
    """Gauges of the chips that plugins count. They are built when metrics are scraped."""

    def __init__(self) -> None:
        self._counts: Sequence[DeviceCounts] = ()

    def update(self, figures: Iterable[Figures]) -> None:
        """``figures``: the figures of the plugins of a session."""
        self._counts = [each for one in figures for each in one.devices]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        chips = GaugeMetricFamily(
            "volcano_py_chips",
            "Chips by state: free, degraded (free, with a fault that some jobs do not accept), allocated, "
            "unhealthy, unknown (not reported as free)",
            labels=["resource", "state"],
        )
        of_nodes = GaugeMetricFamily(
            "volcano_py_node_chips",
            f"Chips of a node by state, for at most {NODES} nodes per resource",
            labels=["node", "resource", "state"],
        )
        omitted = GaugeMetricFamily(
            "volcano_py_node_chips_omitted_nodes", "Nodes without series in volcano_py_node_chips", labels=["resource"]
        )
        for one in self._counts:
            for state, number in zip(Availability, one.counts.sum(axis=0).tolist(), strict=True):
                chips.add_metric([one.resource, state.value], number)
            for i in _chosen(one):
                for state, number in zip(Availability, one.counts[i].tolist(), strict=True):
                    if number:
                        of_nodes.add_metric([one.nodes[i], one.resource, state.value], number)
            omitted.add_metric([one.resource], max(0, len(one.nodes) - NODES))
        return (chips, of_nodes, omitted)


def _chosen(counts: DeviceCounts) -> list[int]:
    """Positions of the nodes with series of their own."""
    states = [state in _UNUSABLE for state in Availability]
    unusable: list[int] = counts.counts[:, states].sum(axis=1).tolist()
    return sorted(range(len(counts.nodes)), key=lambda i: (unusable[i] == 0, counts.nodes[i]))[:NODES]


_CARD = ["devID", "NodeName"]
_POD = [*_CARD, "podName"]


class DeviceFigures(Collector):
    """Gauges of every vGPU card and of the Pods that share it."""

    def __init__(self) -> None:
        self._usages: Sequence[DeviceUsage] = ()

    def update(self, usages: Sequence[DeviceUsage]) -> None:
        """``usages``: the usages of GPUs at the end of a session; none if no plugin shares GPUs."""
        self._usages = usages

    def collect(self) -> Iterable[GaugeMetricFamily]:
        shared = GaugeMetricFamily("volcano_vgpu_device_shared_number", "Pods that share a GPU", labels=_CARD)
        memory = GaugeMetricFamily("volcano_vgpu_device_allocated_memory", "Memory given of a GPU", labels=_CARD)
        cores = GaugeMetricFamily(
            "volcano_vgpu_device_allocated_cores", "Cores given of a GPU, in per cent", labels=_CARD
        )
        limit = GaugeMetricFamily("volcano_vgpu_device_memory_limit", "Memory of a GPU", labels=_CARD)
        pod_memory = GaugeMetricFamily(
            "volcano_vgpu_device_memory_allocation_for_a_certain_pod", "Memory of a GPU that a Pod has", labels=_POD
        )
        pod_cores = GaugeMetricFamily(
            "volcano_vgpu_device_core_allocation_for_a_certain_pod", "Cores of a GPU that a Pod has", labels=_POD
        )
        for card in (card for usage in self._usages for card in usage.cards()):
            labels = [card.uuid, card.node]
            shared.add_metric(labels, card.pod_count)
            memory.add_metric(labels, card.used_memory)
            cores.add_metric(labels, card.used_cores)
            limit.add_metric(labels, card.memory)
            for pod, (its_memory, its_cores) in card.pods.items():
                pod_memory.add_metric([*labels, pod], its_memory)
                pod_cores.add_metric([*labels, pod], its_cores)
        return (shared, memory, cores, limit, pod_memory, pod_cores)
