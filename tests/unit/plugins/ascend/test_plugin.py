"""The plugin in complete sessions: gangs, terminating Pods, network faults, messages, and configured names."""

import numpy as np
import pytest

from scheduler.api.names import ASCEND_910
from scheduler.api.task import TaskStatus
from scheduler.framework import registry
from scheduler.framework.session import Session
from tests.builders import World, feed, node, pod
from tests.unit.plugins.ascend.chips import (
    CONFIGURATION,
    chips_of,
    device_info,
    job,
    names,
    npu_node,
    npu_pod,
    plugin_of,
)

ALL = list(range(8))


@pytest.mark.parametrize("name", ["ascend", "volcano-npu", "volcano-npu_v6.0.0_linux-aarch64"])
def test_the_plugin_accepts_the_names_of_other_builds(name: str) -> None:
    assert registry.resolve_plugin(name) == "ascend"


def test_a_gang_of_whole_nodes_is_bound_completely() -> None:
    world = World(*(npu_node(f"n{i}") for i in range(4)), job("train", 8, 4)).run(CONFIGURATION)
    assert chips_of(world) == {f"train-{i}": (f"n{i}", ALL) for i in range(4)}


def test_a_gang_without_enough_whole_nodes_waits_with_the_reason() -> None:
    held = npu_pod("held", 1, on="n1", annotations={ASCEND_910: names([5])})
    world = World(npu_node("n0"), npu_node("n1"), node("cpu"), held, job("train", 8, 2)).run(CONFIGURATION)
    assert world.bound == {}
    assert "Insufficient huawei.com/Ascend910" in world.message_of("train-1")


def test_small_jobs_of_one_session_share_a_node_without_sharing_a_chip() -> None:
    world = World(npu_node("n"), device_info("n", ALL), job("a", 4), job("b", 2), job("c", 1), job("d", 1))
    assert chips_of(world.run(CONFIGURATION)) == {
        "a-0": ("n", [0, 1, 2, 3]),
        "b-0": ("n", [4, 5]),
        "c-0": ("n", [6]),
        "d-0": ("n", [7]),
    }


def test_the_next_session_counts_assigned_chips_although_the_list_lags() -> None:
    world = World(npu_node("n"), device_info("n", ALL), job("a", 4)).run(CONFIGURATION)
    assert chips_of(world) == {"a-0": ("n", [0, 1, 2, 3])}
    feed(world.cluster.cache, *job("b", 4))
    assert chips_of(world.run(CONFIGURATION)) == {"b-0": ("n", [4, 5, 6, 7])}
    feed(world.cluster.cache, *job("c", 1))
    assert chips_of(world.run(CONFIGURATION)) == {}


def test_a_job_waits_for_the_chips_of_a_terminating_pod() -> None:
    leaving = npu_pod("old", 8, on="n", annotations={ASCEND_910: names(ALL)}, deleting=True)
    world = World(npu_node("n"), device_info("n", ALL), leaving, job("new", 8)).run(CONFIGURATION)
    assert world.bound == {}


def test_a_group_without_min_resources_gets_chips() -> None:
    raw, *pods = job("j", 2)
    assert "minResources" not in raw["spec"]
    assert chips_of(World(npu_node("n"), raw, pods).run(CONFIGURATION)) == {"j-0": ("n", [0, 1])}


def test_the_fit_error_of_full_rings_names_the_requested_number() -> None:
    world = World(npu_node("n"), device_info("n", [0, 1, 4, 5]), node("cpu"), job("train", 4)).run(CONFIGURATION)
    assert "1 node(s) had no HCCS ring with 4 free chips" in world.message_of("train-0")
    world = World(npu_node("n"), device_info("n", ALL[:6]), job("train", 8)).run(CONFIGURATION)
    assert "1 node(s) had 6 of 8 chips free, all 8 are needed" in world.message_of("train-0")


def test_nodes_of_other_families_have_their_own_reason() -> None:
    labels = {"accelerator-type": "module-910b-8"}
    world = World(npu_node("b", labels=labels), npu_node("wide", 16), job("train", 4)).run(CONFIGURATION)
    assert world.bound == {}
    assert "1 node(s) were not of the family Ascend910 module x8, " in world.message_of("train-0")
    assert "1 node(s) were not of the family Ascend910 module x8, but of Ascend910B module x8" in world.message_of(
        "train-0"
    )


def test_half_a_node_of_eight_chips_is_used_while_no_more_than_four_are_free() -> None:
    labels = {"accelerator-type": "half"}
    used = npu_pod("used", 4, on="n", annotations={ASCEND_910: names([0, 2, 3, 5])}, scheduler="other")
    half = npu_node("n", labels=labels), used, device_info("n", [1, 4, 6, 7])
    world = World(*half, job("j", 2, selector=labels)).run(CONFIGURATION)
    assert chips_of(world) == {"j-0": ("n", [1, 4])}
    more = npu_node("n", labels=labels), device_info("n", ALL), npu_node("m", 4, labels=labels)
    world = World(*more, device_info("m", []), job("j", 2, selector=labels)).run(CONFIGURATION)
    text = world.message_of("j-0")
    assert "1 node(s) had more free chips than the 4 of a node of the family Ascend910 half x4" in text
    assert "1 node(s) had 0 of 4 chips free, 2 are needed" in text


def test_chips_with_a_network_fault_count_among_the_free_ones_of_a_node() -> None:
    labels = {"accelerator-type": "half"}
    node = npu_node("n", 5, labels=labels), device_info("n", [0, 1, 2, 3, 4], NetworkUnhealthy=[4])
    world = World(*node, job("j", 2, 2, selector=labels)).run(CONFIGURATION)
    assert world.bound == {}
    assert "more free chips than the 4 of a node" in world.message_of("j-0")


def test_an_invalid_request_is_an_event_on_the_pod() -> None:
    world = World(npu_node("n"), job("odd", 3)).run(CONFIGURATION)
    assert world.bound == {}
    refused = "asks for 3 huawei.com/Ascend910; a Pod of Ascend910 module x8 may ask for 1, 2, 4 or 8"
    assert refused in world.message_of("odd-0")


# --- network faults ---
def test_a_network_fault_excludes_a_node_for_distributed_jobs_only() -> None:
    nodes = [npu_node("a"), npu_node("b"), npu_node("c"), device_info("a", ALL, NetworkUnhealthy=[6])]
    distributed = World(*nodes, job("train", 8, 2)).run(CONFIGURATION)
    assert distributed.bound == {"train-0": "b", "train-1": "c"}
    single = World(*nodes, job("train", 8)).run(CONFIGURATION)
    assert chips_of(single) == {"train-0": ("a", ALL)}


def test_single_and_distributed_jobs_with_equal_pods_are_filtered_separately() -> None:
    nodes = [npu_node("a"), npu_node("b"), npu_node("c"), device_info("a", ALL, NetworkUnhealthy=[6])]
    world = World(*nodes, job("several", 8, 2), job("single", 8)).run(CONFIGURATION)
    assert world.bound == {"several-0": "b", "several-1": "c", "single-0": "a"}


def test_a_small_job_ignores_network_faults() -> None:
    world = World(npu_node("n"), device_info("n", [0, 1, 2, 4, 5], NetworkUnhealthy=[0]), job("one", 1))
    assert chips_of(world.run(CONFIGURATION)) == {"one-0": ("n", [0])}


# --- beside it ---
def test_pods_without_chips_are_not_filtered() -> None:
    world = World(npu_node("n"), pod("plain", "1c+1Gi", "g"), *job("g", 0, 0)).run(CONFIGURATION)
    assert world.bound == {"plain": "n"}
    assert world.decisions.binds[0].annotations == {}


def test_future_room_counts_terminating_pods() -> None:
    leaving = npu_pod("old", 4, on="n", annotations={ASCEND_910: names([0, 1, 2, 3])}, deleting=True)
    world = World(npu_node("n"), device_info("n", ALL), leaving, job("new", 8))
    session: Session = world.session(CONFIGURATION)
    task = next(iter(session.jobs["default/new"].of(TaskStatus.PENDING).values()))
    plugin = plugin_of(session)
    *_, rings = plugin.filters.of(task.cls, plugin.use(session.jobs["default/new"]))
    rows = np.array([0])
    assert rings.room(rows).tolist() == [0]
    assert rings.future_room(rows).tolist() == [1]  # type: ignore[attr-defined]
