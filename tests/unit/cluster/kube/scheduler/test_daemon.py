"""The scheduler as a process: it becomes the leader without reading everything again, and continues whatever a plugin
does."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.api.decisions import ObjectRef
from scheduler.api.kinds import POD, Kind
from scheduler.api.names import SHARD_FINALIZER
from scheduler.cache import ClusterCache, cluster_cache
from scheduler.cache.shards import ShardClaims
from scheduler.cluster.kube.process import liveness
from scheduler.cluster.kube.process.lease import LeaseSettings
from scheduler.cluster.kube.process.reload import ConfigurationFile
from scheduler.cluster.kube.process.settings import ProcessSettings
from scheduler.cluster.kube.scheduler import cycle_timer, session_preconditions, status_throttle
from scheduler.cluster.kube.scheduler import daemon as daemons
from scheduler.cluster.kube.scheduler.daemon import Daemon
from scheduler.cluster.kube.scheduler.report import CycleReport
from scheduler.cluster.kube.scheduler.settings import DaemonSettings
from scheduler.cluster.kube.scheduler.visibility.role import Visibility
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION
from scheduler.framework.cycle import Outcome, SessionDemand, run_cycle
from scheduler.framework.failures import PluginError
from scheduler.observability.metrics import Metrics
from tests.builders import feed, group, node, pod, queue
from tests.unit.cache.test_shards import shard as node_shard
from tests.unit.cluster.kube.fake_api import Answer, Call, FakeApi, StaticCredentials, healthz, serving, until
from tests.unit.cluster.kube.process.test_lease import Leases

PODS = "/api/v1/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
NODES = "/api/v1/nodes"
NODE_SHARDS = "/apis/shard.volcano.sh/v1alpha1/nodeshards"


class World:
    """An empty cluster and a scheduler that has not been started."""

    def __init__(self, api: FakeApi, path: Path, period: float, shard: str, **process: Any) -> None:
        self.api = api
        self.path = path
        self.metrics = Metrics()
        self.leases = Leases(api)
        self.cache = ClusterCache(["volcano-py"], shard=shard)
        path.write_text(DEFAULT_CONFIGURATION, encoding="utf-8")
        self.daemon = Daemon(
            DaemonSettings(("volcano-py",), ProcessSettings(**process), schedule_period=period, shard=shard),
            ConfigurationFile(str(path)),
            self.cache,
            StaticCredentials(api.url),
            self.metrics,
        )

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    @property
    def cycles(self) -> float:
        return self.value("volcano_e2e_scheduling_latency_milliseconds_count") + self.value(
            "volcano_py_cycles_skipped_total"
        )

    def lists(self, path: str) -> list[str]:
        """The parts of a collection that were requested: objects, or only their metadata."""
        calls = [call for call in self.api.to("GET", path) if "watch" not in call.query]
        return ["metadata" if "PartialObjectMetadataList" in call.headers["Accept"] else "objects" for call in calls]


LEASE = LeaseSettings("volcano-system", "volcano-py", retry_period=0.1)
"""A lease that is not lost on a loaded machine."""


async def empty(call: Call, request: web.Request) -> Answer:
    """An empty list, and a watch without events."""
    if "watch" not in call.query:
        return {"metadata": {"resourceVersion": "5"}, "items": []}
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.sleep(60)
    return response


@asynccontextmanager
async def started(path: Path, *, period: float = 0.02, shard: str = "", **process: Any) -> AsyncIterator[World]:
    """``path``: the configuration file; ``period``: the longest pause between two sessions, in seconds; ``shard``: name
    of its NodeShard; ``process``: of the ProcessSettings."""
    async with serving() as (api, _):
        api.on("GET", "/api.*", empty)
        api.answer("POST", QUEUES, {"metadata": {"name": "made"}}, status=201)
        world = World(api, path, period, shard, **process)
        yield world


@pytest.mark.slow
def test_a_standby_takes_over_by_versions_and_not_by_reading_everything_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf", lease=LEASE) as w:
            spec = {"holderIdentity": "another", "leaseDurationSeconds": 1}
            w.leases.lease = {"metadata": {"name": "volcano-py", "resourceVersion": "1"}, "spec": spec}
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            assert w.lists(PODS) == w.lists(GROUPS) == ["objects", "metadata"]
            w.daemon.process.stop()
            assert await running == 0
            assert w.leases.holder == ""

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.parametrize("waits", [False, True])
def test_who_takes_over_a_shard_uses_no_node_that_the_last_leader_has_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """The watch still shows the claim when the lease is acquired, with or without a wait."""
    late = node_shard("s", "n1", in_use="n1", resourceVersion="5", finalizers=[SHARD_FINALIZER])
    now = node_shard("s", "", resourceVersion="9", finalizers=[SHARD_FINALIZER])
    used: list[Collection[str]] = []

    async def scenario() -> None:
        asked = asyncio.Event()

        async def node_shards(call: Call, request: web.Request) -> Answer:
            if "PartialObjectMetadataList" in call.headers["Accept"]:
                asked.set()
                return {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": now["metadata"]}]}
            if "watch" not in call.query:
                return {"metadata": {"resourceVersion": "5"}, "items": [late]}
            response = web.StreamResponse()
            await response.prepare(request)
            await asked.wait()
            await response.write(json.dumps({"type": "MODIFIED", "object": now}).encode() + b"\n")
            await asyncio.sleep(60)
            return response

        async with started(tmp_path / "scheduler.conf", shard="s", lease=LEASE) as w:
            w.api.on("GET", NODE_SHARDS, node_shards)
            w.api.answer("GET", NODES, {"metadata": {"resourceVersion": "5"}, "items": [node("n1", "4c+1Gi")]})
            use = w.cache.use_shard

            def recorded(claims: ShardClaims) -> None:
                used.append(claims.nodes.usable)
                use(claims)

            monkeypatch.setattr(w.cache, "use_shard", recorded)
            if waits:
                spec = {"holderIdentity": "another", "leaseDurationSeconds": 1}
                w.leases.lease = {"metadata": {"name": "volcano-py", "resourceVersion": "1"}, "spec": spec}
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())
    assert used
    assert not any(used)


def test_config_maps_of_plugins_are_listed_while_a_new_leader_catches_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        listed = asyncio.Event()

        async def config_maps(call: Call, request: web.Request) -> Answer:
            listed.set()
            return await empty(call, request)

        async def pods(call: Call, request: web.Request) -> Answer:
            if "PartialObjectMetadataList" in call.headers["Accept"]:
                await listed.wait()
            return await empty(call, request)

        required = CacheRequirements(config_maps=frozenset({("plugins", "settings")}))
        monkeypatch.setattr(session_preconditions, "cache_requirements_of", lambda *_: required)
        async with started(tmp_path / "scheduler.conf", lease=LEASE) as w:
            w.api.on("GET", "/api/v1/namespaces/plugins/configmaps", config_maps)
            w.api.on("GET", PODS, pods)
            spec = {"holderIdentity": "another", "leaseDurationSeconds": 60}
            w.leases.lease = {"metadata": {"name": "volcano-py", "resourceVersion": "1"}, "spec": spec}
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.daemon.process.liveness.phase is liveness.Phase.STANDING_BY)
            assert not listed.is_set()
            spec["holderIdentity"] = ""
            await until(lambda: w.cycles)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_the_first_to_lead_asks_for_nothing_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf", lease=LEASE) as w:
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            assert w.lists(PODS) == ["objects"]
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_no_session_sees_a_part_of_a_list(tmp_path: Path) -> None:
    whole = asyncio.Event()

    async def pods(call: Call, request: web.Request) -> Answer:
        if "watch" in call.query:
            return await empty(call, request)
        name = call.query.get("continue", "first")
        if name == "second":
            await whole.wait()
        metadata = {"resourceVersion": "5", "continue": "second", "remainingItemCount": 1}
        items = [{"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": "n"}}]
        return {"metadata": metadata if name == "first" else {"resourceVersion": "5"}, "items": items}

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf", health_address="127.0.0.1:0") as w:
            w.api.on("GET", PODS, pods)
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.value("volcano_py_listed_objects", source="pods") == 1)
            await until(lambda: w.value("volcano_py_synced", source="queues") == 1)
            await asyncio.sleep(0.1)
            assert (w.cycles, w.value("volcano_py_synced", source="pods")) == (0, 0)
            assert w.value("volcano_py_expected_objects", source="pods") == 2
            assert await healthz(w.daemon.process.server) == (200, "ok")
            assert await healthz(w.daemon.process.server, "/readyz") == (503, "not listed yet: pods (1 of 2)")
            whole.set()
            await until(lambda: w.cycles)
            assert w.value("volcano_py_synced", source="pods") == 1
            assert await healthz(w.daemon.process.server, "/readyz") == (200, "ok")
            assert {task.key for task in w.cache.tasks()} == {"ns/first", "ns/second"}
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_a_list_that_takes_long_logs_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cluster.kube.watch.informer_set.LISTING_SECONDS", 0.02)

    async def nodes(call: Call, request: web.Request) -> Answer:
        await asyncio.sleep(60)
        return None

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            w.api.on("GET", "/api/v1/nodes", nodes)
            with capture_logs() as logs:
                running = asyncio.create_task(w.daemon.run())
                await until(lambda: any(entry["event"] == "listing" for entry in logs))
            entry = next(entry for entry in logs if entry["event"] == "listing" and entry["source"] == "nodes")
            assert (entry["objects"], entry["expected"]) == (0, 0)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_health_fails_when_sessions_no_longer_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, free = threading.Event(), threading.Event()

    def never_ends(*_: Any, **__: Any) -> None:
        begun.set()
        free.wait(10)
        raise TimeoutError

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf", health_address="127.0.0.1:0") as w:
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            assert await healthz(w.daemon.process.server) == (200, "ok")
            monkeypatch.setattr(daemons, "run_cycle", never_ends)
            w.daemon._cycle_timer.require_cycle()
            await until(begun.is_set)
            monkeypatch.setattr(liveness, "STUCK", 0.0)
            status, text = await healthz(w.daemon.process.server)
            assert status == 503 and text.startswith("leading: no progress for ")
            free.set()
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_a_long_session_is_healthy_while_it_goes_on_searching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def takes_long(*arguments: Any, make_session: Any, **more: Any) -> Outcome:
        session = make_session(*arguments, **more)
        begun.set()
        while not ended.wait(0.01):
            session.searches += 1
        return run_cycle(*arguments, **more)

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf", health_address="127.0.0.1:0") as w:
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            monkeypatch.setattr(liveness, "WATCH_PERIOD", 0.02)
            monkeypatch.setattr(daemons, "run_cycle", takes_long)
            monkeypatch.setattr(w.daemon._cycle_timer, "is_brief", lambda *_: False)
            w.daemon._cycle_timer.require_cycle()
            await until(begun.is_set)
            before = w.daemon.process.liveness._at
            await until(lambda: w.daemon.process.liveness._at > before + 0.1)
            assert await healthz(w.daemon.process.server) == (200, "ok")
            ended.set()
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_a_plugin_that_fails_over_a_new_configuration_does_not_end_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)

            def fail(*_: object) -> None:
                raise ZeroDivisionError

            monkeypatch.setattr(session_preconditions, "cache_requirements_of", fail)
            w.path.write_text(f"{DEFAULT_CONFIGURATION}\n# changed\n", encoding="utf-8")
            await until(lambda: w.value("volcano_py_cycle_errors_total"))
            before = w.cycles
            await until(lambda: w.cycles > before)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_no_session_runs_until_what_a_new_configuration_requires_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            listed, asked = asyncio.Event(), []

            async def list_again(kinds: Collection[Kind], stop: asyncio.Event) -> bool:
                asked.append(kinds)
                return await listed.wait()

            monkeypatch.setattr(w.daemon._informers, "list_again", list_again)
            required = CacheRequirements(pod_annotations=frozenset({"example.com/stage"}))
            monkeypatch.setattr(cluster_cache, "cache_requirements_of", lambda *_: required)
            w.path.write_text(f"{DEFAULT_CONFIGURATION}\n# changed\n", encoding="utf-8")
            await until(lambda: asked)
            before = w.cycles
            await asyncio.sleep(0.1)
            assert w.cycles == before and asked == [{POD}]
            listed.set()
            await until(lambda: w.cycles > before)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_a_plugin_that_raises_is_named_in_the_log_and_on_its_object_and_cycles_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in any failed cycle, nothing is decided, the error is counted, and the next cycle tries again."""
    group = ObjectRef("scheduling.volcano.sh/v1beta1", "PodGroup", "default", "g", "uid-g")

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            w.api.answer("POST", "/api/v1/namespaces/default/events", {}, status=201)
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)

            def fail(*_: object, **__: object) -> None:
                raise PluginError("plugin price", "JobValid", "KeyError: 'x'", "job default/g", group)

            with monkeypatch.context() as patched, capture_logs() as logs:
                patched.setattr(daemons, "run_cycle", fail)
                w.daemon._cycle_timer.require_cycle()
                await until(lambda: w.value("volcano_py_cycle_errors_total"))
                await until(lambda: w.api.to("POST", "/api/v1/namespaces/default/events"))
            line = next(line for line in logs if line["event"] == "cycle failed; nothing was decided")
            assert (line["owner"], line["point"], line["about"]) == ("plugin price", "JobValid", "job default/g")
            body = w.api.to("POST", "/api/v1/namespaces/default/events")[0].body
            assert (body["type"], body["reason"], body["involvedObject"]["name"]) == ("Warning", "PluginError", "g")
            assert body["message"].startswith("plugin price: JobValid (about job default/g): KeyError: 'x'; ")
            before = w.cycles
            await until(lambda: w.cycles > before)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_a_pod_is_bound_without_waiting_for_the_period(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf", period=3600.0) as w:
            w.api.answer("POST", "/api.*/events", status=201)
            w.api.answer("PATCH", "/api.*")
            w.api.answer("POST", "/api/v1/namespaces/default/pods/p/binding", status=201)
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.cycles)
            feed(w.cache, [queue("default"), node("n", "4c+4Gi"), group("g")])
            await until(lambda: w.cycles > 1)
            assert not w.api.to("POST", ".*/binding")
            feed(w.cache, [pod("p", "1c", "g")])
            await until(lambda: w.api.to("POST", ".*/binding"))
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_a_binding_does_not_wait_for_the_figures_and_is_sent_although_they_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = threading.Event()

    def fail(*_: object) -> None:
        if sent.wait(20):
            raise PluginError("plugin price", "figures", "KeyError: 'x'", "job default/g", None)

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            w.api.answer("POST", "/api.*/events", status=201)
            w.api.answer("PATCH", "/api.*")
            w.api.answer("POST", "/api/v1/namespaces/default/pods/p/binding", status=201)
            feed(w.cache, [queue("default"), node("n", "4c+4Gi"), group("g"), pod("p", "1c", "g")])
            monkeypatch.setattr(CycleReport, "update_figures", fail)
            with capture_logs() as logs:
                running = asyncio.create_task(w.daemon.run())
                await until(lambda: w.api.to("POST", ".*/binding"))
                sent.set()
                await until(lambda: w.value("volcano_py_cycle_errors_total"))
            failed = next(line for line in logs if line["event"] == "figures of the cycle failed")
            assert failed["owner"] == "plugin price"
            before = w.cycles
            await until(lambda: w.cycles > before)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


class OpenPage(Visibility):
    """The API for tenants with a web page that a test opens."""

    def __init__(self) -> None:
        self.is_open = False
        self.sessions: list[list[str]] = []
        """The queues of each session."""

    async def start(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def demand(self) -> SessionDemand:
        return SessionDemand.NOW if self.is_open else SessionDemand.LATER

    async def ended(self, outcome: Outcome) -> None:
        self.sessions.append(sorted(outcome.session.queues))  # fails if the session has been released


def test_a_web_page_gets_every_session_and_one_at_once_although_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle_timer, "IDLE_CYCLE", 1e9)

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            page = w.daemon._visibility = OpenPage()
            w.daemon._observers.append(page)
            feed(w.cache, queue("gold"))
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: w.value("volcano_py_cycles_skipped_total") > 3)
            before = len(page.sessions)
            assert before > 0 and all("gold" in queues for queues in page.sessions)
            page.is_open = True
            await until(lambda: len(page.sessions) > before)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("reads_time", [False, True])
def test_a_session_is_repeated_without_a_change_only_if_it_has_read_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads_time: bool
) -> None:
    monkeypatch.setattr(cycle_timer, "IDLE_CYCLE", 0.05)
    monkeypatch.setattr(cycle_timer, "REST", 0.05)
    decide = Daemon._decide

    def timed(daemon: Daemon, *of: Any) -> Any:
        outcome = decide(daemon, *of)
        if reads_time:
            assert outcome.session.now > 0
        return outcome

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:

            def sessions() -> float:
                return w.cycles - w.value("volcano_py_cycles_skipped_total")

            async def skipped(cycles: int) -> None:
                before = w.value("volcano_py_cycles_skipped_total")
                await until(lambda: w.value("volcano_py_cycles_skipped_total") >= before + cycles)

            w.api.answer("PATCH", f"{QUEUES}/.*")
            monkeypatch.setattr(Daemon, "_decide", timed)
            feed(w.cache, queue("gold"))
            running = asyncio.create_task(w.daemon.run())
            await skipped(5)
            before = sessions()
            await skipped(5)
            assert (sessions() > before) is reads_time
            monkeypatch.setattr(cycle_timer, "REST", 1e9)
            await skipped(1)
            before = sessions()
            feed(w.cache, node("n", "8c"))
            await until(lambda: sessions() > before)
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())


def test_a_status_of_a_queue_that_was_withheld_is_written_although_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle_timer, "IDLE_CYCLE", 1e9)
    monkeypatch.setattr(status_throttle, "DESERVED_SECONDS", 0.2)

    async def scenario() -> None:
        async with started(tmp_path / "scheduler.conf") as w:
            (tmp_path / "scheduler.conf").write_text("actions: allocate\ntiers: [{plugins: [{name: capacity}]}]\n")
            w.api.answer("PATCH", f"{QUEUES}/gold/status")
            written: list[Any] = []

            def deserved() -> list[Any]:
                bodies = (call.body for call in w.api.to("PATCH", f"{QUEUES}/gold/status"))
                written[:] = [each["value"] for body in bodies for each in body if each["path"] == "/status/deserved"]
                return written

            feed(w.cache, node("n", "8c"), queue("gold", deserved="1c"))
            running = asyncio.create_task(w.daemon.run())
            await until(lambda: deserved() == [{"cpu": "1"}])
            feed(w.cache, queue("gold", deserved="2c"))
            await until(lambda: deserved() == [{"cpu": "1"}, {"cpu": "2"}])
            w.daemon.process.stop()
            assert await running == 0

    asyncio.run(scenario())
