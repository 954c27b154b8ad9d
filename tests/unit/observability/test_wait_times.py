"""The wait of a Pod, stage by stage."""

from typing import cast

import msgspec
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from scheduler.api.kinds import POD
from scheduler.api.objects import Pod
from scheduler.cache import ClusterCache
from scheduler.cluster.kube.scheduler.report import CycleReport, WatchedPods
from scheduler.cluster.kube.scheduler.unserved_pods import UnservedPods
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.observability.metrics import Metrics, WaitTimes
from tests.builders import NAME, World, configuration, feed, group, node, pod, pods

CONF = configuration(["gang"], ["predicates"])


def sums(registry: CollectorRegistry) -> dict[str, float]:
    """Maps each stage to the seconds of all Pods."""
    found = {}
    for stage in ("enqueued", "allocated", "bound", "running"):
        value = registry.get_sample_value("volcano_py_pod_wait_seconds_sum", {"stage": stage})
        found[stage] = round(value or 0.0, 3)
    return found


def test_the_exemplar_of_a_pod_group_has_no_uid() -> None:
    registry = CollectorRegistry()
    waits = WaitTimes(registry)
    uid = "0b2e0c5a-3b0f-4f7e-9d55-1c1b6c8b7a10"
    world = World(node("n", "4c"), group(f"train-{uid}", asks="1c"), pod("p", "1c", f"train-{uid}"))
    first = world.run(CONF).outcome
    assert first is not None
    waits.decided(world.decisions, first.session.jobs, first.session.now)
    text = generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    assert 'object="default/train"' in text
    assert uid not in text


def test_each_stage_begins_where_the_one_before_ends() -> None:
    registry = CollectorRegistry()
    waits = WaitTimes(registry)
    world = World(node("n", "4c"), group("g", asks="1c"), pod("p", "1c", "g"))
    first = world.run(CONF).outcome
    assert first is not None
    (job,) = first.session.jobs.values()
    created = job.creation
    decisions = world.decisions
    (bind,) = decisions.binds
    task = bind.task

    waits.decided(decisions, first.session.jobs, created + 2)
    waits.bound(task, created + 2, created + 2.5)
    running = replace(task, scheduled_at=created + 2.5)
    waits.runs(running, created + 6.5)

    assert sums(registry) == {"enqueued": 2.0, "allocated": 0.0, "bound": 0.5, "running": 4.0}


def test_the_start_of_a_bound_pod_is_measured_once_on_its_way_to_the_cache() -> None:
    metrics, cache = Metrics(), ClusterCache([NAME])
    starts, registry = WatchedPods(cache, metrics, UnservedPods([NAME])), metrics.registry
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    feed(cache, group("g"))
    for phase in ("Pending", "Running", "Running"):
        raw = pod("p", "1c", "g", on="n", phase=phase)
        raw["status"]["conditions"] = [bound]
        starts.upsert(POD, msgspec.convert(raw, Pod))
    stored = cache.task("default/p")
    assert stored is not None and stored.status.value == "Running"
    assert registry.get_sample_value("volcano_py_pod_wait_seconds_count", {"stage": "running"}) == 1
    starts.delete(POD, "default", "p")
    assert cache.task("default/p") is None


def test_openmetrics_has_the_object_of_each_bucket_as_exemplar() -> None:
    metrics = Metrics()
    world = World(node("n", "4c"), group("g", asks="1c"), pod("p" * 200, "1c", "g")).run(CONF)
    assert world.outcome is not None
    metrics.waits.decided(world.decisions, world.outcome.session.jobs, 1e9)
    text = generate_latest(metrics.registry).decode()  # type: ignore[no-untyped-call]
    families = {family.name: family for family in text_string_to_metric_families(text)}  # type: ignore[no-untyped-call]
    exemplars = [s.exemplar.labels for s in families["volcano_py_pod_wait_seconds"].samples if s.exemplar]
    assert {"object": "default/g"} in exemplars
    assert {"object": "default/" + "p" * 92} in exemplars


def test_pods_are_measured_when_the_watch_delivers_them_without_a_node_under_the_name_of_the_stage() -> None:
    metrics, cache = Metrics(), ClusterCache([NAME])
    watched = WatchedPods(cache, metrics, UnservedPods([NAME]))
    feed(cache, group("g"))
    others = pod("other", "1c", scheduler="default-scheduler")
    for raw in (
        pod("new", "1c", "g"),
        pod("new", "1c", "g"),
        pod("running", "1c", "g", on="n", phase="Running"),
        others,
    ):
        watched.upsert(POD, msgspec.convert(raw, Pod))
    name = "volcano_task_scheduling_latency_milliseconds_count"
    assert metrics.registry.get_sample_value(name, {"stage": "Watched"}) == 1


def stage(metrics: Metrics, name: str, what: str) -> float:
    """``what``: either ``count`` or ``sum``."""
    series = f"volcano_scheduling_stage_duration_milliseconds_{what}"
    value = metrics.registry.get_sample_value(series, {"stage": name})
    assert value is not None
    return value


def test_searches_are_measured_once_for_equal_pods_filters_and_scores_apart() -> None:
    world = World(node("n", "8c"), group("g", minimum=4), pods("p", 4, "1c", "g"))
    world.run(configuration(["gang"], ["predicates", "nodeorder"]))
    assert world.outcome is not None and len(world.bound) == 4
    durations = world.outcome.session.search_durations
    assert len(durations.filters) == len(durations.scores) == 1
    assert durations.filters[0] > 0 and durations.scores[0] > 0
    metrics = Metrics()
    CycleReport(metrics, cast("EventRecorder", None)).report(world.outcome)
    assert [stage(metrics, name, "count") for name in ("Predicate", "Scoring", "PreBind", "Bind")] == [1, 1, 0, 0]
    assert stage(metrics, "Predicate", "sum") == durations.filters[0] * 1000


def test_durations_fall_into_the_buckets_of_volcano() -> None:
    metrics = Metrics()
    metrics.stages.observe("Bind", 0.0001)
    metrics.stages.observe_all("Bind", [0.0002, 0.499, 2.0])
    name = "volcano_scheduling_stage_duration_milliseconds_bucket"
    counts = [metrics.registry.get_sample_value(name, {"stage": "Bind", "le": le}) for le in ("0.1", "500.0", "+Inf")]
    assert counts == [1, 3, 4]
    assert round(stage(metrics, "Bind", "sum"), 3) == 2499.3
