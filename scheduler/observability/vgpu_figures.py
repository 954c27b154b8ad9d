"""Every vGPU card and the Pods that share it, for dashboards, under Volcano's names."""

from collections.abc import Iterable, Sequence

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.plugins.deviceshare.usage import DeviceUsage

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
