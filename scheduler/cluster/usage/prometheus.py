"""Node usage from Prometheus with node exporter metrics whose label ``instance`` is the node's name."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.api.usage import PERIOD, NodeUsage
from scheduler.cluster.usage.http_client import HttpClient, NotSupportedError, SourceError

_QUERY: Final = "/api/v1/query"
_BATCH_SIZE: Final = 100
"""Nodes per query."""
_CPU: Final = (
    "avg_over_time(clamp_min(100 - (avg by (instance) "
    '(rate(node_cpu_seconds_total{{mode="idle",instance=~"{nodes}"}}[5m])) * 100), 0)[{period}:30s])'
)
_MEMORY: Final = (
    '100*avg_over_time(((1-node_memory_MemAvailable_bytes{{instance=~"{nodes}"}}'
    '/node_memory_MemTotal_bytes{{instance=~"{nodes}"}}))[{period}:30s])'
)


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str = ""
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Answer(msgspec.Struct):
    status: str = ""
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""


class Prometheus:
    """Uses Volcano's queries, for many nodes at once."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def measure(self, nodes: Sequence[str]) -> dict[str, NodeUsage]:
        """Returns the usage of the nodes for which the system has data. Raises SourceError."""
        result: dict[str, NodeUsage] = {}
        for start in range(0, len(nodes), _BATCH_SIZE):
            names = "|".join(name.replace(".", r"\\.") for name in nodes[start : start + _BATCH_SIZE])
            cpu = await self._query(_CPU.format(nodes=names, period=PERIOD))
            memory = await self._query(_MEMORY.format(nodes=names, period=PERIOD))
            now = time.time()
            for name in cpu.keys() | memory.keys():
                result[name] = NodeUsage(cpu.get(name, 0.0), memory.get(name, 0.0), now)
        return result

    async def _query(self, query: str) -> Mapping[str, float]:
        """Runs a query. Returns percentages by node. Raises SourceError."""
        try:
            answer = await self._client.request("POST", _QUERY, _Answer, form={"query": query})
        except NotSupportedError:
            answer = await self._client.request("GET", _QUERY, _Answer, form={"query": query})
        if answer.status != "success":
            raise SourceError(f"{_QUERY}: {answer.error or 'no success'}")
        if answer.data.result_type != "vector":
            raise SourceError(f"{_QUERY}: a {answer.data.result_type or 'nothing'} in place of a vector")
        try:
            samples = msgspec.json.decode(answer.data.result, type=list[_Sample])
        except msgspec.MsgspecError as error:
            raise SourceError(f"{_QUERY}: {error}") from None
        found: dict[str, float] = {}
        for name, value in _values(samples):
            found.setdefault(name, value)
        return found


def _values(samples: Sequence[_Sample]) -> Iterator[tuple[str, float]]:
    """Node and value of each valid sample, sorted by labels; the caller uses the first of a node."""
    for sample in sorted(samples, key=lambda sample: sorted(sample.metric.items())):
        try:
            value = float(sample.value[1])
        except ValueError:
            continue
        if math.isfinite(value):
            yield sample.metric.get("instance", ""), max(value, 0.0)
