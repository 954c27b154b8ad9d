"""The amounts with which Pods count in a quota."""

from typing import Any

import pytest

from scheduler.api.objects import Container, PodSpec, ResourceRequirements
from scheduler.api.pod_amounts import summed
from scheduler.api.quantity import QuantityError
from scheduler.controllers.resources import pod_usage, printed, scaled


def container(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests or {}, "limits": limits or {}}, **rest}


def usage(*containers: dict[str, Any], **spec: Any) -> dict[str, str]:
    return printed(pod_usage({"containers": list(containers), **spec}))


def test_requests_are_counted_under_both_their_names_and_the_pod_itself_too() -> None:
    assert usage(container({"cpu": "1", "memory": "1Gi"})) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
    }


def test_limits_of_cpu_memory_and_ephemeral_storage_are_counted() -> None:
    amounts = {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}
    found = usage(container({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}, amounts))
    assert found["limits.cpu"] == "2"
    assert found["limits.memory"] == "1Gi"
    assert found["limits.ephemeral-storage"] == "1Gi"
    assert found["requests.ephemeral-storage"] == found["ephemeral-storage"] == "1Gi"


def test_extended_resources_are_counted_as_requests_and_under_the_name_the_scheduler_knows() -> None:
    assert usage(container({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "2"})) == {
        "count/pods": "1",
        "pods": "1",
        "nvidia.com/gpu": "2",
        "requests.nvidia.com/gpu": "2",
    }


def test_huge_pages_are_counted_and_other_native_resources_are_not() -> None:
    assert usage(container({"hugepages-2Mi": "4Mi", "kubernetes.io/batch-cpu": "1"})) == {
        "count/pods": "1",
        "pods": "1",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
    }


def test_a_limit_stands_for_a_request_that_a_template_does_not_give() -> None:
    found = usage(container({"cpu": "1"}, {"cpu": "2", "huawei.com/Ascend910": 8}))
    assert found["cpu"] == "1"
    assert found["huawei.com/Ascend910"] == found["requests.huawei.com/Ascend910"] == "8"


def test_containers_run_together_and_init_containers_before_them_one_by_one() -> None:
    found = usage(
        container({"cpu": "1"}),
        container({"cpu": "500m"}),
        initContainers=[container({"cpu": "1", "memory": "1Gi"}), container({"cpu": "3"})],
    )
    assert (found["cpu"], found["memory"]) == ("3", "1Gi")


def test_a_sidecar_runs_beside_what_is_started_after_it() -> None:
    found = usage(
        container({"cpu": "1"}),
        initContainers=[container({"cpu": "1"}, restartPolicy="Always"), container({"cpu": "2"})],
    )
    assert found["cpu"] == "3"


def test_overhead_comes_on_top_and_raises_only_limits_that_there_are() -> None:
    found = usage(container({"cpu": "1", "memory": "1Gi"}, {"cpu": "1"}), overhead={"cpu": "250m", "memory": "1Gi"})
    assert (found["cpu"], found["memory"], found["limits.cpu"]) == ("1250m", "2Gi", "1250m")
    assert "limits.memory" not in found


def test_requests_of_the_pod_as_a_whole_come_before_those_of_its_containers() -> None:
    found = usage(
        container({"cpu": "1", "memory": "1Gi"}), resources={"requests": {"cpu": "4"}, "limits": {"cpu": "8"}}
    )
    assert (found["cpu"], found["memory"], found["limits.cpu"]) == ("4", "1Gi", "8")


def test_a_decoded_spec_counts_for_the_same_as_a_written_one() -> None:
    asked = ResourceRequirements(requests={"cpu": "1"})
    assert printed(pod_usage(PodSpec(containers=[Container(name="main", resources=asked)]))) == usage(
        container({"cpu": "1"})
    )


def test_usages_are_multiplied_and_added_name_by_name() -> None:
    small = pod_usage({"containers": [container({"cpu": "500m"})]})
    large = pod_usage({"containers": [container({"cpu": "1", "memory": "1Gi"})]})
    assert printed(summed(scaled(small, 3), large)) == {
        "count/pods": "4",
        "pods": "4",
        "cpu": "2500m",
        "requests.cpu": "2500m",
        "memory": "1Gi",
        "requests.memory": "1Gi",
    }


def test_no_pods_ask_for_nothing() -> None:
    assert scaled(pod_usage({"containers": [container({"cpu": "1"})]}), 0) == {}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": [container({"cpu": "lots"})]}, "main: cpu: not a quantity: 'lots'"),
        ({"containers": [container({"cpu": "-1"})]}, "main: cpu: negative amount -1"),
        ({"containers": [container()], "overhead": {"memory": "?"}}, "overhead: memory: not a quantity: '?'"),
        ({"containers": [container()], "resources": {"requests": {"cpu": "?"}}}, "pod: cpu: not a quantity: '?'"),
        ({"containers": "none"}, "Expected `array`, got `str` - at `$.containers`"),
    ],
)
def test_a_malformed_amount_is_refused_with_its_place(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        pod_usage(spec)
    assert str(refusal.value) == message
