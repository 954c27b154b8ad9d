"""``--watch`` in a separate process, until Ctrl-C; and the live view."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import msgspec
from aiohttp import web
from rich.console import Console

from scheduler.api.batch import Job
from scheduler.cli.job.gang import gangs
from scheduler.cli.job.top import live_table, top_view
from tests.unit.cli.cluster import ALL_GROUPS, GROUPS, JOBS, QUEUES, Cluster, Raw, job, pod_group
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal

PENDING = {"state": {"phase": "Pending"}}
RUNNING = {"state": {"phase": "Running"}, "running": 3}


def changes(cluster: Cluster, path: str, first: list[Raw], *events: Raw) -> threading.Event:
    """Answers a list, then a watch that stays open and sends the events when the returned Event is set."""
    begin = threading.Event()

    async def answer(call: Call, request: web.Request) -> Answer:
        if "watch" not in call.query:
            return {"metadata": {"resourceVersion": "7"}, "items": first}
        response = web.StreamResponse()
        await response.prepare(request)
        left = list(events)
        while request.transport is not None and not request.transport.is_closing():
            while left and begin.is_set():
                await response.write(json.dumps(left.pop(0)).encode() + b"\n")
            await asyncio.sleep(0.01)
        return response

    cluster.api.on("GET", path, answer)
    return begin


def event(kind: str, obj: Raw) -> Raw:
    return {"type": kind, "object": obj}


@contextmanager
def watching(cluster: Cluster, *arguments: str, stdout: int = subprocess.PIPE) -> Iterator["subprocess.Popen[str]"]:
    """A process that ends with the test."""
    line = [sys.executable, "-m", "scheduler.cli.main", *arguments, "-k", str(cluster.kubeconfig)]
    with subprocess.Popen(line, stdout=stdout, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: "subprocess.Popen[str]", count: int) -> list[str]:
    """The next lines that it prints."""
    assert process.stdout is not None
    return [process.stdout.readline() for _ in range(count)]


def words(process: "subprocess.Popen[str]", count: int) -> list[list[str]]:
    return [line.split() for line in lines(process, count)]


def test_rows_that_change_are_printed_again_until_interrupted(cluster: Cluster) -> None:
    begin = changes(
        cluster,
        JOBS,
        [job("a", status=PENDING), job("b", status=PENDING)],
        event("MODIFIED", job("b", status=RUNNING)),
        event("DELETED", job("a")),
        event("ADDED", job("c", status=PENDING)),
    )

    with watching(cluster, "job", "list", "--watch", "-l", "team=a") as process:
        rows = words(process, 3)
        begin.set()
        rows += words(process, 2)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()

    assert [(row[0], row[2]) for row in rows] == [
        ("Name", "Phase"),
        ("a", "Pending"),
        ("b", "Pending"),
        ("b", "Running"),
        ("c", "Pending"),
    ]
    assert (process.returncode, rest, errors) == (130, "", "")
    assert {call.query["labelSelector"] for call in cluster.api.calls} == {"team=a"}


def test_a_queue_is_printed_again_when_its_pod_groups_change(cluster: Cluster) -> None:
    queue = {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}
    changes(cluster, QUEUES, [queue])
    begin = changes(cluster, ALL_GROUPS, [pod_group("a")], event("MODIFIED", pod_group("a", phase="Running")))

    with watching(cluster, "queue", "list", "-w") as process:
        rows = words(process, 2)
        begin.set()
        rows += words(process, 1)

    assert rows[0][-5:] == ["Inqueue", "Pending", "Running", "Unknown", "Completed"]
    assert [row[-5:] for row in rows[1:]] == [["0", "1", "0", "0", "0"], ["0", "0", "1", "0", "0"]]


def test_watching_in_json_prints_whole_objects(cluster: Cluster) -> None:
    changes(cluster, JOBS, [job("a", status=PENDING)])
    cluster.api.answer("GET", f"{JOBS}/a", {**job("a"), "extra": 1})

    with watching(cluster, "job", "list", "-w", "-o", "json") as process:
        text = ""
        while not text.endswith("\n}\n"):
            text += "".join(lines(process, 1))

    assert json.loads(text) == {**job("a"), "extra": 1}


def test_a_watch_that_the_server_refuses_ends_at_once(cluster: Cluster) -> None:
    async def refuse(call: Call, request: object) -> Answer:
        return refusal(403, "Forbidden", 'jobs is forbidden: User "eve" cannot list')

    cluster.api.on("GET", JOBS, refuse)

    assert 'jobs is forbidden: User "eve" cannot list' in cluster.refuses("job", "list", "-w")


def frame(width: int, **console: Any) -> str:
    jobs = [msgspec.convert(job("train-with-a-long-name", status=PENDING), Job)]
    text = StringIO()
    rows = gangs(jobs, [])
    Console(file=text, width=width, **console).print(live_table(top_view("default"), rows))
    return text.getvalue()


def test_the_live_view_draws_a_bar_for_each_gang() -> None:
    titles, row = frame(160).splitlines()

    assert titles.split() == ["Name", "Gang", "Ready/Min/All", "Phase", "Queue", "Age", "Reason"]
    assert row.split()[:5] == ["train-with-a-long-name", "░" * 13 + "▏" + "░" * 6, "0/2/3", "Pending", "default"]
    assert "\x1b[33mPending" in frame(160, force_terminal=True, color_system="standard")


def test_top_is_live_on_a_terminal(cluster: Cluster) -> None:
    begin = changes(cluster, JOBS, [job("a", status=PENDING)], event("MODIFIED", job("a", status=RUNNING)))
    changes(cluster, GROUPS, [])
    ours, theirs = pty.openpty()

    with watching(cluster, "job", "top", stdout=theirs) as process:
        os.close(theirs)
        seen = b""
        for phase in (b"Pending", b"Running"):
            while phase not in seen:
                seen += os.read(ours, 4096)
            begin.set()
        process.send_signal(signal.SIGINT)
        process.wait()
    os.close(ours)

    assert process.returncode == 130


def test_top_without_a_terminal_prints_the_gangs_that_change(cluster: Cluster) -> None:
    begin = changes(cluster, JOBS, [job("a", status=PENDING)], event("MODIFIED", job("a", status=RUNNING)))
    changes(cluster, GROUPS, [])

    with watching(cluster, "job", "top", "--watch") as process:
        rows = words(process, 2)
        begin.set()
        rows += words(process, 1)

    assert [row[3] for row in rows] == ["Phase", "Pending", "Running"]
