"""Data for operators: metrics under Volcano's names, health, logs without secrets."""

import asyncio
import logging
import subprocess
import sys

import aiohttp
import pytest
import structlog
from prometheus_client import generate_latest

from scheduler.observability import logs
from scheduler.observability.addresses import AddressError, parse_address
from scheduler.observability.logs import level_of, without_secrets
from scheduler.observability.metrics import Metrics
from scheduler.observability.role_metrics import exponential_buckets
from scheduler.observability.server import EndpointServer
from scheduler.observability.waiting_figures import REASON_CLASSES
from tests.builders import World, configuration, group, node, pods, queue
from tests.unit.plugins.capacity_card.cards import CONFIGURATION as CARD_QUOTA
from tests.unit.plugins.capacity_card.cards import H200, gang, gpu_node, quota_queue


def test_a_session_leaves_the_figures_of_queues_and_jobs_in_the_metrics() -> None:
    world = World(
        node("n1", "4c+8Gi+example.com/gpu=8"),
        queue("research", weight=3, capability="8c+example.com/gpu=4"),
        group("fits", "research", 2),
        pods("fits", 2, "1c+1Gi+example.com/gpu=1", "fits"),
        group("waits", "research", 1),
        pods("waits", 1, "64c", "waits"),
    )
    world.run(configuration(["gang", "predicates"], actions="allocate"))
    assert world.outcome is not None
    session = world.outcome.session
    metrics = Metrics()
    bound = {bind.task.job: session.now for bind in world.decisions.binds}

    metrics.session.update(session.jobs, session.queues, session.dimensions, bound)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"volcano_{name}", labels)

    assert value("queue_allocated_milli_cpu", queue_name="research") == 2000
    assert value("queue_allocated_memory_bytes", queue_name="research") == 2 * 2**30
    assert value("queue_allocated_scalar_resources", queue_name="research", resource="example.com/gpu") == 2000
    assert value("queue_request_milli_cpu", queue_name="research") == 66_000
    assert value("queue_capacity_milli_cpu", queue_name="research") == 8000
    assert value("queue_weight", queue_name="research") == 3
    assert value("unschedule_task_count", job_id="waits") == 1
    labels = {"job_name": "fits", "queue": "research", "job_namespace": "default"}
    duration = value("e2e_job_scheduling_duration", **labels)
    assert duration is not None
    assert duration > 0

    metrics.session.update({}, {}, session.dimensions, {})

    assert value("queue_weight", queue_name="research") is None
    assert value("e2e_job_scheduling_duration", **labels) is None


def test_cycles_are_measured_under_volcanos_names() -> None:
    metrics = Metrics()
    metrics.cycle(seconds=0.02, opening=0.001, actions={"allocate": 0.01}, plugins={"gang": 0.0005})
    text = generate_latest(metrics.registry).decode()
    for name in (
        "volcano_e2e_scheduling_latency_milliseconds_count 1.0",
        "volcano_open_session_duration_milliseconds_count 1.0",
        'volcano_action_scheduling_latency_milliseconds_count{action="allocate"} 1.0',
        'volcano_plugin_scheduling_latency_milliseconds_count{OnSession="OnSessionOpen",plugin="gang"} 1.0',
    ):
        assert name in text


def test_buckets_span_their_range_in_equal_steps() -> None:
    buckets = exponential_buckets(1, 5000, 20)
    assert len(buckets) == 20
    assert buckets[0] == 1
    assert buckets[-1] == pytest.approx(5000)


@pytest.mark.parametrize("separate", [True, False])
def test_health_and_metrics_are_served_on_one_address_or_two(separate: bool) -> None:
    async def scenario() -> None:
        problems = [""]
        health = "127.0.0.1:0"
        server = EndpointServer(Metrics(), lambda: problems[0], metrics_address="127.0.0.1:0", health_address=health)
        if not separate:
            server = EndpointServer(Metrics(), lambda: problems[0], health_address=health)
        await server.start()
        try:
            async with aiohttp.ClientSession() as session:
                url = f"http://127.0.0.1:{server.ports['/healthz']}/healthz"
                async with session.get(url) as answer:
                    assert (answer.status, await answer.text()) == (200, "ok")
                problems[0] = "stuck"
                async with session.get(url) as answer:
                    assert (answer.status, await answer.text()) == (503, "stuck")
                if separate:
                    async with session.get(f"http://127.0.0.1:{server.ports['/metrics']}/metrics") as answer:
                        assert answer.headers["Content-Type"].startswith("text/plain")
                        assert "volcano_e2e_scheduling_latency" in await answer.text()
                else:
                    assert "/metrics" not in server.ports
        finally:
            await server.stop()

    asyncio.run(scenario())


def test_metrics_are_served_as_openmetrics_and_compressed_to_those_who_ask_for_it() -> None:
    async def scenario() -> None:
        metrics = Metrics()
        server = EndpointServer(metrics, lambda: "", metrics_address="127.0.0.1:0")
        await server.start()
        accept = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}
        url = f"http://127.0.0.1:{server.ports['/metrics']}/metrics"
        try:
            async with aiohttp.ClientSession() as session, session.get(url, headers=accept) as answer:
                assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
                assert answer.headers["Content-Encoding"] == "gzip"
                assert (await answer.text()).endswith("# EOF\n")
        finally:
            await server.stop()

    asyncio.run(scenario())


def test_waiting_pods_are_counted_by_the_class_of_their_reason() -> None:
    world = World(
        node("n1", "4c"),
        node("n2", "4c"),
        queue("small", capability="2c"),
        [group("over", "small", phase="Inqueue"), *pods("over", 3, "1c", "over")],
        [group("big", phase="Inqueue"), *pods("big", 1, "6c", "big")],
        [group("pending", asks="100c"), *pods("pending", 4, "1c", "pending")],
    )
    world.run(configuration(["gang", "predicates", "capacity", "overcommit"]))
    assert pending_pods(world) == {"not_admitted": 4, "refused": 1, "no_node": 1, "gang": 0, "other": 0}


def test_pods_beyond_a_card_quota_are_refused_ones() -> None:
    found = World(gpu_node("n", H200), quota_queue("q", {H200: 1}), gang("a", "q", 1), gang("b", "q", 1))
    assert pending_pods(found.run(CARD_QUOTA))["refused"] == 1


def pending_pods(world: World) -> dict[str, float | None]:
    assert world.outcome is not None
    metrics = Metrics()
    metrics.waiting.update(world.outcome.session.jobs)
    value = metrics.registry.get_sample_value
    return {reason: value("volcano_py_pending_pods", {"reason": reason}) for reason in REASON_CLASSES}


def test_addresses_are_read_as_go_programs_do() -> None:
    assert parse_address(":8080") == (None, 8080)
    assert parse_address("127.0.0.1:0") == ("127.0.0.1", 0)
    assert parse_address("[::1]:9") == ("::1", 9)
    for wrong in ("8080", ":", "host:port", ":70000"):
        with pytest.raises(AddressError):
            parse_address(wrong)


def test_secrets_never_reach_the_log_and_verbosity_sets_the_level() -> None:
    event = without_secrets(None, "info", {"event": "x", "Authorization": "Bearer abc", "api_token": "t", "pod": "p"})
    assert event == {"event": "x", "Authorization": "***", "api_token": "***", "pod": "p"}
    assert [level_of(v) for v in (0, 1, 3, 4, 9)] == [
        logging.WARNING,
        logging.INFO,
        logging.INFO,
        logging.DEBUG,
        logging.DEBUG,
    ]


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_an_error_is_logged_with_its_place_but_not_with_the_variables_there(
    log_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    handlers, level, settings = root.handlers[:], root.level, structlog.get_config()

    def fail(credential: str) -> None:
        raise ZeroDivisionError("no total")

    try:
        logs.configure(2, log_format)
        try:
            fail("hush-hush")
        except ZeroDivisionError:
            structlog.get_logger("test").exception("it failed")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**settings)
    logged = capsys.readouterr().err
    assert "no total" in logged and "test_observability" in logged
    assert logged.count("hush-hush") == logged.count('fail("hush-hush")')


HOSTILE = "a\x1b[31m\x9b31m\u202eb\x7f"


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_others_wrote_is_logged_by_its_codes(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        logs.configure(2, form)
        log = structlog.get_logger("a")
        log.warning(f"event {HOSTILE}", text=HOSTILE, inside=[HOSTILE], error=ValueError(HOSTILE), **{HOSTILE: 1})
        logging.getLogger("b").warning("library: %s", HOSTILE)
        try:
            raise ValueError(HOSTILE)
        except ValueError:
            log.exception("failed")
    finally:
        structlog.reset_defaults()
        logging.getLogger().handlers.clear()
    written = capsys.readouterr().err
    assert not [c for c in written if c != "\n" and not c.isprintable()]
    assert written.count(r"\x7f" if form == "console" else r"\u007f") >= 5


def test_logs_do_without_the_library_that_structlog_draws_tracebacks_with() -> None:
    code = (
        "import sys, scheduler.cluster.kube.transport.client\n"
        "from scheduler.observability import logs\n"
        "import structlog\n"
        "logs.configure(2, 'console')\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: structlog.get_logger('x').exception('failed')\n"
        "print('rich' in sys.modules)\n"
        "import rich.console; print('found')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "found"]
    assert "ZeroDivisionError: division by zero" in done.stderr


def test_a_role_requests_its_lists_before_it_loads_a_web_server() -> None:
    code = (
        "import sys, scheduler.cli.scheduler, scheduler.cluster.kube.watch.lists_ahead\n"
        "import scheduler.cluster.kube.process.settings, scheduler.observability.role_metrics\n"
        "from scheduler.cli.flags import ListenAddress\n"
        "ListenAddress().convert(':8080', None, None)\n"
        "print('aiohttp' in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_a_scheduler_without_endpoints_loads_no_web_server() -> None:
    code = (
        "import sys, scheduler.cli.scheduler, scheduler.cluster.kube.scheduler.daemon\n"
        "from scheduler.cli.plugins import load_plugins\n"
        "load_plugins()\n"
        "print('aiohttp' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
