"""The amounts that a Pod takes from a node: containers, init containers, sidecars, pod-level requests, overhead."""

from typing import Any

import msgspec
import pytest

from scheduler.api.node import NONZERO_CPU, NONZERO_MEMORY
from scheduler.api.objects import PodSpec
from scheduler.api.pod_amounts import nonzero_request, pod_request
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions
from tests.builders import amounts

Raw = dict[str, Any]


def container(asks: str, **rest: Any) -> Raw:
    return {"resources": {"requests": amounts(asks)}, **rest}


def sidecar(asks: str) -> Raw:
    return container(asks, restartPolicy="Always")


def cpu_and_memory(**spec: Any) -> tuple[float, float]:
    """The amounts in cores and MiB."""
    vector = pod_request(msgspec.convert(spec, PodSpec), Dimensions())
    assert vector[PODS_INDEX] == 1
    return vector[CPU_INDEX] / 1000, vector[MEMORY_INDEX] / 2**20


def test_requests_of_containers_are_summed() -> None:
    assert cpu_and_memory(containers=[container("1c+10Mi"), container("2c")]) == (3, 10)


def test_an_init_container_counts_if_it_requests_more_than_the_containers() -> None:
    assert cpu_and_memory(containers=[container("1c+10Mi")], initContainers=[container("3c+5Mi")]) == (3, 10)


def test_only_the_largest_init_container_counts() -> None:
    init = [container("3c"), container("2c")]
    assert cpu_and_memory(containers=[container("1c")], initContainers=init) == (3, 0)


def test_sidecars_add_to_the_containers() -> None:
    assert cpu_and_memory(containers=[container("1c")], initContainers=[sidecar("2c"), sidecar("1c")]) == (4, 0)


def test_an_init_container_runs_with_the_sidecars_started_before_it() -> None:
    init = [sidecar("1c"), container("5c"), sidecar("1c")]
    assert cpu_and_memory(containers=[container("1c")], initContainers=init) == (6, 0)
    assert cpu_and_memory(containers=[container("1c")], initContainers=[container("5c"), sidecar("1c")]) == (5, 0)


def test_overhead_is_added_to_the_larger_amount() -> None:
    spec = {"initContainers": [container("3c")], "overhead": amounts("1c+64Mi")}
    assert cpu_and_memory(containers=[container("1c+10Mi")], **spec) == (4, 74)


def test_pod_level_requests_replace_the_sum() -> None:
    spec = {"resources": {"requests": amounts("5c")}, "overhead": amounts("1c")}
    assert cpu_and_memory(containers=[container("1c+10Mi")], **spec) == (6, 10)


def test_a_limit_without_a_request_is_the_request() -> None:
    both = {"resources": {"requests": amounts("1c"), "limits": amounts("2c+10Mi")}}
    assert cpu_and_memory(containers=[both]) == (1, 10)


def test_a_request_may_have_more_resources_than_the_initial_width() -> None:
    dimensions = Dimensions()
    names = [f"example.com/r{i}" for i in range(20)]
    spec = {
        "containers": [container(f"{name}=1") for name in names[:10]],
        "initContainers": [container(f"{name}=2") for name in names[5:15]],
        "overhead": dict.fromkeys(names[15:], 1),
    }
    vector = pod_request(msgspec.convert(spec, PodSpec), dimensions)
    positions = [dimensions.find(name) for name in names]
    assert [vector[p] for p in positions if p is not None] == [1000.0] * 5 + [2000.0] * 10 + [1000.0] * 5


@pytest.mark.parametrize("asks", ["xc", "-1c", "example.com/gpu=?"])
def test_a_malformed_request_is_an_error_that_names_the_resource(asks: str) -> None:
    (name,) = amounts(asks)
    with pytest.raises(QuantityError, match=name):
        cpu_and_memory(containers=[container(asks)])


@pytest.mark.parametrize("limit", ["many", "-1"])
def test_a_malformed_limit_is_an_error_even_with_a_request(limit: str) -> None:
    both = {"resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": limit}}}
    with pytest.raises(QuantityError, match=r"example\.com/gpu"):
        cpu_and_memory(containers=[both])


def test_scores_assume_a_default_for_each_container_without_a_request() -> None:
    spec = msgspec.convert({"containers": [container("1c"), container("10Mi"), {}]}, PodSpec)
    cpu, memory = nonzero_request(spec, pod_request(spec, Dimensions()))
    assert (cpu, memory) == (1000 + 2 * NONZERO_CPU, 10 * 2**20 + 2 * NONZERO_MEMORY)
