"""Amounts of queues as three gauges: cpu, memory, and all other resources."""

from collections.abc import Mapping

from prometheus_client.core import GaugeMetricFamily

from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions, Vector


def amount_families(
    word: str, text: str, amounts: Mapping[str, Vector], dimensions: Dimensions
) -> list[GaugeMetricFamily]:
    """``volcano_queue_<word>_...`` in the units their names give, other resources in thousandths. ``amounts``: by
    queue; Pods count as one each; of what is no cpu and no memory, none and no limit are left out."""
    prefix = f"volcano_queue_{word}"
    cpu = GaugeMetricFamily(f"{prefix}_milli_cpu", text, labels=["queue_name"])
    memory = GaugeMetricFamily(f"{prefix}_memory_bytes", text, labels=["queue_name"])
    scalar = GaugeMetricFamily(f"{prefix}_scalar_resources", text, labels=["queue_name", "resource"])
    for name, vector in sorted(amounts.items()):
        values = vector.tolist()
        cpu.add_metric([name], values[CPU_INDEX])
        memory.add_metric([name], values[MEMORY_INDEX])
        for resource, value in zip(dimensions.names[PODS_INDEX:], values[PODS_INDEX:], strict=False):
            if value not in (0, float("inf")):
                scalar.add_metric([name, resource], value)
    return [cpu, memory, scalar]
