"""GPUs shared by memory, or allocated whole, in complete sessions."""

import pytest

from scheduler.api.names import GPU_INDEX, GPU_MEMORY, GPU_NUMBER, GPU_PREDICATE_TIME, GPU_UNHEALTHY_IDS
from tests.builders import Raw, World
from tests.unit.plugins.deviceshare.devices import (
    GPU_SHARING,
    GPU_WHOLE,
    annotated,
    given,
    gpu_node,
    gpus,
    jobs,
    limited,
)


def slices(number: int, memory: int, name: str = "p") -> list[Raw]:
    return [limited(f"{name}-{i}", {GPU_MEMORY: memory}) for i in range(number)]


def test_pods_share_the_first_gpu_that_has_the_memory() -> None:
    world = World(gpu_node("n", 2, 8000), jobs(*slices(5, 3000))).run(GPU_SHARING)
    assert gpus(world) == {"p-0": "0", "p-1": "0", "p-2": "1", "p-3": "1"}


def test_the_fit_error_without_enough_gpu_memory_names_the_request() -> None:
    world = World(gpu_node("n", 2, 8000), jobs(*slices(1, 9000))).run(GPU_SHARING)
    assert "1 node(s) had no GPU with 9000 volcano.sh/gpu-memory free" in world.message_of("p-0")


def test_gpu_memory_that_pods_hold_is_not_allocated_again() -> None:
    holder = limited("old", {GPU_MEMORY: 6000}, on="n", annotations={GPU_INDEX: "0"})
    world = World(gpu_node("n", 2, 8000), holder, jobs(*slices(2, 3000))).run(GPU_SHARING)
    assert gpus(world) == {"p-0": "1", "p-1": "1"}


def test_only_idle_healthy_gpus_are_allocated_whole() -> None:
    holder = limited("old", {GPU_NUMBER: 1}, on="n", annotations={GPU_INDEX: "0"})
    nodes = gpu_node("n", 4, 8000, **{GPU_UNHEALTHY_IDS: "1"})
    world = World(nodes, holder, jobs(limited("p", {GPU_NUMBER: 2}), limited("q", {GPU_NUMBER: 1}))).run(GPU_WHOLE)
    assert gpus(world) == {"p": "2,3"}
    assert "1 node(s) had no idle GPU" in world.message_of("q")


def test_with_whole_gpus_requested_gpu_memory_is_an_ordinary_resource() -> None:
    world = World(gpu_node("n", 2, 8000), jobs(limited("p", {GPU_MEMORY: 9000, GPU_NUMBER: 1}))).run(GPU_WHOLE)
    assert gpus(world) == {"p": "0"}


def test_pods_of_one_session_have_different_times_in_the_order_of_their_bindings() -> None:
    times = given(World(gpu_node("n", 1, 8000), jobs(*slices(2, 3000))).run(GPU_SHARING), GPU_PREDICATE_TIME)
    assert len(times) == 2 and int(times["p-0"]) < int(times["p-1"])


def test_a_time_is_later_than_those_of_the_pods_on_the_node_although_the_clock_was_set_back() -> None:
    later = int((World().cluster.now + 60) * 1e9)
    old = {GPU_INDEX: "0", GPU_PREDICATE_TIME: str(later)}
    holder = limited("old", {GPU_MEMORY: 3000}, on="n", annotations=old)
    times = given(World(gpu_node("n", 1, 8000), holder, jobs(*slices(1, 3000))).run(GPU_SHARING), GPU_PREDICATE_TIME)
    assert int(times["p-0"]) > later


def test_pods_that_ask_for_no_gpu_are_not_annotated() -> None:
    world = World(gpu_node("n", 1, 8000), jobs(limited("p", {"cpu": 1}))).run(GPU_SHARING)
    assert world.bound == {"p": "n"} and gpus(world) == {}


@pytest.mark.parametrize("text", ["x", "0,", "-1", "1" * 400, "0,1,a", "١"])
def test_a_malformed_index_of_a_pod_is_reported_and_ignored(text: str) -> None:
    holder = limited("old", {GPU_MEMORY: 6000}, on="n", annotations={GPU_INDEX: text})
    world = World(gpu_node("n", 1, 8000), holder, jobs(*slices(1, 2000))).run(GPU_SHARING)
    assert gpus(world) == {"p-0": "0"}
    (problem,) = world.malformed
    assert problem.startswith(f"Pod old metadata.annotations[{GPU_INDEX}]: ")


def test_a_malformed_list_of_unhealthy_gpus_is_reported_and_its_valid_entries_count() -> None:
    raw = annotated(gpu_node("n", 2, 8000), {GPU_UNHEALTHY_IDS: "0,one"})
    world = World(raw, jobs(*slices(1, 2000))).run(GPU_SHARING)
    assert gpus(world) == {"p-0": "1"} and len(world.malformed) == 1


def test_indexes_of_missing_gpus_are_ignored() -> None:
    holder = limited("old", {GPU_MEMORY: 6000}, on="n", annotations={GPU_INDEX: "999999999"})
    assert gpus(World(gpu_node("n", 1, 8000), holder, jobs(*slices(1, 8000 - 6000))).run(GPU_SHARING)) == {"p-0": "0"}
