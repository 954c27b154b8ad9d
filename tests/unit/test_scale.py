"""Memory and work per Pod do not depend on the size of the cluster, and stay within limits.

Bytes and calls are counted instead of seconds, so that the results are the same on every machine.
"""

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from xml.etree import ElementTree

import msgspec
import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401
from benchmarks.memory import CONFIGURATION, GANG, Mix, nodes, queues
from benchmarks.scale import Measured, Work, lone_pod, measure, row
from benchmarks.scale_plot import draw
from scheduler.api.job import Job
from scheduler.api.kinds import NODE, POD, POD_GROUP, QUEUE
from scheduler.api.objects import Pod
from scheduler.api.scheduling import PodGroup
from scheduler.cache import ClusterCache
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.cycle import run_cycle
from tests.builders import NAME, feed, pod

MAX_BYTES = 1000
"""The limit of the bytes that the cache keeps of a Pod of a vcjob."""
MAX_BYTES_OF_A_JOB = 2400
"""The limit of the bytes that the cache keeps of a job with one Pod, with its Job object for sessions."""
MAX_CALLS = 40
"""The limit of the calls of Python functions per Pod that a session places."""


def filled(pod_number: int) -> tuple[ClusterCache, Work, Mix]:
    """A cache with nodes and queues, and the work to store."""
    cache = ClusterCache(["volcano-py"])
    mix = Mix.of(pod_number // 20, pod_number)
    for queue in queues():
        cache.upsert(QUEUE, queue)
    for node in nodes(pod_number // 20):
        cache.upsert(NODE, node)
    return cache, Work(mix), mix


def store(cache: ClusterCache, work: Work, mix: Mix) -> None:
    for i in range(mix.gangs):
        cache.upsert(POD_GROUP, msgspec.json.decode(work.group(i), type=PodGroup))
        for text in work.pods(i):
            cache.upsert(POD, msgspec.json.decode(text, type=Pod))


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Counts the calls of Python functions in the block by qualified name.

    The garbage collector is off in the block: it would run its callbacks and the finalizers of objects of other tests.
    """
    calls: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_qualname] += 1

    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        gc.enable()


def calls_per_pod(pod_number: int) -> float:
    """The calls of Python functions in the first session, which places all Pods."""
    cache, work, mix = filled(pod_number)
    store(cache, work, mix)
    snapshot, configuration = cache.snapshot(0.0), parse_configuration(CONFIGURATION)
    with counted_calls() as calls:
        outcome = run_cycle(snapshot, configuration)
    assert len(outcome.decisions.binds) == pod_number
    return calls.total() / pod_number


def bytes_kept(store: Callable[[], None]) -> int:
    """The bytes that are allocated in ``store`` and still in use after it."""
    tracemalloc.start()
    try:
        store()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return kept


# A table of the interpreter, such as the table of interned strings, may grow in one of the attempts, so the smallest
# result counts.


def test_the_cache_keeps_few_bytes_of_a_pod() -> None:
    def attempt() -> float:
        cache, work, mix = filled(4 * GANG)
        store(cache, work, Mix(2, 0, 0))  # what all Pods share
        return bytes_kept(lambda: store(cache, work, Mix(mix.gangs, 0, 0))) / (2 * GANG)

    assert min(attempt() for _ in range(3)) < MAX_BYTES


def test_the_cache_keeps_few_bytes_of_a_job() -> None:
    def store_jobs(cache: ClusterCache, first: int) -> None:
        for i in range(first, first + 200):
            for kind, obj in lone_pod(i):
                cache.upsert(kind, obj)
        cache.snapshot(0.0)

    def attempt() -> float:
        cache = ClusterCache(["volcano-py"])
        store_jobs(cache, 0)
        return bytes_kept(lambda: store_jobs(cache, 200)) / 200

    assert min(attempt() for _ in range(3)) < MAX_BYTES_OF_A_JOB


@pytest.mark.slow
def test_the_first_session_does_the_same_work_per_pod_in_a_cluster_ten_times_as_large() -> None:
    calls_per_pod(1_000)  # what the process computes once
    small, large = calls_per_pod(1_000), calls_per_pod(10_000)
    assert large < 1.1 * small
    assert large < MAX_CALLS


def test_the_tasks_before_a_binding_are_not_kept_after_the_session() -> None:
    cache, work, mix = filled(2 * GANG)
    store(cache, work, mix)
    outcome = run_cycle(cache.snapshot(0.0), parse_configuration(CONFIGURATION))
    cache.assume(outcome.decisions)
    names = set(outcome.session.jobs)
    outcome.session.release()
    del outcome
    gc.collect()
    assert not [it for it in gc.get_objects() if type(it) is Job and it.changed and it.key in names]


def test_the_benchmark_places_all_pods_and_draws_its_plot() -> None:
    measured = [measure(GANG), measure(2 * GANG)]
    assert [it.bound for it in measured] == [GANG, 2 * GANG]
    assert all(len(row(it)) == 11 for it in measured)
    lines = {"first session": [it.cold for it in measured]}
    image = draw("A & B", [it.pods for it in measured], [("Seconds", lines)])
    assert ElementTree.fromstring(image).tag.endswith("svg")
    assert image.count("<circle") == 2


def test_a_measurement_survives_the_way_between_processes() -> None:
    measured = measure(GANG)
    assert msgspec.json.decode(msgspec.json.encode(measured), type=Measured) == measured


def test_a_new_service_costs_the_same_whatever_runs_in_other_namespaces() -> None:
    def calls_to_classify(others: int) -> Counter[str]:
        """The calls that classify Pods after a Service was created."""
        cache = ClusterCache([NAME])
        feed(cache, pod("here", on="n", labels={"app": "x"}))
        for i in range(others):
            other = pod(f"other-{i}", on="n", labels={"app": "x"})
            other["metadata"]["namespace"] = "elsewhere"
            feed(cache, other)
        cache.prepare()
        meta = {"name": "s", "namespace": "default"}
        feed(cache, {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"app": "x"}}})
        with counted_calls() as calls:
            cache.prepare()
        return calls

    assert calls_to_classify(100) == calls_to_classify(1)
