"""Monitoring systems: the queries, and the usage from valid and invalid responses."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from scheduler.api.usage import NodeUsage
from scheduler.cluster.usage import SourceError, measure_once
from scheduler.cluster.usage.custom_metrics import CustomMetrics
from scheduler.framework.configuration import SourceType, UsageSource
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi
from tests.unit.cluster.kube.fake_api import serving as serving_api
from tests.unit.cluster.servers import Handler, serving

Loads = dict[str, tuple[float, float]]


def measure(handler: Handler, nodes: Sequence[str], type_: SourceType, **settings: Any) -> dict[str, NodeUsage]:
    async def scenario() -> dict[str, NodeUsage]:
        async with serving(handler) as address:
            return await measure_once(UsageSource(type_, address, **settings), nodes)

    return asyncio.run(scenario())


def loads(usages: dict[str, NodeUsage]) -> Loads:
    return {name: (usage.cpu, usage.memory) for name, usage in usages.items()}


# --- Prometheus ---
class FakePrometheus:
    """Has the usage of some nodes, and answers instant queries for the names of these nodes."""

    def __init__(self, known: dict[str, tuple[str, str]]) -> None:
        self.known = known
        self.queries: list[str] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        assert request.path == "/api/v1/query"
        query = str((await request.post() if request.method == "POST" else request.query)["query"])
        self.queries.append(query)
        found = re.search(r'instance=~"([^"]*)"', query)
        assert found is not None
        names = found[1].replace("\\\\", "\\")
        which = 0 if "node_cpu_seconds_total" in query else 1
        result = [
            {"metric": {"instance": name}, "value": [1.0, values[which]]}
            for name, values in self.known.items()
            if re.fullmatch(names, name)
        ]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


def answering(body: Any, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        text = body if isinstance(body, str) else json.dumps(body)
        return web.Response(text=text, status=status, content_type="application/json")

    return handler


def prometheus(handler: Handler, *nodes: str) -> Loads:
    return loads(measure(handler, nodes or ("n1",), SourceType.PROMETHEUS))


def test_prometheus_gets_the_queries_of_volcano() -> None:
    server = FakePrometheus({"n1": ("12.5", "30")})
    assert prometheus(server, "n1") == {"n1": (12.5, 30.0)}
    assert server.queries == [
        "avg_over_time(clamp_min(100 - (avg by (instance) "
        '(rate(node_cpu_seconds_total{mode="idle",instance=~"n1"}[5m])) * 100), 0)[10m:30s])',
        '100*avg_over_time(((1-node_memory_MemAvailable_bytes{instance=~"n1"}'
        '/node_memory_MemTotal_bytes{instance=~"n1"}))[10m:30s])',
    ]


def test_many_nodes_share_a_query_and_dots_in_names_are_escaped() -> None:
    names = [f"n{i}.example.com" for i in range(150)]
    server = FakePrometheus(dict.fromkeys(names, ("1", "2")) | {"n1xexample.com": ("99", "99")})
    assert prometheus(server, *names) == dict.fromkeys(names, (1.0, 2.0))
    assert len(server.queries) == 4


def test_a_node_without_samples_in_prometheus_has_no_usage() -> None:
    server = FakePrometheus({"n1": ("1", "2"), "odd": ("NaN", "+Inf"), "half": ("NaN", "7"), "less": ("-3", "0")})
    expected = {"n1": (1.0, 2.0), "half": (0.0, 7.0), "less": (0.0, 0.0)}
    assert prometheus(server, "n1", "n2", "odd", "half", "less") == expected


def test_of_several_series_of_a_node_the_first_by_labels_is_used() -> None:
    series = [
        {"metric": {"instance": "n1", "job": job}, "value": [1.0, value]} for job, value in (("b", "9"), ("a", "5"))
    ]
    body = {"status": "success", "data": {"resultType": "vector", "result": series}}
    assert prometheus(answering(body)) == {"n1": (5.0, 5.0)}


def test_a_prometheus_without_post_is_queried_with_get() -> None:
    server = FakePrometheus({"n1": ("1", "2")})

    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(status=405) if request.method == "POST" else await server(request)

    assert prometheus(handler) == {"n1": (1.0, 2.0)}


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ("<html>", 200, "not the answer that was expected"),
        ("[" * 100_000, 200, "not the answer that was expected"),
        ({"status": "error", "error": "too many samples"}, 200, "too many samples"),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, 200, "a matrix in place of a vector"),
        ({"status": "success", "data": {"resultType": "vector", "result": [{"metric": 1}]}}, 200, "Expected `object`"),
        ("try later", 503, "status 503: try later"),
    ],
)
def test_an_invalid_response_of_prometheus_raises_an_error_with_the_reason(
    body: Any, status: int, problem: str
) -> None:
    with pytest.raises(SourceError, match=re.escape(problem)):
        prometheus(answering(body, status))


def test_an_unreachable_server_raises_an_error() -> None:
    source = UsageSource(SourceType.PROMETHEUS, "http://127.0.0.1:1")
    with pytest.raises(SourceError, match="/api/v1/query: "):
        asyncio.run(measure_once(source, ["n1"]))


# --- Elasticsearch ---
class FakeElasticsearch:
    def __init__(self, buckets: dict[str, Any]) -> None:
        self.buckets = buckets
        self.paths: list[str] = []
        self.bodies: list[Any] = []
        self.headers: list[Any] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        self.bodies.append(await request.json())
        self.headers.append(request.headers)
        return web.json_response({"took": 1, "aggregations": {"nodes": {"buckets": self.buckets}}})


def test_elasticsearch_gets_a_query_for_the_averages_of_metricbeat() -> None:
    server = FakeElasticsearch({"n1": {"doc_count": 3, "cpu": {"value": 0.25}, "mem": {"value": 0.5}}})
    assert loads(measure(server, ["n1"], SourceType.ELASTICSEARCH)) == {"n1": (25.0, 50.0)}
    (body,) = server.bodies
    assert server.paths == ["/metricbeat-*/_search"]
    assert body["query"]["bool"]["must"] == [{"range": {"@timestamp": {"gte": "now-10m", "lt": "now"}}}]
    assert body["aggs"]["nodes"]["filters"] == {"filters": {"n1": {"term": {"host.hostname": "n1"}}}}
    assert body["aggs"]["nodes"]["aggs"] == {
        "cpu": {"avg": {"field": "host.cpu.usage"}},
        "mem": {"avg": {"field": "system.memory.actual.used.pct"}},
    }


def test_index_host_field_and_credentials_are_configurable() -> None:
    server = FakeElasticsearch({})
    settings = {"index": "a b", "host_field": "node", "username": "me", "password": "pw"}
    assert measure(server, ["n1"], SourceType.ELASTICSEARCH, **settings) == {}
    assert server.paths == ["/a%20b/_search"]
    assert server.bodies[0]["aggs"]["nodes"]["filters"]["filters"] == {"n1": {"term": {"node": "n1"}}}
    assert server.headers[0]["Authorization"] == "Basic bWU6cHc="


def test_a_node_without_documents_has_no_usage() -> None:
    none, half = {"cpu": {"value": None}, "mem": {"value": None}}, {"cpu": {"value": 0.1}, "mem": {"value": None}}
    server = FakeElasticsearch({"n1": none, "n2": half})
    assert loads(measure(server, ["n1", "n2"], SourceType.ELASTICSEARCH)) == {"n2": (10.0, 0.0)}


def test_a_response_without_values_raises_an_error() -> None:
    with pytest.raises(SourceError, match="missing required field `aggregations`"):
        measure(answering({"error": "x"}), ["n1"], SourceType.ELASTICSEARCH)


# --- custom metrics ---
CUSTOM = r"/apis/custom\.metrics\.k8s\.io"


def values(metric: str, **by_node: str) -> dict[str, Any]:
    items = [
        {
            "describedObject": {"kind": "Node", "name": name},
            "metric": {"name": metric},
            "timestamp": "2026-01-31T09:00:00Z",
            "value": value,
        }
        for name, value in by_node.items()
    ]
    return {"kind": "MetricValueList", "items": items}


def custom_metrics(setup: Any, *nodes: str) -> dict[str, NodeUsage]:
    async def scenario() -> dict[str, NodeUsage]:
        async with serving_api() as (api, client):
            setup(api)
            return await CustomMetrics(client).measure(nodes)

    return asyncio.run(scenario())


def test_custom_metrics_of_all_nodes_are_read_from_the_api_server() -> None:
    def setup(api: FakeApi) -> None:
        for metric, load in (("node_cpu_usage_avg", "125m"), ("node_memory_usage_avg", "0.5")):
            path = rf"{CUSTOM}/v1beta2/nodes/\*/{metric}"
            api.answer("GET", path, values(metric, n1=load, n2="1", gone="1", odd="much"))

    found = custom_metrics(setup, "n1", "n2", "odd")
    assert found["n1"] == NodeUsage(12.5, 50.0, 1769850000.0)
    assert found.keys() == {"n1", "n2"}


def test_an_adapter_with_an_older_api_version_is_supported() -> None:
    def setup(api: FakeApi) -> None:
        async def old(call: Call, request: web.Request) -> Answer:
            return values("x", n1="0.1")

        api.on("GET", rf"{CUSTOM}/v1beta1/nodes/\*/node_(cpu|memory)_usage_avg", old)

    assert loads(custom_metrics(setup, "n1")) == {"n1": (10.0, 10.0)}


def test_a_missing_adapter_is_reported() -> None:
    with pytest.raises(SourceError, match="no custom metric node_cpu_usage_avg of nodes: is the Prometheus adapter"):
        custom_metrics(lambda api: None, "n1")


def test_a_refusal_of_the_api_server_is_reported() -> None:
    with pytest.raises(SourceError, match="403"):
        custom_metrics(lambda api: api.answer("GET", rf"{CUSTOM}/.*", {"message": "no"}, status=403), "n1")


def test_custom_metrics_are_not_available_without_an_api_server() -> None:
    with pytest.raises(SourceError, match="custom metrics need an API server"):
        asyncio.run(measure_once(UsageSource(SourceType.PROMETHEUS_ADAPTOR), ["n1"]))
