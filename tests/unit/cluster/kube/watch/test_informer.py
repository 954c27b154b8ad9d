"""List and watch: the objects that reach the cache, and the behaviour if the server fails or an object is malformed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.api.decisions import ObjectRef
from scheduler.api.kinds import CONFIG_MAP, Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.ratelimit import Backoff
from scheduler.cluster.kube.transport.sources import WatchSource, sources
from scheduler.cluster.kube.watch.informer import Informer, OriginalStore
from scheduler.observability.metrics import Metrics
from tests.unit import virtual_time
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, WatchFeed, refusal, serving, until

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"


class Cache:
    def __init__(self) -> None:
        self.objects: dict[str, KubeObject] = {}
        self.deleted: list[str] = []

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        if obj.metadata.name == "poison":
            raise ValueError("cannot")
        self.objects[f"{kind.name} {obj.metadata.namespace}/{obj.metadata.name}"] = obj

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self.deleted.append(name)
        self.objects.pop(f"{kind.name} {namespace}/{name}", None)

    @property
    def names(self) -> set[str]:
        return {obj.metadata.name for obj in self.objects.values()}


class World:
    def __init__(
        self,
        api: FakeApi,
        client: ApiClient,
        kind: str = "PodGroup",
        page: int = 100,
        originals: OriginalStore | None = None,
    ) -> None:
        self.api = api
        self.cache = Cache()
        self.problems: list[tuple[Malformed, ObjectRef]] = []
        source = next(s for s in sources() if s.kind.name == kind)
        self.informer = Informer(
            client,
            source,
            self.cache,
            lambda malformed, about: self.problems.append((malformed, about)),
            Metrics(),
            page=page,
            backoff=Backoff(0.01, 0.02),
            originals=originals,
        )


@asynccontextmanager
async def watching(setup: Callable[[FakeApi], None], **options: Any) -> AsyncIterator[World]:
    async with serving() as (api, client):
        setup(api)
        world = World(api, client, **options)
        task = asyncio.create_task(world.informer.run())
        try:
            yield world
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def group(name: str, version: int = 1, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"minMember": 1, **spec}}


def event(type_: str, obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": type_, "object": obj}


def lists_then_watches(*answers: dict[str, Any], feed: WatchFeed) -> Callable[[FakeApi], None]:
    """Lists are answered one after the other, and the last list is repeated; watches come from the feed."""
    remaining = list(answers)

    async def handler(call: Call, request: web.Request) -> Answer:
        if "watch" in call.query:
            return await feed(call, request)
        return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return lambda api: api.on("GET", GROUPS, handler)


def a_list(version: int, *items: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version)}, "items": list(items)}


def test_a_list_and_the_changes_after_it_reach_the_cache() -> None:
    async def scenario() -> None:
        feed = WatchFeed([event("ADDED", group("b", 11)), event("DELETED", group("a", 12))])
        async with watching(lists_then_watches(a_list(10, group("a")), feed=feed)) as world:
            await until(lambda: world.cache.names == {"b"})
            assert feed.versions == ["10"]
            assert world.informer.synced.is_set()

    virtual_time.run(scenario())


def test_the_keys_of_a_namespace_share_its_name() -> None:
    async def scenario() -> None:
        feed = WatchFeed([event("ADDED", group("c", 11))])
        async with watching(lists_then_watches(a_list(10, group("a"), group("b")), feed=feed)) as world:
            await until(lambda: world.cache.names == {"a", "b", "c"})
            assert len({id(namespace) for namespace, _ in world.informer.versions}) == 1

    virtual_time.run(scenario())


def test_a_broken_watch_is_resumed_from_the_last_bookmark_without_a_list() -> None:
    async def scenario() -> None:
        bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "77"}})
        feed = WatchFeed([event("ADDED", group("b", 11)), bookmark], [event("ADDED", group("c", 78))], [])
        async with watching(lists_then_watches(a_list(10), feed=feed)) as world:
            await until(lambda: world.cache.names == {"b", "c"} and len(feed.versions) == 3)
            assert feed.versions == ["10", "77", "78"]
            assert len([c for c in world.api.to("GET", GROUPS) if "watch" not in c.query]) == 1

    virtual_time.run(scenario())


def test_a_resource_version_that_is_too_old_causes_a_new_list_that_removes_deleted_objects() -> None:
    async def scenario() -> None:
        gone = event(
            "ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "too old", "metadata": {}}
        )
        feed = WatchFeed([gone], [])
        lists = (a_list(10, group("a"), group("b")), a_list(20, group("b"), group("c")))
        async with watching(lists_then_watches(*lists, feed=feed)) as world:
            await until(lambda: world.cache.names == {"b", "c"})
            assert world.cache.deleted == ["a"]
            await until(lambda: feed.versions == ["10", "20"])

    virtual_time.run(scenario())


def test_a_watch_answered_with_410_makes_it_list_again() -> None:
    async def scenario() -> None:
        watches: list[str] = []

        async def handler(call: Call, request: web.Request) -> Answer:
            if "watch" not in call.query:
                return a_list(10 + len(watches))
            watches.append(call.query["resourceVersion"])
            return refusal(410, "Expired", "too old")

        async with watching(lambda api: api.on("GET", GROUPS, handler)):
            await until(lambda: len(watches) >= 2)
            assert watches[:2] == ["10", "11"]

    virtual_time.run(scenario())


def test_an_object_that_cannot_be_read_is_set_aside_and_the_others_go_on() -> None:
    async def scenario() -> None:
        feed = WatchFeed(
            [
                event("MODIFIED", group("good", 11, minMember="many")),
                event("ADDED", group("late", 12)),
                event("MODIFIED", group("good", 13, minMember="many")),
            ]
        )
        first = a_list(10, group("good"), group("bad", minMember="three"), group("other"))
        async with watching(lists_then_watches(first, feed=feed)) as world:
            await until(lambda: "late" in world.cache.names)
            assert world.cache.names == {"good", "other", "late"}  # the last good version of "good" stays
            await until(lambda: len(world.problems) >= 2)
            (bad, about), (good, _) = world.problems
            assert (bad.kind, bad.namespace, bad.name, bad.field) == ("PodGroup", "ns", "bad", "spec.minMember")
            assert "int" in bad.problem
            assert about.uid == "uid-bad"
            assert good.name == "good"
            await asyncio.sleep(0.05)
            assert len(world.problems) == 2  # the same problem is reported once

    virtual_time.run(scenario())


def test_an_object_that_the_cache_cannot_read_does_not_stop_the_others() -> None:
    async def scenario() -> None:
        feed = WatchFeed([])
        async with watching(lists_then_watches(a_list(1, group("poison"), group("fine")), feed=feed)) as world:
            await world.informer.synced.wait()
            assert world.cache.names == {"fine"}
            assert world.problems[0][0].name == "poison"

    virtual_time.run(scenario())


def test_pages_make_one_list_and_an_expired_continuation_restarts_it() -> None:
    async def scenario() -> None:
        asked: list[dict[str, str]] = []

        async def handler(call: Call, request: web.Request) -> Answer:
            if "watch" in call.query:
                return await WatchFeed([])(call, request)
            asked.append(call.query)
            if call.query.get("continue"):
                return refusal(410, "Expired", "the continue token is too old")
            if "limit" not in call.query:
                return a_list(30, group("a"), group("b"))
            page = a_list(10, group("a"))
            page["metadata"]["continue"] = "next"
            return page

        async with watching(lambda api: api.on("GET", GROUPS, handler), page=1) as world:
            await world.informer.synced.wait()
            assert world.cache.names == {"a", "b"}
            assert asked == [{"limit": "1"}, {"limit": "1", "continue": "next"}, {}]

    virtual_time.run(scenario())


def test_a_definition_that_may_be_missing_is_not_waited_for() -> None:
    async def scenario() -> None:
        def setup(api: FakeApi) -> None:
            api.on("GET", "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies", missing)

        async def missing(call: Call, request: web.Request) -> Answer:
            return refusal(404, "NotFound", "no such resource")

        async with watching(setup, kind="Numatopology") as world:
            await until(world.informer.synced.is_set)
            assert "is the CRD installed?" in world.informer.problem, "it is said all the same"

    virtual_time.run(scenario())


def test_a_missing_definition_is_waited_for_and_said() -> None:
    async def scenario() -> None:
        served = False

        async def handler(call: Call, request: web.Request) -> Answer:
            if not served:
                return refusal(404, "NotFound", "no such resource")
            return await WatchFeed([])(call, request) if "watch" in call.query else a_list(1, group("a"))

        async with watching(lambda api: api.on("GET", GROUPS, handler)) as world:
            await until(lambda: world.informer.problem)
            assert "is the CRD installed?" in world.informer.problem
            assert not world.informer.synced.is_set()
            served = True
            await until(world.informer.synced.is_set)
            assert world.cache.names == {"a"}

    virtual_time.run(scenario())


def test_of_config_maps_only_those_of_accelerators_are_taken() -> None:
    async def scenario() -> None:
        path = "/api/v1/namespaces/kube-system/configmaps"

        async def handler(call: Call, request: web.Request) -> Answer:
            if "watch" in call.query:
                return await WatchFeed([])(call, request)
            names = ("mindx-dl-deviceinfo-n1", "kube-root-ca.crt")
            return a_list(1, *({"metadata": {"name": n, "namespace": "kube-system"}} for n in names))

        async with watching(lambda api: api.on("GET", path, handler), kind="ConfigMap") as world:
            await world.informer.synced.wait()
            assert world.cache.names == {"mindx-dl-deviceinfo-n1"}

    virtual_time.run(scenario())


def test_without_the_right_to_list_optional_objects_there_are_none_until_it_is_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.cluster.kube.watch.informer.RIGHTS_SECONDS", 0.01)
    path = "/api/v1/namespaces/mindx-dl/configmaps"

    async def scenario() -> None:
        allowed = False
        async with serving() as (api, client):

            async def review(call: Call, request: web.Request) -> Answer:
                assert call.body["spec"]["resourceAttributes"] == {
                    "verb": "list",
                    "group": "",
                    "resource": "configmaps",
                    "namespace": "mindx-dl",
                }
                return {"status": {"allowed": allowed}}

            async def handler(call: Call, request: web.Request) -> Answer:
                assert allowed, "a request that the API server refuses"
                if "watch" in call.query:
                    return await WatchFeed([])(call, request)
                return a_list(1, {"metadata": {"name": "mindx-dl-nodeinfo-n1", "namespace": "mindx-dl"}})

            api.on("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
            api.on("GET", path, handler)
            cache = Cache()
            source = WatchSource(CONFIG_MAP, "mindx-dl", labels="a=b", optional=True)
            informer = Informer(client, source, cache, lambda *_: None, Metrics(), backoff=Backoff(0.01, 0.02))
            task = asyncio.create_task(informer.run())
            await until(informer.synced.is_set)
            assert (informer.problem, cache.names) == ("no right to list them", set())
            allowed = True
            await until(lambda: cache.names == {"mindx-dl-nodeinfo-n1"})
            assert not informer.problem
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    virtual_time.run(scenario())


def test_every_source_has_a_path() -> None:
    assert {str(source): source.path for source in sources()}.items() >= {
        "pods": "/api/v1/pods",
        "queues": "/apis/scheduling.volcano.sh/v1beta1/queues",
        "configmaps in kube-system": "/api/v1/namespaces/kube-system/configmaps",
    }.items()


class StoredOriginals:
    """Keeps only the objects that it wants."""

    def __init__(self, wants: bool) -> None:
        self.wants = wants
        self.kept: dict[str, object] = {}

    def wants_original(self, kind: Kind) -> bool:
        return self.wants

    def keep_original(self, kind: Kind, namespace: str, name: str, original: object) -> None:
        self.kept[f"{kind.name} {namespace}/{name}"] = original


@pytest.mark.parametrize("wanted", [True, False])
def test_objects_are_kept_as_they_were_written_if_that_is_wanted(wanted: bool) -> None:
    async def scenario() -> None:
        feed = WatchFeed([event("ADDED", group("b", 11, unknown=[1])), event("MODIFIED", group("a", 12, unknown=2))])
        originals = StoredOriginals(wanted)
        listed = a_list(10, group("a"), group("c"))
        async with watching(lists_then_watches(listed, feed=feed), originals=originals) as world:
            await until(lambda: world.cache.names == {"a", "b", "c"})
            await until(lambda: world.cache.objects["PodGroup ns/a"].metadata.resource_version == "12")
        kept = {key: msgspec.json.decode(raw) for key, raw in originals.kept.items() if isinstance(raw, msgspec.Raw)}
        assert set(kept) == ({f"PodGroup ns/{name}" for name in "abc"} if wanted else set())
        if wanted:
            assert kept["PodGroup ns/b"] == group("b", 11, unknown=[1])
            assert kept["PodGroup ns/a"]["spec"]["unknown"] == 2

    virtual_time.run(scenario())


# --- nesting ---
def nested(name: str, depth: int) -> str:
    """A ResourceClaim whose parameters for a driver, which may be anything, are nested so deep."""
    deep = '{"a":' * depth + "1" + "}" * depth
    config = f'[{{"opaque":{{"driver":"d","parameters":{deep}}}}}]'
    metadata = json.dumps({"name": name, "namespace": "ns", "uid": name, "resourceVersion": "3"})
    return f'{{"metadata":{metadata},"spec":{{"devices":{{"config":{config}}}}}}}'


def claims(*answers: str, feed: WatchFeed) -> Callable[[FakeApi], None]:
    """Lists of ResourceClaims with the given items, one after the other; the last list is repeated."""
    remaining = list(answers)

    async def handler(call: Call, request: web.Request) -> Answer:
        if "watch" in call.query:
            return await feed(call, request)
        items = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return web.Response(text=f'{{"metadata":{{"resourceVersion":"3"}},"items":[{items}]}}')

    return lambda api: api.on("GET", "/apis/resource.k8s.io/v1/resourceclaims", handler)


@pytest.mark.parametrize("depth", [4_000, 9_999])
def test_an_object_may_be_nested_as_deep_as_api_servers_take_it(depth: int) -> None:
    async def scenario() -> None:
        answer = f"{nested('deep', depth)},{nested('flat', 1)}"
        later = f'{{"type":"ADDED","object":{nested("later", depth)}}}'
        async with watching(claims(answer, feed=WatchFeed([later])), kind="ResourceClaim") as world:
            await until(lambda: world.cache.names == {"deep", "flat", "later"})

    virtual_time.run(scenario())
