"""Measures the costs of the reasons of ten thousand Pods of an autoscaler that the quota of their queue refuses, on a
real API server.

``--pods`` Pods request one core each in a queue of ten cores. First they wait for their first reason. Then the quota
changes a little each second, and with it the numbers in all reasons. The scheduler runs without a rate limit. Prints
for both phases the writes of statuses and Events: in all, per second, and the most in one session. Asserts nothing.
"""

import argparse
import asyncio
import json
import tempfile
import time
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from rich.table import Table

from benchmarks.contest import Api, cpu_seconds, running
from benchmarks.figures import report
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from scheduler.api.names import GROUP_NAME

PODS: Final = "/api/v1/namespaces/default/pods"
SCHEDULING: Final = "/apis/scheduling.volcano.sh/v1beta1"
CONFIGURATION: Final = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - {name: gang}
  - {name: predicates}
  - {name: capacity}
"""
QUIET: Final = 5.0
"""The seconds without a write after which all Pods have their reasons."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The counters of the scheduler at one time."""

    at: float
    writes: float
    sessions: float


def _objects(pods: int) -> list[tuple[str, dict[str, Any]]]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "20000"}
    node = {
        "metadata": {"name": "n"},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    queue = {"metadata": {"name": "team"}, "spec": {"weight": 1, "capability": {"cpu": "10"}}}
    group = {"metadata": {"name": "web"}, "spec": {"minMember": 1, "queue": "team"}}
    return [
        ("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node}),
        (f"{SCHEDULING}/queues", {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **queue}),
        (
            f"{SCHEDULING}/namespaces/default/podgroups",
            {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **group},
        ),
        *((PODS, _pod(f"web-{i}", "web")) for i in range(pods)),
    ]


def _pod(name: str, group: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {GROUP_NAME: group}},
        "spec": {
            "schedulerName": "volcano-py",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "registry.example/web:1", "resources": resources}],
        },
    }


async def _sample(url: str) -> Sample:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        text = await answer.text()
    writes = sessions = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "volcano_py_api_requests_total" and sample.labels["class"] in ("status", "event"):
                writes += sample.value
            elif sample.name == "volcano_e2e_scheduling_latency_milliseconds_count":
                sessions = sample.value
    return Sample(time.perf_counter(), writes, sessions)


async def _samples(url: str, seconds: float | None) -> list[Sample]:
    """Takes samples every 0.2 s, for ``seconds``, or (None) until nothing has been written for ``QUIET`` seconds."""
    found = [await _sample(url)]
    changed = found[0].at
    while True:
        await asyncio.sleep(0.2)
        found.append(await _sample(url))
        if found[-1].writes != found[-2].writes:
            changed = found[-1].at
        end = changed + QUIET if seconds is None else found[0].at + seconds
        if found[-1].at > end and found[-1].writes:
            return found


def _most_per_session(samples: list[Sample]) -> float:
    """The most writes between two samples, per session that began between them."""
    return max((b.writes - a.writes) / max(1.0, b.sessions - a.sessions) for a, b in pairwise(samples))


async def _vary(api: Api) -> None:
    """Changes the quota each second, but by too little for another Pod."""
    for milli in count():
        quota = {"spec": {"capability": {"cpu": f"{10_000 + milli % 999}m"}}}
        await api.patch(f"{SCHEDULING}/queues/team", json.dumps(quota).encode())
        await asyncio.sleep(1)


async def run(pods: int, seconds: float, console: Console) -> None:
    with tempfile.TemporaryDirectory() as name, ControlPlane(logs=Path(name)) as plane:
        folder = Path(name)
        plane.apply_crds()
        (folder / "scheduler.conf").write_text(CONFIGURATION, encoding="utf-8")
        table = Table(title=f"{pods:,} Pods of which the quota of their queue admits 10")
        for column in ("", "seconds", "writes", "writes/s", "most in a session", "cpu"):
            table.add_column(column, justify="right" if column else "left")
        async with Api.of(plane) as api:
            await api.post_all((path, json.dumps(raw).encode()) for path, raw in _objects(pods))
            (port,) = free_ports(1)
            options = (
                "--leader-elect=false",
                "--enable-metrics=true",
                f"--listen-address=127.0.0.1:{port}",
                f"--scheduler-conf={folder / 'scheduler.conf'}",
            )
            with running("scheduler", plane, folder, *options) as pid:
                url = f"http://127.0.0.1:{port}/metrics"
                await _until_served(url)
                for title, limit in (("first reasons", None), ("changing numbers", seconds)):
                    varying = asyncio.create_task(_vary(api)) if limit else None
                    cpu = cpu_seconds(pid)
                    samples = await _samples(url, limit)
                    if varying is not None:
                        varying.cancel()
                    first, last = samples[0], samples[-1]
                    report(f"{title}: most writes in a session", _most_per_session(samples))
                    table.add_row(
                        title,
                        f"{last.at - first.at:.0f}",
                        f"{last.writes - first.writes:,.0f}",
                        f"{(last.writes - first.writes) / (last.at - first.at):,.0f}",
                        f"{_most_per_session(samples):,.0f}",
                        f"{cpu_seconds(pid) - cpu:.1f} s",
                    )
        console.print(table)


async def _until_served(url: str) -> None:
    while True:
        try:
            await _sample(url)
            return
        except aiohttp.ClientError:
            await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=90.0, help="of the second phase")
    arguments = parser.parse_args()
    uvloop.run(run(arguments.pods, arguments.seconds, Console(width=120)))


if __name__ == "__main__":
    main()
