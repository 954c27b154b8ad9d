"""The process that answers tenants reads the cluster once and follows its changes."""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from scheduler.cli.visibility_worker import COMMAND
from scheduler.cluster.kube.scheduler.visibility.answers import Worker, WorkerAnswer, WorkerAnswers
from tests.builders import Raw, group, node, pod, queue
from tests.unit.cli.cluster import ALL_GROUPS, QUEUES, write_kubeconfig
from tests.unit.cluster.kube.fake_api import Call, FakeApi, refusal, serving

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"


class Source:
    """The objects of one kind, of which an API server sends lists and changes."""

    def __init__(self, api: FakeApi, path: str, *objects: Raw) -> None:
        self.lists = 0
        self._objects = {each["metadata"]["name"]: each for each in objects}
        self._version = 1
        self._changed = asyncio.Condition()
        self._lines: list[bytes] = []
        self.refused = False
        api.on("GET", path, self._answer)
        api.on("GET", path.replace("/pods", "/namespaces/default/pods"), self._answer)
        api.on("GET", path.replace("/podgroups", "/namespaces/default/podgroups"), self._answer)

    async def _answer(self, call: Call, request: web.Request) -> Any:
        if self.refused:
            return refusal(403, "Forbidden", "no right")
        if "watch" in call.query:
            return await self._stream(request)
        name = call.query.get("fieldSelector", "").removeprefix("metadata.name=")
        self.lists += not name
        items = [each for each in self._objects.values() if not name or each["metadata"]["name"] == name]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        sent = 0
        while True:
            async with self._changed:
                while len(self._lines) <= sent:
                    await self._changed.wait()
            for line in self._lines[sent:]:
                await response.write(line)
            sent = len(self._lines)

    async def change(self, kind: str, changed: Raw) -> None:
        """Sends a change: ADDED, MODIFIED or DELETED."""
        self._version += 1
        changed["metadata"]["resourceVersion"] = str(self._version)
        self._objects[changed["metadata"]["name"]] = changed
        if kind == "DELETED":
            del self._objects[changed["metadata"]["name"]]
        async with self._changed:
            self._lines.append(json.dumps({"type": kind, "object": changed}).encode() + b"\n")
            self._changed.notify_all()


def live(raw: Raw) -> Raw:
    meta = raw["metadata"]
    meta.update(uid=f"{raw['kind']}-{meta['name']}", creationTimestamp="2026-01-01T00:00:00Z", resourceVersion="1")
    return raw


class World:
    """An API server with a node of 4 cpu, and a Pod that asks for 6; and the process that answers about it."""

    def __init__(self, api: FakeApi, directory: Path, **settings: Any) -> None:
        kubeconfig = directory / "kubeconfig"
        write_kubeconfig(kubeconfig, api.url)
        self.nodes = Source(api, NODES, live(node("n1", "4c")))
        self.queues = Source(api, QUEUES, live(queue("default")))
        self.groups = Source(api, ALL_GROUPS, live(group("g", phase="Inqueue")))
        self.pods = Source(api, PODS, live(pod("p", "6c", "g")))
        settings = {"kubeconfig": str(kubeconfig), "scheduler_names": ["volcano-py"], **settings}
        self.answers = WorkerAnswers(Worker((sys.executable, *COMMAND[1:]), settings))

    async def explained(self, name: str = "p") -> WorkerAnswer:
        return await self.answers.explain("pod", "default", name)


def run(directory: Path, scenario: Callable[[World], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def with_server() -> None:
        async with serving() as (api, _):
            world = World(api, directory, **settings)
            try:
                await scenario(world)
            finally:
                await world.answers.close()

    asyncio.run(asyncio.wait_for(with_server(), 120))


def text(answer: WorkerAnswer) -> str:
    return bytes(answer.body).decode() + answer.message + answer.trace


@pytest.mark.slow
def test_a_change_is_in_the_next_answer_without_another_list(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        first = await world.explained()
        assert first.status == 200 and "asked 6" in text(first), text(first)
        await world.nodes.change("ADDED", live(node("n2", "8c")))
        second = await world.explained()
        assert '"outlook":"starts"' in text(second), text(second)
        await world.nodes.change("DELETED", live(node("n2", "8c")))
        assert "asked 6" in text(await world.explained())
        await world.pods.change("ADDED", live(pod("q", "1c", "h")))
        await world.groups.change("ADDED", live(group("h", phase="Inqueue")))
        assert '"outlook":"starts"' in text(await world.explained("q"))
        assert (world.nodes.lists, world.pods.lists, world.groups.lists) == (1, 1, 1)

    run(tmp_path, scenario)


@pytest.mark.slow
def test_another_configuration_is_that_of_the_next_answer(tmp_path: Path) -> None:
    configuration = tmp_path / "conf"
    configuration.write_text("actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n")

    async def scenario(world: World) -> None:
        assert (await world.explained()).status == 200
        configuration.write_text("actions: nonsense\n")
        refused = await world.explained()
        assert refused.status == 500 and "nonsense" in refused.message

    run(tmp_path, scenario, configuration=str(configuration))


@pytest.mark.slow
def test_a_cluster_that_cannot_be_read_is_an_error_that_names_the_reason(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.nodes.refused = True
        answer = await world.explained()
        assert answer.status == 500 and "watch nodes: not allowed: no right" in answer.message

    run(tmp_path, scenario)


@pytest.mark.slow
def test_without_a_cluster_the_question_is_answered_with_the_error(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        answer = await world.explained()
        assert answer.status == 500 and "nonexistent" in answer.message

    run(tmp_path, scenario, kubeconfig="/nonexistent")


@pytest.mark.slow
def test_an_object_that_is_missing_is_not_found(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        answer = await world.explained("missing")
        assert (answer.status, answer.message) == (404, "there is no pod missing in namespace default")

    run(tmp_path, scenario)
