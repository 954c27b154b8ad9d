"""Node usage from Elasticsearch with the documents of Metricbeat."""

import math
import time
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from scheduler.api.usage import PERIOD, NodeUsage
from scheduler.cluster.usage.http_client import HttpClient

_BATCH_SIZE: Final = 100
"""Nodes per search."""
_CPU: Final = "host.cpu.usage"
_MEMORY: Final = "system.memory.actual.used.pct"


class _Average(msgspec.Struct):
    value: float | None = None
    """A fraction of 1; None if no document has the field."""


class _Bucket(msgspec.Struct):
    cpu: _Average = msgspec.field(default_factory=_Average)
    mem: _Average = msgspec.field(default_factory=_Average)


class _Nodes(msgspec.Struct):
    buckets: dict[str, _Bucket]


class _Aggregations(msgspec.Struct):
    nodes: _Nodes


class _Answer(msgspec.Struct):
    aggregations: _Aggregations


class Elasticsearch:
    """Queries the averages that Volcano queries, for many nodes at once."""

    def __init__(self, client: HttpClient, index: str, host_field: str) -> None:
        """``host_field``: the field with the node's name."""
        self._client = client
        self._path = f"/{quote(index, safe='*,-')}/_search"
        self._host_field = host_field

    async def measure(self, nodes: Sequence[str]) -> dict[str, NodeUsage]:
        """Returns the usage of the nodes for which the system has data. Raises SourceError."""
        result: dict[str, NodeUsage] = {}
        for start in range(0, len(nodes), _BATCH_SIZE):
            body = self._search(nodes[start : start + _BATCH_SIZE])
            answer = await self._client.request("POST", self._path, _Answer, body=body)
            now = time.time()
            for name, bucket in answer.aggregations.nodes.buckets.items():
                if bucket.cpu.value is not None or bucket.mem.value is not None:
                    result[name] = NodeUsage(_percent(bucket.cpu), _percent(bucket.mem), now)
        return result

    def _search(self, nodes: Sequence[str]) -> bytes:
        recent = {"range": {"@timestamp": {"gte": f"now-{PERIOD}", "lt": "now"}}}
        averages = {"cpu": {"avg": {"field": _CPU}}, "mem": {"avg": {"field": _MEMORY}}}
        by_node = {name: {"term": {self._host_field: name}} for name in nodes}
        return msgspec.json.encode(
            {
                "size": 0,
                "query": {"bool": {"must": [recent]}},
                "aggs": {"nodes": {"filters": {"filters": by_node}, "aggs": averages}},
            }
        )


def _percent(average: _Average) -> float:
    value = average.value or 0.0
    return max(value * 100.0, 0.0) if math.isfinite(value) else 0.0
