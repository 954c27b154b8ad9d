"""Node usage from the custom metrics API, as the Prometheus adapter serves it with rules of these names."""

import math
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.api.objects import Quantity
from scheduler.api.quantity import QuantityError, split_quantity
from scheduler.api.times import parse_timestamp
from scheduler.api.usage import NodeUsage
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.usage.http_client import SourceError, decode

CPU: Final = "node_cpu_usage_avg"
MEMORY: Final = "node_memory_usage_avg"
_VERSIONS: Final = ("v1beta2", "v1beta1")


class _DescribedObject(msgspec.Struct):
    name: str = ""


class _Item(msgspec.Struct, rename="camel"):
    described_object: _DescribedObject
    value: Quantity
    timestamp: str | None = None


class _Values(msgspec.Struct):
    items: list[_Item] | None = None


class CustomMetrics:
    """Reads two custom metrics of all nodes, each a fraction of 1."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def measure(self, nodes: Sequence[str]) -> dict[str, NodeUsage]:
        """Returns the usage of the nodes for which the system has data. Raises SourceError."""
        cpu, memory = await self._values(CPU), await self._values(MEMORY)
        wanted = set(nodes)
        result: dict[str, NodeUsage] = {}
        for name in (cpu.keys() | memory.keys()) & wanted:
            pairs = [values.get(name, (0.0, 0.0)) for values in (cpu, memory)]
            result[name] = NodeUsage(pairs[0][0], pairs[1][0], max(moment for _, moment in pairs))
        return result

    async def _values(self, metric: str) -> dict[str, tuple[float, float]]:
        """Percentage and time by node. Raises SourceError."""
        for version in _VERSIONS:
            path = f"/apis/custom.metrics.k8s.io/{version}/nodes/*/{metric}"
            try:
                content = await self._client.request("GET", path, priority=CallPriority.READ)
            except RequestError as error:
                if error.status == 404:
                    continue
                raise SourceError(f"{path}: {error}" if error.status else str(error)) from None
            answer = decode(content, _Values, path)
            return {
                item.described_object.name: (percent, parse_timestamp(item.timestamp) or time.time())
                for item in answer.items or ()
                if (percent := _percent(item.value)) is not None
            }
        raise SourceError(
            f"the API server has no custom metric {metric} of nodes: is the Prometheus adapter installed?"
        )


def _percent(value: Quantity) -> float | None:
    """The value as a percentage; None if it is not a valid quantity."""
    try:
        number, factor, _ = split_quantity(value)
    except QuantityError:
        return None
    percent = float(number * factor) * 100.0
    return max(percent, 0.0) if math.isfinite(percent) else None
