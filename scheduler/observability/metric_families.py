"""Families of metrics from figures by label: gauges, and the amounts of queues."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily

from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions, Vector
from scheduler.framework.figures import UsageByQueue


def gauge(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    """``values``: the values of the labels, and the value. Of several with equal labels, the last counts."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in {tuple(key): value for key, value in values}.items():
        family.add_metric(key, value)
    return family


def amount_families(
    word: str, text: str, amounts: Mapping[str, Vector], dimensions: Dimensions, usage: UsageByQueue, figure: str
) -> list[GaugeMetricFamily]:
    """``volcano_queue_<word>_...`` in the units their names give, other resources in thousandths. ``amounts``: by
    queue; Pods count as one each; of what is no cpu and no memory, none and no limit are left out. ``usage``: what
    plugins limit by name has series like a resource, with the amount in field ``figure``."""
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
    for name, by_name in sorted(usage.items()):
        for resource, of_queue in by_name.items():
            scalar.add_metric([name, resource], getattr(of_queue, figure))
    return [cpu, memory, scalar]
