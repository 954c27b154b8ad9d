"""In every cluster, no node and no queue is given more than it has, gangs start whole, and equal runs give equal
results."""

import copy
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.api.names import GROUP_NAME
from scheduler.api.quantity import parse_quantity
from scheduler.cluster.memory import KubeletBehaviour, simulate
from scheduler.framework.class_view import runs
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, World, amounts, group, manifests, node, pod, queue

DEFAULT = parse_configuration(DEFAULT_CONFIGURATION)
PLAIN = parse_configuration("actions: allocate, backfill\ntiers:\n- plugins:\n  - name: gang\n")
QUEUED = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
    "- plugins: [{name: overcommit}, {name: drf}, {name: proportion}, {name: binpack}]\n"
)
CONFIGURATIONS = st.sampled_from([DEFAULT, PLAIN, QUEUED])
SIZES = ("", "1c", "2c+1Gi", "0.3c+700Mi", "1c+example.com/gpu=1", "3c+example.com/gpu=2")
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def clusters(draw: st.DrawFn) -> list[Raw]:
    """Generates up to five nodes, three queues and six PodGroups of up to six Pods each; some Pods run, terminate or
    are gated."""
    sizes = st.sampled_from(["4c+8Gi", "2c+2Gi", "8c+16Gi+example.com/gpu=4", "1c+1Gi+3p", "3c+4Gi+2p"])
    objects = [node(f"n{i}", size) for i, size in enumerate(draw(st.lists(sizes, min_size=1, max_size=5)))]
    names = [o["metadata"]["name"] for o in objects]
    queues = draw(st.lists(st.sampled_from(["", "2c", "5c+4Gi", "4c+example.com/gpu=1"]), max_size=2))
    objects += [queue(f"q{i}", i + 1, capability) for i, capability in enumerate(queues)]
    places = [f"q{i}" for i in range(len(queues))] + ["default"]
    free = {o["metadata"]["name"]: dict(o["status"]["allocatable"]) for o in objects if o["kind"] == "Node"}
    for g in range(draw(st.integers(0, 6))):
        size = draw(st.integers(0, 6))
        minimum = draw(st.integers(0, max(size, 1) + 1))
        asks = draw(st.sampled_from([None, "1c", "4c+2Gi", "20c"]))
        objects.append(group(f"g{g}", draw(st.sampled_from(places)), minimum, asks=asks))
        alike = draw(st.booleans())
        shape = draw(st.sampled_from(SIZES))
        for i in range(size):
            shape = shape if alike else draw(st.sampled_from(SIZES))
            fate = draw(st.sampled_from(["wait"] * 8 + ["run", "end", "gated", "done"]))
            where = draw(st.sampled_from(names)) if fate in ("run", "end", "done") else ""
            if fate in ("run", "end") and not take(free[where], shape):
                where, fate = "", "wait"
            objects.append(
                pod(
                    f"g{g}-w-{i}",
                    shape,
                    f"g{g}",
                    on=where,
                    phase="Succeeded" if fate == "done" else "",
                    deleting=fate == "end",
                    gated=fate == "gated",
                    priority=draw(st.sampled_from([None, 1, 9])),
                )
            )
    return objects


def take(free: dict[str, str], shape: str) -> bool:
    """Takes the amounts of a running Pod from a node. Returns False if the node has no room, so that nodes are not
    overcommitted from the start."""
    asked = {**amounts(shape), "pods": "1"}
    left = {k: parse_quantity(free.get(k, "0"), 1000) - parse_quantity(v, 1000) for k, v in asked.items()}
    if any(v < 0 for v in left.values()):
        return False
    free.update({k: f"{v}m" for k, v in left.items()})
    return True


# --- sums over objects, independent of the scheduler's own books ---
def held(objects: list[Raw], key: Any) -> dict[str, dict[str, int]]:
    """The requests of Pods on nodes, in thousandths, summed by ``key`` of the Pod ("" leaves the Pod out)."""
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for item in objects:
        if item["kind"] != "Pod" or not item["spec"].get("nodeName"):
            continue
        if item["status"]["phase"] in ("Succeeded", "Failed") or not key(item):
            continue
        requests = item["spec"]["containers"][0].get("resources", {}).get("requests", {})
        for name, quantity in {**requests, "pods": "1"}.items():
            sums[key(item)][name] += parse_quantity(quantity, 1000)
    return sums


def check(objects: list[Raw], *, count_pods: bool) -> None:
    """No node holds more than it has, in any resource."""
    nodes = {o["metadata"]["name"]: o["status"]["allocatable"] for o in objects if o["kind"] == "Node"}
    for name, sums in held(objects, lambda p: p["spec"]["nodeName"]).items():
        for resource, amount in sums.items():
            if resource != "pods" or count_pods:
                assert amount <= parse_quantity(nodes[name].get(resource, "0"), 1000), (name, resource)


@SETTINGS
@given(clusters(), CONFIGURATIONS)
def test_no_node_is_given_more_than_it_has(objects: list[Raw], configuration: Configuration) -> None:
    report = simulate(manifests(*objects), configuration, [NAME])
    check(report.cluster.objects(), count_pods=False)


@SETTINGS
@given(clusters())
def test_no_node_is_given_more_pods_than_it_runs(objects: list[Raw]) -> None:
    pytest.importorskip("scheduler.plugins.predicates")
    report = simulate(manifests(*objects), DEFAULT, [NAME])
    check(report.cluster.objects(), count_pods=True)


@SETTINGS
@given(clusters(), CONFIGURATIONS)
def test_a_gang_starts_whole_or_not_at_all(objects: list[Raw], configuration: Configuration) -> None:
    world = World(*objects)
    for _ in range(4):
        ready_before = {key: job.ready_count for key, job in world.cluster.cache.snapshot(0).jobs.items()}
        world.run(configuration, kubelet=True)
        jobs = world.cluster.cache.snapshot(0).jobs
        for key in {bind.task.job for bind in world.decisions.binds}:
            # Best-effort members count although they are placed last (as in Volcano).
            reached = jobs[key].ready_count + jobs[key].pending_best_effort
            assert reached >= jobs[key].min_member, (key, ready_before[key])


@SETTINGS
@given(clusters())
def test_a_queue_is_never_given_more_than_its_capability(objects: list[Raw]) -> None:
    """Pods that ran at the start may exceed it, and terminating Pods do not count."""
    before = held(objects, queue_of(objects))
    report = simulate(manifests(*objects), QUEUED, [NAME])
    after = report.cluster.objects()
    limits = {o["metadata"]["name"]: o["spec"].get("capability") or {} for o in after if o["kind"] == "Queue"}
    for name, sums in held(after, queue_of(after)).items():
        for resource, limit in limits[name].items():
            most = max(parse_quantity(limit, 1000), before[name][resource])
            assert sums[resource] <= most, (name, resource)


def queue_of(objects: list[Raw]) -> Any:
    groups = {o["metadata"]["name"]: o["spec"]["queue"] for o in objects if o["kind"] == "PodGroup"}

    def key(item: Raw) -> str:
        meta = item["metadata"]
        return "" if meta.get("deletionTimestamp") else groups.get((meta.get("annotations") or {}).get(GROUP_NAME), "")

    return key


@SETTINGS
@given(clusters(), CONFIGURATIONS, st.sampled_from(list(KubeletBehaviour)))
def test_the_same_input_gives_the_same_output(
    objects: list[Raw], configuration: Configuration, kubelet: KubeletBehaviour
) -> None:
    first, second = (
        json.dumps(simulate(manifests(*objects), configuration, [NAME], kubelet=kubelet).cluster.objects())
        for _ in range(2)
    )
    assert first == second


@SETTINGS
@given(clusters(), CONFIGURATIONS, st.integers(1, 3))
def test_runs_of_equal_tasks_are_placed_as_each_task_alone(
    objects: list[Raw], configuration: Configuration, run: int
) -> None:
    longest = runs.MAX_RUN
    fast = simulate(manifests(*objects), configuration, [NAME]).cluster.objects()
    try:
        runs.MAX_RUN = run
        slow = simulate(manifests(*objects), configuration, [NAME]).cluster.objects()
    finally:
        runs.MAX_RUN = longest
    assert without_versions(fast) == without_versions(slow)


def without_versions(objects: Iterable[Raw]) -> list[Raw]:
    """Objects without their resource versions, which tell in which order the conditions of Pods were written."""
    found = copy.deepcopy(list(objects))
    for raw in found:
        raw["metadata"].pop("resourceVersion", None)
    return found


@SETTINGS
@given(clusters(), CONFIGURATIONS)
def test_the_simulation_becomes_idle(objects: list[Raw], configuration: Configuration) -> None:
    """An unchanged cluster causes no writes: a cluster without evictions settles well before the last cycle."""
    assert simulate(manifests(*objects), configuration, [NAME]).cycles < 20
