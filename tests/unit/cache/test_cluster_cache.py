"""After any sequence of events the cache equals one built from the final objects. Snapshots do not change."""

import copy
from copy import deepcopy
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.decisions import Bind, Decisions, Evict, PodGroupStatusUpdate
from scheduler.api.job import GroupCondition
from scheduler.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, PRIORITY_CLASS, Kind
from scheduler.api.names import ASCEND_REAL
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.cache import ClusterCache
from scheduler.cache.named_labels import OTHER
from scheduler.framework import registry
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.failures import PluginError
from tests.builders import NAME, Raw, configuration, feed, group, node, pod, queue
from tests.examples import examples

PLAIN = configuration(["priority", "gang"])
HAMI = configuration(["deviceshare"], arguments={"deviceshare": {"deviceshare.AscendHAMiVNPUEnable": True}})
MEMORY = "huawei.com/Ascend310P-memory"
"""A resource that only this plugin counts."""
NODES, PODS, GROUPS = ("n1", "n2", "n3"), tuple(f"p{i}" for i in range(5)), ("a", "b")
SIZES = ("", "1c", "2c+1Gi", "1c+example.com/gpu=1", "+".join(f"example.com/r{i}=1" for i in range(7)))
SPREAD: dict[str, Any] = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
}


# --- random events ---
def a_pod(name: str, n: int) -> Raw:
    """One of several Pods with this name."""
    on = ("", "", *NODES, "nowhere")[n % 6]
    made = pod(
        name,
        SIZES[n % 5],
        ("", *GROUPS)[n % 3],
        on=on,
        phase=("Pending", "Running", "Succeeded", "Failed")[n % 4] if on else "Pending",
        labels={"app": "xyz"[n % 3], "index": str(n)},
        deleting=n % 7 == 0,
        gated=n % 11 == 0,
        scheduler=(NAME, NAME, "other")[n % 3],
        annotations={"huawei.com/Ascend910": f"Ascend910-{n}"} if n % 5 == 0 else {},
        topologySpreadConstraints=[SPREAD] if n % 8 == 0 else None,
    )
    made["metadata"]["uid"] = f"{name}-{n // 20}"
    return made


def a_node(name: str, n: int) -> Raw:
    allocatable = (
        "4c+8Gi",
        "4c+8Gi+example.com/gpu=4",
        "0.5c",
        "3c+" + "+".join(f"example.com/s{i}=1" for i in range(6)),
    )
    return node(name, allocatable[n % 4], labels={"zone": "ab"[n % 2]}, unschedulable=n % 5 == 0)


def a_group(name: str, n: int) -> Raw:
    return group(
        name,
        ("default", "q")[n % 2],
        n % 3,
        asks=(None, "1c", "1c+example.com/gpu=1")[n % 3],
        phase=("", "Inqueue")[n % 2],
    )


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["Pod", "Pod", "Pod", "Node", "PodGroup", "snapshot"]),
        st.integers(0, 4),
        st.integers(0, 39),
        st.booleans(),
    ),
    max_size=30,
)


KINDS: dict[str, Kind] = {"Pod": POD, "Node": NODE, "PodGroup": POD_GROUP}


def name_of(kind: str, which: int) -> str:
    names = {"Pod": PODS, "Node": NODES, "PodGroup": GROUPS}[kind]
    return names[which % len(names)]


def make(kind: str, name: str, n: int) -> Raw:
    return {"Pod": a_pod, "Node": a_node, "PodGroup": a_group}[kind](name, n)


def apply(cache: ClusterCache, there: dict[tuple[str, str], Raw], event: tuple[str, int, int, bool]) -> None:
    kind, which, n, deleted = event
    if kind == "snapshot":
        cache.snapshot(0)
        return
    name = name_of(kind, which)
    if deleted and n % 3 == 0:
        cache.delete(KINDS[kind], "" if kind == "Node" else "default", name)
        there.pop((kind, name), None)
    else:
        there[kind, name] = make(kind, name, n)
        feed(cache, there[kind, name])


# --- what a snapshot says, by name ---
def picture(snapshot: Snapshot) -> dict[str, Any]:
    names, nodes = snapshot.dimensions.names, snapshot.nodes

    def amounts(vector: Any) -> dict[str, float]:
        return {name: float(vector[i]) for i, name in enumerate(names) if vector[i]}

    columns = ("allocatable", "idle", "used", "releasing", "pipelined")
    return {
        "nodes": {
            name: {
                **{c: amounts(getattr(nodes, c)[:, row]) for c in columns},
                "nonzero": nodes.nonzero[:, row].tolist(),
            }
            for name, row in nodes.index.items()
        },
        "facts": [(o.spec, o.metadata.labels) for o in nodes.facts.objects],
        "jobs": {
            key: (
                job.queue,
                job.min_member,
                job.phase,
                None if job.min_resources is None else amounts(job.min_resources),
                amounts(job.allocated),
                amounts(job.pending),
                {} if job.gated is None else amounts(job.gated),
                job.pending_best_effort,
                {
                    s.name: {u: (t.name, t.node, amounts(t.cls.request)) for u, t in ts.items()}
                    for s, ts in job.by_status.items()
                },
            )
            for key, job in snapshot.jobs.items()
        },
        "placed": sorted(
            (sorted(p.cls.labels.items()), sorted(amounts(p.cls.request).items()), sorted(p.nodes.items()))
            for p in snapshot.placed
        ),
        "chips": {name: sorted((t.uid, str(t.annotations)) for t in tasks) for name, tasks in snapshot.chips.items()},
        "queues": {
            n: (
                q.weight,
                amounts(q.guarantee),
                {names[i]: v for i, v in enumerate(q.capability) if i < len(names) and np.isfinite(v)},
            )
            for n, q in snapshot.queues.items()
        },
    }


def from_scratch(there: dict[tuple[str, str], Raw], like: ClusterCache) -> Snapshot:
    cache = ClusterCache([NAME])
    cache._classes.labels = deepcopy(like._classes.labels)  # labels once selected by go on splitting classes
    feed(cache, *QUEUES)
    for kind in ("Node", "PodGroup", "Pod"):
        feed(cache, *[raw for (k, _), raw in there.items() if k == kind])
    return cache.snapshot(0)


QUEUES = (queue("default"), queue("q", 2, capability="3c+example.com/gpu=1", guarantee="1c"))


@settings(max_examples=examples(80), deadline=None)
@given(EVENTS)
def test_events_in_any_order_lead_to_the_same_state_as_the_final_objects(
    events: list[tuple[str, int, int, bool]],
) -> None:
    cache = ClusterCache([NAME])
    feed(cache, *QUEUES)
    there: dict[tuple[str, str], Raw] = {}
    for event in events:
        apply(cache, there, event)
    assert picture(cache.snapshot(0)) == picture(from_scratch(there, cache))


@settings(max_examples=examples(40), deadline=None)
@given(EVENTS, EVENTS)
def test_a_snapshot_does_not_change(
    before: list[tuple[str, int, int, bool]], after: list[tuple[str, int, int, bool]]
) -> None:
    cache = ClusterCache([NAME])
    feed(cache, *QUEUES)
    there: dict[tuple[str, str], Raw] = {}
    for event in before:
        apply(cache, there, event)
    snapshot = cache.snapshot(0)
    taken = copy.deepcopy(picture(snapshot))
    for event in after:
        if event[0] != "snapshot":
            apply(cache, there, event)
    assert picture(snapshot) == taken


# --- sessions and snapshots ---
def small() -> ClusterCache:
    cache = ClusterCache([NAME])
    feed(cache, *QUEUES, node("n1"), node("n2"), group("a"), group("b"), pod("p0", "1c", "a"), pod("p1", "1c", "b"))
    return cache


def bind(cache: ClusterCache, name: str, on: str) -> Bind:
    task = task_of(cache, name)
    decision = Bind(task, on, {"huawei.com/Ascend910": "Ascend910-0", "other": "x"})
    cache.assume(Decisions(binds=[decision]))
    return decision


def task_of(cache: ClusterCache, name: str) -> Task:
    found = cache.task(f"default/{name}")
    assert found is not None
    return found


def used(cache: ClusterCache) -> list[float]:
    return [float(value) for value in cache.snapshot(0).nodes.used[0]]


def test_changes_of_nodes_in_a_session_do_not_reach_the_cache() -> None:
    cache = small()
    snapshot = cache.snapshot(0)
    snapshot.nodes.hold(0, task_of(cache, "p0").cls, 3)
    snapshot.nodes.pipeline(1, task_of(cache, "p0").cls)
    assert used(cache) == [0, 0] and not cache.snapshot(0).nodes.pipelined.any()


def test_an_unchanged_job_is_reused_without_the_records_of_the_last_session() -> None:
    cache = small()
    first = cache.snapshot(0).jobs
    first["default/a"].new_conditions += (GroupCondition("Unschedulable", "", ""),)
    first["default/a"].transaction["u"] = (TaskStatus.ALLOCATED, "n1")
    second = cache.snapshot(0).jobs
    assert second["default/a"] is first["default/a"]
    again = second["default/a"]
    assert not (again.new_conditions or again.transaction or again.refusals or again.fit_errors)


def test_a_job_that_a_session_changed_is_built_again_and_others_are_reused() -> None:
    cache = small()
    first = cache.snapshot(0).jobs
    task = next(first["default/a"].tasks())
    first["default/a"].move(task, TaskStatus.PENDING, TaskStatus.ALLOCATED)
    second = cache.snapshot(0).jobs
    assert second["default/a"] is not first["default/a"] and second["default/b"] is first["default/b"]
    assert second["default/a"].count(TaskStatus.PENDING) == 1 and not second["default/a"].allocated.any()


# --- decisions assumed ---
def test_a_pod_that_changes_on_its_node_keeps_its_amounts_and_its_chips_are_read_again() -> None:
    cache = ClusterCache([NAME])
    one = pod("p", "1c", "a", on="n", phase="Pending", annotations={ASCEND_REAL: "Ascend910-0"})
    feed(cache, node("n"), group("a"), one)
    before = cache.snapshot(0)
    running = {**one, "status": {"phase": "Running"}}
    running["metadata"] = {
        **one["metadata"],
        "annotations": {**one["metadata"]["annotations"], ASCEND_REAL: "Ascend910-1"},
    }
    feed(cache, running)

    after = cache.snapshot(0)
    assert np.array_equal(before.nodes.used, after.nodes.used)
    assert np.array_equal(before.nodes.nonzero, after.nodes.nonzero)
    assert [(t.status, t.annotations) for t in after.chips["n"]] == [(TaskStatus.RUNNING, {ASCEND_REAL: "Ascend910-1"})]
    assert [dict(placed.nodes) for placed in after.placed] == [{"n": 1}]
    assert [(t.status, t.annotations) for t in before.chips["n"]] == [(TaskStatus.BOUND, {ASCEND_REAL: "Ascend910-0"})]


def test_an_assumed_binding_occupies_its_node_before_the_watch_shows_it() -> None:
    cache = small()
    bind(cache, "p0", "n1")
    task = task_of(cache, "p0")
    assert (task.status, task.node, task.annotations) == (
        TaskStatus.BINDING,
        "n1",
        {"huawei.com/Ascend910": "Ascend910-0"},
    )
    assert used(cache) == [1000, 0]


def test_an_event_from_before_the_binding_does_not_undo_it() -> None:
    cache = small()
    bind(cache, "p0", "n1")
    feed(cache, pod("p0", "1c", "a", labels={"late": "label"}))
    task = task_of(cache, "p0")
    assert (task.status, task.node, task.labels) == (TaskStatus.BINDING, "n1", {"late": "label"})
    assert used(cache) == [1000, 0]


def test_the_watch_confirms_a_binding_on_any_node() -> None:
    cache = small()
    bind(cache, "p0", "n1")
    feed(cache, pod("p0", "1c", "a", on="n2", phase="Pending"))
    assert task_of(cache, "p0").status is TaskStatus.BOUND
    assert used(cache) == [0, 1000]


def test_a_failed_binding_frees_its_node() -> None:
    cache = small()
    decision = bind(cache, "p0", "n1")
    cache.bind_failed(decision)
    assert task_of(cache, "p0").status is TaskStatus.PENDING and used(cache) == [0, 0]
    cache.bind_failed(decision)
    assert used(cache) == [0, 0]


def test_a_late_failure_does_not_undo_a_confirmed_binding() -> None:
    cache = small()
    decision = bind(cache, "p0", "n1")
    feed(cache, pod("p0", "1c", "a", on="n1", phase="Pending"))
    cache.bind_failed(decision)
    assert task_of(cache, "p0").status is TaskStatus.BOUND and used(cache) == [1000, 0]


def test_decisions_for_replaced_or_deleted_pods_are_ignored() -> None:
    cache = small()
    old = task_of(cache, "p0")
    newer = pod("p0", "2c", "a")
    newer["metadata"]["uid"] = "another"
    feed(cache, newer)
    cache.assume(Decisions(binds=[Bind(old, "n1", {})], evictions=[Evict(old, "x")]))
    assert task_of(cache, "p0").status is TaskStatus.PENDING and used(cache) == [0, 0]
    cache.delete(POD, "default", "p0")
    cache.assume(Decisions(binds=[Bind(old, "n1", {})]))
    cache.bind_failed(Bind(old, "n1", {}))
    assert cache.task("default/p0") is None and used(cache) == [0, 0]


def test_a_replaced_pod_frees_the_node_of_its_predecessor() -> None:
    cache = small()
    bind(cache, "p0", "n1")
    newer = pod("p0", "2c", "b")
    newer["metadata"]["uid"] = "another"
    feed(cache, newer)
    jobs = cache.snapshot(0).jobs
    assert used(cache) == [0, 0] and jobs["default/a"].size == 0 and jobs["default/b"].size == 2


def test_pods_without_uids_keep_their_assumed_state() -> None:
    cache = small()
    bare = pod("p9", "1c", "a")
    bare["metadata"]["uid"] = ""
    feed(cache, bare)
    bind(cache, "p9", "n2")
    feed(cache, bare)
    assert task_of(cache, "p9").status is TaskStatus.BINDING and used(cache) == [0, 1000]


def test_an_evicted_task_is_releasing_and_keeps_its_node_until_it_is_deleted() -> None:
    cache = small()
    feed(cache, pod("p0", "1c", "a", on="n1"))
    cache.assume(Decisions(evictions=[Evict(task_of(cache, "p0"), "preempt")]))
    nodes = cache.snapshot(0).nodes
    assert (nodes.used[0, 0], nodes.releasing[0, 0], nodes.future_idle()[0, 0]) == (1000, 1000, 4000)
    cache.delete(POD, "default", "p0")
    nodes = cache.snapshot(0).nodes
    assert (nodes.used[0, 0], nodes.releasing[0, 0]) == (0, 0)


def test_a_pod_without_grace_period_and_finalizers_leaves_at_once() -> None:
    cache = small()
    brief = {name: pod(name, "1c", "a", on="n1", terminationGracePeriodSeconds=0) for name in ("p0", "p1")}
    brief["p1"]["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    feed(cache, *brief.values(), pod("p2", "1c", "a", on="n1"), pod("p3", on="n1", terminationGracePeriodSeconds=30))
    assert [task_of(cache, f"p{i}").leaves_at_once for i in range(4)] == [True, False, False, False]
    assert task_of(cache, "p0").cls is task_of(cache, "p2").cls
    del brief["p1"]["metadata"]["finalizers"]
    feed(cache, brief["p1"])
    assert task_of(cache, "p1").leaves_at_once


def test_a_node_has_a_terminating_pod_until_the_last_one_is_deleted() -> None:
    cache = ClusterCache([NAME])
    feed(cache, node("n1"), group("g"), pod("evicted", "1c", "g", on="n1"), pod("stays", "1c", "g", on="n1"))
    assert not cache.terminates_on("n1")
    feed(cache, pod("leaving", "1c", on="n1", deleting=True))
    cache.assume(Decisions(evictions=[Evict(task_of(cache, "evicted"), "preempt")]))
    for name in ("leaving", "evicted"):
        assert cache.terminates_on("n1")
        cache.delete(POD, "default", name)
    assert not cache.terminates_on("n1") and not cache.terminates_on("n2")


def test_after_a_failed_eviction_a_task_has_the_present_status_of_its_pod() -> None:
    cache = small()
    feed(cache, pod("p0", "1c", "a", on="n1", phase="Pending"))
    eviction = Evict(task_of(cache, "p0"), "preempt")
    cache.assume(Decisions(evictions=[eviction]))
    feed(cache, pod("p0", "1c", "a", on="n1", phase="Running"))
    assert task_of(cache, "p0").status is TaskStatus.RELEASING
    cache.evict_failed(eviction)
    assert task_of(cache, "p0").status is TaskStatus.RUNNING
    cache.evict_failed(eviction)
    assert used(cache) == [1000, 0] and not cache.snapshot(0).nodes.releasing.any()


def test_a_written_status_counts_immediately() -> None:
    cache = small()
    uid = cache.snapshot(0).jobs["default/a"].uid
    cache.assume(Decisions(pod_groups=[PodGroupStatusUpdate("default", "a", uid, "Inqueue", (), 0, 0, 0)]))
    assert cache.snapshot(0).jobs["default/a"].phase == "Inqueue"
    cache.assume(Decisions(pod_groups=[PodGroupStatusUpdate("default", "b", "another", "Inqueue", (), 0, 0, 0)]))
    assert cache.snapshot(0).jobs["default/b"].phase == ""


# --- widths and labels ---
def test_any_object_may_add_a_ninth_resource_at_any_time() -> None:
    cache = small()
    feed(cache, pod("p0", "1c", "a", on="n1"))
    before = cache.snapshot(0)
    feed(cache, node("n3", "4c+" + "+".join(f"example.com/r{i}=2" for i in range(10))))
    feed(cache, pod("wide", "+".join(f"example.com/r{i}=1" for i in range(10)), "b", on="n3"))
    after = cache.snapshot(0)
    assert len(before.nodes.idle) == before.dimensions.width == 8
    assert len(after.nodes.idle) == after.dimensions.width == 16
    assert {len(t.cls.request) for job in after.jobs.values() for t in job.tasks()} == {16}
    assert {len(job.allocated) for job in after.jobs.values()} == {16}
    assert {len(v) for q in after.queues.values() for v in (q.capability, q.guarantee, q.deserved)} == {16}
    assert np.isinf(after.queues["q"].capability[8:]).all()
    assert after.nodes.used[0].tolist() == [1000, 0, 0]


def test_a_session_keeps_the_width_of_its_vectors() -> None:
    cache = small()
    snapshot = cache.snapshot(0)
    task = next(snapshot.jobs["default/a"].tasks())
    feed(cache, pod("wide", "+".join(f"example.com/r{i}=1" for i in range(10)), "b", on="n2"))
    snapshot.nodes.hold(0, task.cls)
    assert snapshot.nodes.used[0].tolist() == [1000, 0] and len(snapshot.dimensions.zeros()) == 8


def test_a_selector_with_a_new_label_key_splits_pods_that_differ_in_it() -> None:
    cache = small()
    feed(cache, pod("x", "1c", "a", on="n1", labels={"app": "x"}), pod("y", "1c", "a", on="n1", labels={"app": "y"}))
    assert len(cache.snapshot(0).placed) == 1
    feed(cache, pod("s", "1c", "a", topologySpreadConstraints=[SPREAD]))
    assert sorted(p.cls.labels["app"] for p in cache.snapshot(0).placed) == [OTHER, "x"]
    assert task_of(cache, "x").cls is not task_of(cache, "y").cls
    assert used(cache) == [2000, 0]


# --- what is malformed ---
def test_a_malformed_object_keeps_the_last_good_version_and_is_reported_once() -> None:
    cache = small()
    for _ in range(3):
        feed(cache, pod("p0", "lotsc", "a"), group("a", asks="-1c"), queue("q", 0))
    reported = {(m.kind, m.name, m.field) for m in cache.take_malformed()}
    assert reported == {
        ("Pod", "p0", "spec.containers[].resources"),
        ("PodGroup", "a", "spec.minResources"),
        ("Queue", "q", "spec.weight"),
    }
    assert cache.take_malformed() == []
    snapshot = cache.snapshot(0)
    assert snapshot.jobs["default/a"].pending[0] == 1000 and snapshot.queues["q"].weight == 2


def test_json_of_a_node_that_is_cut_off_is_reported_before_a_job_needs_it() -> None:
    cache = small()
    cut = node("n0", "2c")
    cut["metadata"]["annotations"] = {"baseDeviceInfos": '{"Ascend910-0": ', "example.com/other": "{"}
    feed(cache, cut)
    ((name, field, problem),) = ((m.name, m.field, m.problem) for m in cache.take_malformed())
    assert (name, field) == ("n0", "metadata.annotations[baseDeviceInfos]")
    assert problem == "not JSON: expecting value (line 1, column 17); the text ends there"


def test_json_of_a_config_map_that_is_cut_off_is_reported_once_whether_or_not_a_plugin_reads_it() -> None:
    cache = small()
    metadata = {"name": "mindx-dl-deviceinfo-n0", "namespace": "kube-system"}
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"DeviceInfoCfg": '{"a": '}}
    version = cache.version
    feed(cache, raw)
    feed(cache, raw)
    ((kind, name, field, problem),) = ((m.kind, m.name, m.field, m.problem) for m in cache.take_malformed())
    assert (kind, name, field) == ("ConfigMap", "mindx-dl-deviceinfo-n0", "data[DeviceInfoCfg]")
    assert problem == "not JSON: expecting value (line 1, column 7); the text ends there"
    assert cache.version > version
    assert cache.snapshot(0).objects[CONFIG_MAP].keys() == {"kube-system/mindx-dl-deviceinfo-n0"}


def test_an_object_that_was_always_malformed_is_forgotten_when_it_is_deleted() -> None:
    cache = small()
    for _ in range(2):
        feed(cache, pod("odd", "lotsc", "a"))
        assert [m.name for m in cache.take_malformed()] == ["odd"]
        cache.delete(POD, "default", "odd")


def test_a_malformed_amount_of_a_node_counts_as_zero_and_is_reported_once() -> None:
    cache = small()
    malformed = node("n1", "4c+example.com/gpu=many")
    feed(cache, malformed)
    assert [(m.name, m.field) for m in cache.take_malformed()] == [("n1", "status.allocatable[example.com/gpu]")]
    feed(cache, malformed)
    feed(cache, node("n1", "4c+example.com/gpu=many", labels={"zone": "a"}))
    assert cache.take_malformed() == []
    assert cache.snapshot(0).nodes.allocatable[0].tolist() == [4000, 4000]


@pytest.mark.parametrize(
    ("minimum", "field"), [({"minMember": -1}, "spec.minMember"), ({"minTaskMember": {"w": -2}}, "spec.minTaskMember")]
)
def test_a_negative_minimum_is_reported_with_its_field(minimum: Raw, field: str) -> None:
    cache = small()
    raw = group("a")
    raw["spec"].update(minimum)
    feed(cache, raw)
    assert [m.field for m in cache.take_malformed()] == [field]


def test_minimum_resources_are_counted_again_when_plugins_count_other_resources() -> None:
    cache = small()
    stored = []
    for name, counting, amount in (("x", PLAIN, 2000), ("y", HAMI, 0), ("z", PLAIN, 2000)):
        cache.configure(counting)
        feed(cache, group(name, asks=f"{MEMORY}=2"))
        stored.append(f"default/{name}")
        snapshot = cache.snapshot(0)
        minimums = [snapshot.jobs[key].min_resources for key in stored]
        position = snapshot.dimensions.find(MEMORY)
        assert [None if m is None else m[position] for m in minimums] == [amount] * len(stored)


def test_a_malformed_amount_is_reported_even_if_plugins_leave_the_resource_out() -> None:
    cache = small()
    cache.configure(HAMI)
    assert MEMORY in cache.snapshot(0).dimensions.uncounted
    feed(cache, group("a", asks=f"{MEMORY}=-1"), pod("p0", f"{MEMORY}=lots", "a"))
    assert {m.kind for m in cache.take_malformed()} == {"PodGroup", "Pod"}
    cache.configure(PLAIN)
    assert cache.snapshot(0).jobs["default/a"].min_resources is None


def test_queue_amounts_are_computed_again_when_plugins_change_the_counted_resources() -> None:
    cache = small()
    feed(cache, queue("q", capability=f"{MEMORY}=3", deserved=f"{MEMORY}=2"))
    position = cache.snapshot(0).dimensions.find(MEMORY)
    assert position is not None

    def amounts() -> tuple[float, float]:
        found = cache.snapshot(0).queues["q"]
        return float(found.capability[position]), float(found.deserved[position])

    assert amounts() == (3000, 2000)
    cache.configure(HAMI)
    assert amounts() == (np.inf, 0)
    cache.configure(PLAIN)
    assert amounts() == (3000, 2000)


@pytest.fixture
def required(monkeypatch: pytest.MonkeyPatch) -> list[CacheRequirements | Exception]:
    """The answers of the plugin ``requiring`` about its requirements, the next first; the last one is repeated."""
    answers: list[CacheRequirements | Exception] = []

    class Requiring:
        name = "requiring"

        @classmethod
        def cache_requirements(cls, arguments: Any, config_maps: Any) -> CacheRequirements:
            answer = answers.pop(0) if len(answers) > 1 else answers[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

    monkeypatch.setitem(registry._plugins, "requiring", cast(registry.PluginFactory, Requiring))
    return answers


def test_requirements_are_applied_once_the_plugin_that_raised_returns_them(
    required: list[CacheRequirements | Exception],
) -> None:
    cache, requiring = small(), configuration(["requiring"])
    error = LookupError("the device is not listed")
    required += [error, error, CacheRequirements(uncounted=frozenset({MEMORY}))]
    for _ in range(2):  # each cycle fails: a session without the requirements would count the resource
        with pytest.raises(PluginError, match="plugin requiring: cache_requirements: LookupError: the device is not l"):
            cache.configure(requiring)
    cache.configure(requiring)
    assert cache.snapshot(0).dimensions.uncounted == {MEMORY}


def test_pods_are_stored_again_once_a_plugin_requires_an_annotation_that_was_not_kept(
    required: list[CacheRequirements | Exception],
) -> None:
    cache, requiring = small(), configuration(["requiring"])
    required += [CacheRequirements(pod_annotations=frozenset({"example.com/stage"}))]
    both = [pod(f"p-{stage}", "1c", "g", annotations={"example.com/stage": stage}) for stage in "12"]

    def annotations() -> dict[str, dict[str, str]]:
        return {task.name: task.cls.annotations for task in cache.tasks() if task.name.startswith("p-")}

    feed(cache, group("g"), *both)
    assert annotations() == {"p-1": {}, "p-2": {}}
    assert cache.configure(requiring) == {POD}
    feed(cache, *both)
    assert annotations() == {"p-1": {"example.com/stage": "1"}, "p-2": {"example.com/stage": "2"}}
    assert not cache.configure(configuration(["requiring"]))  # kept already


def test_requirements_are_read_again_only_after_a_change_of_the_configuration_or_of_a_config_map(
    required: list[CacheRequirements | Exception],
) -> None:
    cache, requiring = small(), configuration(["requiring"])
    required += [CacheRequirements(uncounted=frozenset({name})) for name in ("a", "b", "c")]

    def uncounted() -> frozenset[str]:
        cache.configure(requiring)
        return cache.snapshot(0).dimensions.uncounted

    assert uncounted() == {"a"}
    feed(cache, node("n1"), queue("q"))
    assert uncounted() == {"a"}
    feed(cache, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "devices", "namespace": "kube-system"}})
    assert uncounted() == {"b"}
    requiring = configuration(["requiring"])
    assert uncounted() == {"c"}


# --- order of events ---
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_lowest_of_several_default_priority_classes_counts_in_any_order(order: tuple[int, int]) -> None:
    cache = small()
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"c{value}"},
            "value": value,
        }
        for value in (5, 3)
    ]
    feed(cache, *[{**classes[i], "globalDefault": True} for i in order])
    assert cache.snapshot(0).jobs["default/a"].priority == 3


def test_a_priority_class_changes_only_the_jobs_that_use_it() -> None:
    cache = small()
    uses = group("b")
    uses["spec"]["priorityClassName"] = "high"
    feed(cache, uses, pod("b-0", "1c", "b"))
    before = cache.snapshot(0).jobs
    a, b = before["default/a"], before["default/b"]
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
    version = cache.version
    feed(cache, high)
    after = cache.snapshot(1).jobs
    assert (b.priority, after["default/b"].priority, cache.version > version) == (0, 7, True)
    assert after["default/a"] is a
    cache.delete(PRIORITY_CLASS, "", "high")
    assert cache.snapshot(2).jobs["default/b"].priority == 0


@pytest.mark.parametrize("text", ["high", "", "1.5", "1_000", " 7", "2147483648", "9" * 5000])
def test_a_malformed_task_priority_is_reported_and_the_pod_is_kept(text: str) -> None:
    cache = small()
    feed(cache, pod("p0", "1c", "a", priority=5, annotations={"volcano.sh/task-priority": text}))
    assert task_of(cache, "p0").priority == 5
    assert [m.field for m in cache.take_malformed()] == ["metadata.annotations[volcano.sh/task-priority]"]


def test_an_unchanged_object_does_not_change_the_version() -> None:
    cache = small()
    version = cache.version
    feed(cache, node("n1"), group("a"), pod("p0", "1c", "a"))
    assert cache.version == version
