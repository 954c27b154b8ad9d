"""Measures which files of the scheduler one Pod passes from its watch event to the request that binds it.

``python -m tests.unit.cluster.kube.test_pod_path`` prints the files in the order in which they are first called, with
the functions. A file counts if one of its functions is called on the event loop or on the thread of the session.
"""

import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from aiohttp import web

import scheduler
from scheduler.api.names import GROUP_NAME
from tests.unit.cluster.kube.fake_api import PODS, Answer, Call, until
from tests.unit.cluster.kube.scheduler.test_daemon import World, started
from tests.unit.cluster.kube.test_churn import Raw, deliver, informers, metadata, settled

ROOT = Path(scheduler.__file__).parent
MAX_FILES = 98


class CalledFunctions:
    """The functions of the package that are called while ``recording``, on the event loop and on threads that start
    within ``profiling``."""

    def __init__(self) -> None:
        self.recording = False
        self._called: dict[CodeType, None] = {}

    @contextmanager
    def profiling(self) -> Iterator[None]:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def by_file(self) -> dict[str, list[str]]:
        """The names of the functions by file, files in the order of their first call."""
        files: dict[str, list[str]] = {}
        for code in self._called:
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT):
                files.setdefault(str(path.relative_to(ROOT)), []).append(code.co_qualname)
        return files

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.recording and event == "call" and frame.f_code.co_name != "<module>":
            self._called[frame.f_code] = None


async def bind_two_pods(directory: Path) -> dict[str, list[str]]:
    """The functions called for the second Pod, by file. The first Pod also pays for one-time set-up, and its session
    computes the figures of the period."""
    called = CalledFunctions()
    with called.profiling():
        async with started(directory / "scheduler.conf", period=60.0) as world:

            async def bind(call: Call, request: web.Request) -> Answer:
                called.recording = False
                return {}

            world.api.answer("POST", "/api.*/events", status=201)
            world.api.answer("PATCH", "/api.*")
            world.api.on("POST", f"{PODS}/[^/]+/binding", bind)
            daemon = world.daemon
            daemon._fence.open_forever()
            await daemon._client.start()
            await daemon._sign()
            watchers = informers(daemon._informers)
            deliver(
                watchers, "ADDED", "Queue", {"metadata": {"name": "default", "uid": "default"}, "spec": {"weight": 1}}
            )
            for i in range(3):
                amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
                node = {"metadata": {"name": f"n{i}", "uid": f"n{i}"}, "status": {"allocatable": amounts}}
                deliver(watchers, "ADDED", "Node", node)
            await bind_pod(world, "first", cpu="1")
            called.recording = True
            await bind_pod(world, "second", cpu="2")
            await daemon._lanes.close()
            await daemon._client.close()
    return called.by_file()


async def bind_pod(world: World, name: str, *, cpu: str) -> None:
    """Delivers a gang of one and runs a cycle."""
    watchers = informers(world.daemon._informers)
    requests = {"cpu": cpu, "memory": "1Gi"}
    group: Raw = {"minMember": 1, "queue": "default", "minResources": requests}
    deliver(watchers, "ADDED", "PodGroup", {"metadata": metadata(name, 1), "spec": group})
    container = {"name": "main", "image": "image", "resources": {"requests": requests}}
    pod = metadata(name, 1, annotations={GROUP_NAME: name}) | {"uid": f"pod-{name}"}
    deliver(
        watchers, "ADDED", "Pod", {"metadata": pod, "spec": {"schedulerName": "volcano-py", "containers": [container]}}
    )
    await world.daemon._run_cycle()
    await until(lambda: bool(world.api.to("POST", f"{PODS}/{name}/binding")))
    await settled(world.daemon._lanes)


def test_the_path_of_a_pod_from_its_watch_event_to_its_binding_leads_through_few_files(tmp_path: Path) -> None:
    files = asyncio.run(bind_two_pods(tmp_path))
    assert "cluster/kube/watch/informer.py" in files and "cluster/kube/write/placements.py" in files
    assert len(files) <= MAX_FILES, sorted(files)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        files = asyncio.run(bind_two_pods(Path(directory)))
    for file, functions in files.items():
        print(f"{file:48} {len(functions):3}  {', '.join(functions)}")
    print(f"{len(files)} files")


if __name__ == "__main__":
    main()
