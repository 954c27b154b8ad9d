"""``--watch`` in a separate process, until Ctrl-C; and the live view."""

import asyncio
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from aiohttp import web

from tests.unit.cli.cluster import ALL_GROUPS, GROUPS, JOBS, PODS, QUEUES, Cluster, Raw, job, pod_group
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal

pytestmark = pytest.mark.slow

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
def watching(
    cluster: Cluster, *arguments: str, stdin: int | None = None, stdout: int = subprocess.PIPE
) -> Iterator["subprocess.Popen[str]"]:
    """A process that ends with the test."""
    line = [sys.executable, "-m", "scheduler.cli.main", *arguments, "-k", str(cluster.kubeconfig)]
    # The module readline, which pytest loads, sets LINES and COLUMNS, also for the processes of pytest-xdist.
    environment = {name: value for name, value in os.environ.items() if name not in ("LINES", "COLUMNS")}
    with subprocess.Popen(
        line, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
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


@contextmanager
def terminal(cluster: Cluster, *arguments: str, lines: int = 24, columns: int = 100) -> Iterator["Terminal"]:
    """A command on its own terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    with watching(cluster, *arguments, stdin=theirs, stdout=theirs) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            os.close(ours)


class Terminal:
    def __init__(self, process: "subprocess.Popen[str]", fd: int) -> None:
        self.process = process
        self._fd = fd
        self._read = ""

    def shows(self, *texts: str) -> str:
        """Waits until one frame has all the texts, and returns it."""
        while not all(text in self.frame for text in texts):
            self._read += os.read(self._fd, 4096).decode("utf-8", "replace")
        return self.frame

    @property
    def frame(self) -> str:
        """The last complete frame, without control sequences."""
        _, *frames = self._read.split("\x1b[H")
        complete = frames[:-1]  # the last one may have been read in part
        return re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", complete[-1]).rstrip() if complete else ""

    def press(self, key: str) -> None:
        os.write(self._fd, key.encode())

    def rest(self) -> str:
        """The output of the command until it ends."""
        with suppress(OSError):  # the other end is closed
            while data := os.read(self._fd, 4096):
                self._read += data.decode("utf-8", "replace")
        self.process.wait()
        return self._read


def test_top_is_live_on_a_terminal_until_ctrl_c(cluster: Cluster) -> None:
    begin = changes(cluster, JOBS, [job("a", status=PENDING)], event("MODIFIED", job("a", status=RUNNING)))
    changes(cluster, GROUPS, [])
    changes(cluster, PODS, [])

    with terminal(cluster, "job", "top") as shown:
        shown.shows("Pending")
        begin.set()
        shown.shows("Running")
        shown.process.send_signal(signal.SIGINT)
        printed = shown.rest()

    assert shown.process.returncode == 130
    assert printed.count("\x1b[?1049h") == printed.count("\x1b[?1049l") == 1


def test_q_ends_a_live_view_and_leaves_the_last_frame_and_the_warnings(cluster: Cluster) -> None:
    changes(cluster, JOBS, [job("a", status=PENDING), {**job("b"), "spec": {"tasks": 7}}])
    changes(cluster, GROUPS, [])
    changes(cluster, PODS, [])

    with terminal(cluster, "job", "top") as shown:
        shown.shows("Pending")
        shown.press("q")
        after = shown.rest().rpartition("\x1b[?1049l")[2]
        assert shown.process.stderr is not None
        warnings = shown.process.stderr.read()

    assert shown.process.returncode == 0
    assert [line.split()[0] for line in after.splitlines()] == ["Name", "a"]
    assert warnings.startswith("warning: Job default/b is not shown: ")


def test_a_line_as_wide_as_the_terminal_is_whole(cluster: Cluster) -> None:
    """Given a terminal that keeps the cursor on the last character of such a line, as all terminals do."""
    failed = {"state": {"phase": "Failed", "message": "x" * 62 + " end"}}
    for path, objects in ((JOBS, [job("a", status=failed)]), (GROUPS, []), (PODS, [])):
        changes(cluster, path, objects)

    with terminal(cluster, "job", "top", columns=76) as shown:
        assert shown.shows("Reason").splitlines()[-1] == "  Reason: " + "x" * 62 + " end"
        shown.press("q")
        read = shown.rest()

    assert " end\x1b" not in read


def test_a_live_view_has_the_height_of_the_terminal_and_waiting_gangs_first(cluster: Cluster) -> None:
    failed = {"state": {"phase": "Failed", "message": "retries are used up"}}
    jobs = [job(f"job-{i:02}", status=RUNNING) for i in range(20)]
    changes(cluster, JOBS, [*jobs, job("lost", status=failed)])
    changes(cluster, GROUPS, [])
    changes(cluster, PODS, [])

    with terminal(cluster, "job", "top", lines=8) as shown:
        lines = shown.shows("lost").splitlines()
        shown.press("q")
        shown.rest()
    assert [line.split()[0] for line in lines] == [
        "Name",
        "lost",
        "Reason:",
        "job-00",
        "job-01",
        "job-02",
        "job-03",
        "...",
    ]
    assert lines[-1] == "... 16 more rows do not fit on this screen"


def test_top_without_a_terminal_prints_the_gangs_that_change(cluster: Cluster) -> None:
    begin = changes(cluster, JOBS, [job("a", status=PENDING)], event("MODIFIED", job("a", status=RUNNING)))
    changes(cluster, GROUPS, [])
    changes(cluster, PODS, [])

    with watching(cluster, "job", "top", "--watch") as process:
        rows = words(process, 2)
        begin.set()
        rows += words(process, 1)

    assert [row[3] for row in rows] == ["Phase", "Pending", "Running"]
