"""Manifests that take processor time are built in a thread, only when they are needed, and delay nothing else."""

import asyncio
import threading
from typing import Any

from scheduler.api.kinds import POD_GROUP, SECRET
from scheduler.controllers.effects import BuildAndCreate, Create, Plan
from tests.unit.cluster.kube.fake_api import until
from tests.unit.cluster.kube.operator.world import GROUPS, group, world


class Manifests:
    """Builds manifests in other threads, each when ``permitted`` is released once."""

    def __init__(self) -> None:
        self.permitted = threading.Semaphore(0)
        self.built: list[str] = []
        self.threads: set[int] = set()

    def creation(self, namespace: str, name: str) -> BuildAndCreate:
        def build() -> dict[str, Any]:
            assert self.permitted.acquire(timeout=30)
            self.built.append(name)
            self.threads.add(threading.get_ident())
            return {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}}

        return BuildAndCreate(SECRET, namespace, name, build, owner="job-1")


def secret_path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/secrets" + (f"/{name}" if name else "")


def test_an_expensive_manifest_is_built_beside_the_event_loop_and_created() -> None:
    async def scenario() -> None:
        async with world() as w:
            manifests = Manifests()
            w.api.answer("GET", secret_path("ns", "keys"), {}, status=404)
            w.api.answer("POST", secret_path("ns"), {"metadata": {"name": "keys"}}, status=201)

            w.queue("q", Plan().then(manifests.creation("ns", "keys")).then(Create(POD_GROUP, group("g"))))
            w.api.answer("POST", GROUPS, group("g"), status=201)
            await until(lambda: len(w.api.calls) == 1)
            w.queue("other", Plan())
            await until(lambda: w.controller.finished == ["other"])  # meanwhile

            manifests.permitted.release()
            await until(lambda: w.controller.finished == ["other", "q"])
            assert [call.method for call in w.api.calls] == ["GET", "POST", "POST"]
            assert manifests.threads.isdisjoint({threading.get_ident()})

    asyncio.run(scenario())


def test_an_expensive_manifest_is_not_built_for_an_object_that_exists() -> None:
    async def scenario() -> None:
        async with world() as w:
            manifests = Manifests()
            owner = {"kind": "Job", "name": "train", "uid": "job-1", "controller": True}
            there = {"metadata": {"namespace": "ns", "name": "keys", "ownerReferences": [owner]}}
            w.api.answer("GET", secret_path("ns", "keys"), there)

            w.queue("q", Plan().then(manifests.creation("ns", "keys")))
            await until(lambda: w.controller.finished == ["q"])

            assert (manifests.built, [call.method for call in w.api.calls]) == ([], ["GET"])

    asyncio.run(scenario())


def test_an_expensive_manifest_is_not_built_where_the_object_belongs_to_another_one() -> None:
    async def scenario() -> None:
        async with world() as w:
            manifests = Manifests()
            owner = {"kind": "Job", "name": "old", "uid": "job-0", "controller": True}
            there = {"metadata": {"namespace": "ns", "name": "keys", "ownerReferences": [owner]}}
            w.api.answer("GET", secret_path("ns", "keys"), there)

            w.queue("q", Plan().then(manifests.creation("ns", "keys")), Plan())
            await until(lambda: bool(w.controller.failures))

            problem = "secrets 'keys' is there already and belongs to Job old (job-0)"
            assert w.controller.failures == [("q", problem)]
            assert manifests.built == []

    asyncio.run(scenario())


def test_a_manifest_that_cannot_be_built_fails_its_object_alone() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.api.answer("GET", secret_path("ns", "keys"), {}, status=404)

            def raises() -> dict[str, Any]:
                raise ValueError("odd")

            w.queue("q", Plan().then(BuildAndCreate(SECRET, "ns", "keys", raises)), Plan())
            await until(lambda: w.controller.finished == ["q"])

            assert w.controller.failures == [("q", "ValueError: odd")]

    asyncio.run(scenario())


def test_manifests_that_wait_to_be_built_hold_up_no_other_writes_and_no_other_namespace() -> None:
    async def scenario() -> None:
        async with world(writes=2) as w:
            manifests = Manifests()
            for namespace in ("busy", "idle"):
                w.api.answer("POST", secret_path(namespace), {"metadata": {"name": "keys"}}, status=201)
            for i in range(20):
                w.api.answer("GET", secret_path("busy", f"k{i}"), {}, status=404)
            w.queue("busy", Plan().then(*(manifests.creation("busy", f"k{i}") for i in range(20))), namespace="busy")
            await until(lambda: len(w.api.calls) == 20)

            w.api.answer("POST", GROUPS, group("g"), status=201)
            w.queue("group", Plan().then(Create(POD_GROUP, group("g"))))
            await until(lambda: w.controller.finished == ["group"])

            w.api.answer("GET", secret_path("idle", "x"), {}, status=404)
            w.queue("idle", Plan().then(manifests.creation("idle", "x")), namespace="idle")
            await until(lambda: len(w.api.calls) == 22)
            for _ in range(3):
                manifests.permitted.release()
            await until(lambda: len(manifests.built) == 3)
            assert manifests.built[2] == "x"
            for _ in range(18):
                manifests.permitted.release()
            await until(lambda: len(w.controller.finished) == 3)

    asyncio.run(scenario())
