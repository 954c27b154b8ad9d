"""Gauges of devices as plugins count them at the end of a session: chips by state, for the cluster and by node, and the
usage of vGPUs."""

from collections.abc import Iterable, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.device_states import Availability
from scheduler.framework.figures import DeviceCounts, Figures
from scheduler.plugins.deviceshare.ledger import DeviceUsage

NODES: Final = 1000
"""Maximum of nodes with series of their own, per resource. Nodes with unusable chips come first, then names decide."""
_UNUSABLE: Final = (Availability.UNHEALTHY, Availability.UNKNOWN)


class ChipFigures(Collector):
    """Gauges of the chips that plugins count. They are built when metrics are scraped."""

    def __init__(self) -> None:
        self._counts: Sequence[DeviceCounts] = ()

    def update(self, figures: Iterable[Figures]) -> None:
        """``figures``: of the plugins of a session."""
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
        """``usages``: as a session left them; none where no plugin shares GPUs."""
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
