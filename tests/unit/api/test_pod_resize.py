"""The amounts that a Pod holds while it is resized in place, by the rules of kube-scheduler 1.36."""

from typing import Any

import msgspec
import pytest

from scheduler.api.objects import Pod
from scheduler.api.pod_amounts import Qos, pod_request, qos_of
from scheduler.api.pod_resize import held_spec
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Dimensions
from tests.builders import amounts

Raw = dict[str, Any]


def container(asks: str, name: str = "c", limits: str = "", **rest: Any) -> Raw:
    resources = {"requests": amounts(asks), **({"limits": amounts(limits)} if limits else {})}
    return {"name": name, "resources": resources, **rest}


def status(allocated: str | None, applied: str | None, name: str = "c") -> Raw:
    """The status of a container; None: the kubelet reports nothing."""
    found: Raw = {"name": name}
    if allocated is not None:
        found["allocatedResources"] = amounts(allocated)
    if applied is not None:
        found["resources"] = {"requests": amounts(applied)}
    return found


def resize(reason: str = "") -> list[Raw]:
    """The conditions during a resize. ``reason``: why it is pending; "": it is in progress."""
    if not reason:
        return [{"type": "PodResizeInProgress", "status": "True"}]
    return [{"type": "PodResizePending", "status": "True", "reason": reason}]


def pod(spec: Raw, status: Raw | None = None, node: str = "n") -> Pod:
    document = {"metadata": {"name": "p"}, "spec": {"nodeName": node, **spec}, "status": status or {}}
    return msgspec.convert(document, Pod)


def nothing_malformed(field: str, problem: str) -> None:
    raise AssertionError(f"{field}: {problem}")


def held(of: Pod) -> tuple[float, float]:
    """The amounts in cores and MiB."""
    vector = pod_request(held_spec(of, nothing_malformed), Dimensions())
    return vector[CPU_INDEX] / 1000, vector[MEMORY_INDEX] / 2**20


@pytest.mark.parametrize(
    ("spec", "reported", "conditions", "cores"),
    [
        ("2c", status("2c", "2c"), [], 2),
        ("2c", status(None, None), [], 2),
        ("1c", status("6c", "6c"), resize(), 6),
        ("1c", status("1c", "6c"), resize(), 6),
        ("1c", status("6c", "1c"), resize(), 6),
        ("6c", status("1c", "1c"), resize(), 6),
        ("6c", status("6c", "1c"), resize(), 6),
        ("7c", status("1c", "1c"), resize("Deferred"), 7),
        ("1c", status("5c", "5c"), resize("Deferred"), 5),
        ("7c", status("1c", "1c"), resize("Infeasible"), 1),
        ("7c", status("1c", "3c"), [*resize("Infeasible"), *resize()], 3),
        ("7c", status("3c", "1c"), [*resize("Infeasible"), *resize()], 3),
        ("1c", status("6c", None), resize(), 6),
        ("7c", status("1c", None), resize("Infeasible"), 1),
        ("7c", status(None, "1c"), resize("Infeasible"), 1),
        ("7c", status(None, None), resize("Infeasible"), 7),
        ("7c", status("1c", "1c", name="another"), resize("Infeasible"), 7),
        ("1c", status("", ""), [], 1),
        ("1.5c", {"name": "c", "allocatedResources": {"cpu": "1500m"}}, [], 1.5),
    ],
)
def test_a_container_holds_the_largest_of_what_it_requests_what_is_reserved_and_what_applies(
    spec: str, reported: Raw, conditions: list[Raw], cores: float
) -> None:
    found = pod({"containers": [container(spec)]}, {"containerStatuses": [reported], "conditions": conditions})
    assert held(found) == (cores, 0)


def test_each_resource_and_each_container_counts_by_itself() -> None:
    spec = {"containers": [container("1c+512Mi", "a"), container("4c+64Mi", "b")], "overhead": amounts("1c+16Mi")}
    reported = [status("3c+128Mi", "2c+128Mi", "a"), status("1c+256Mi", "1c+64Mi", "b")]
    assert held(pod(spec, {"containerStatuses": reported, "conditions": resize()})) == (3 + 4 + 1, 512 + 256 + 16)


def test_sidecars_are_resized_like_containers_and_other_init_containers_are_not() -> None:
    spec = {
        "containers": [container("1c")],
        "initContainers": [container("1c", "side", restartPolicy="Always"), container("2c", "first")],
    }
    reported = [status("3c", "3c", "side"), status("9c", "9c", "first")]
    assert held(pod(spec, {"initContainerStatuses": reported})) == (3 + 2, 0)


def test_a_pod_without_a_node_holds_what_it_requests() -> None:
    found = pod({"containers": [container("1c")]}, {"containerStatuses": [status("6c", "6c")]}, node="")
    assert held(found) == (1, 0)


@pytest.mark.parametrize(
    ("level", "reported", "conditions", "cores"),
    [
        ("4c", {"allocatedResources": amounts("4c+1Mi"), "resources": {"requests": amounts("4c")}}, [], 4),
        ("2c", {"allocatedResources": amounts("6c"), "resources": {"requests": amounts("5c")}}, resize(), 6),
        ("7c", {"allocatedResources": amounts("2c"), "resources": {"requests": amounts("2c")}}, resize("Deferred"), 7),
        (
            "7c",
            {"allocatedResources": amounts("2c"), "resources": {"requests": amounts("3c")}},
            resize("Infeasible"),
            3,
        ),
        ("7c", {}, resize("Infeasible"), 7),
    ],
)
def test_pod_level_requests_are_resized_as_a_whole(
    level: str, reported: Raw, conditions: list[Raw], cores: float
) -> None:
    spec = {"containers": [container("1c+10Mi")], "resources": {"requests": amounts(level)}, "overhead": amounts("1c")}
    assert held(pod(spec, {**reported, "conditions": conditions})) == (cores + 1, 10)


def test_amounts_of_the_whole_pod_do_not_count_without_pod_level_requests() -> None:
    reported = {"allocatedResources": amounts("9c"), "resources": {"requests": amounts("9c")}}
    assert held(pod({"containers": [container("1c")]}, reported)) == (1, 0)


@pytest.mark.parametrize(("state", "cores"), [("Infeasible", 1), ("Deferred", 7), ("Proposed", 7), ("InProgress", 7)])
def test_the_state_of_a_resize_counts_as_kubelets_before_1_33_report_it(state: str, cores: float) -> None:
    found = pod({"containers": [container("7c")]}, {"containerStatuses": [status("1c", "1c")], "resize": state})
    assert held(found) == (cores, 0)


def test_an_infeasible_resize_releases_only_what_can_be_resized() -> None:
    gpu, dimensions = "nvidia.com/gpu", Dimensions()
    spec = {"containers": [container(f"7c+{gpu}=2", limits=f"8c+{gpu}=2")]}
    found = pod(spec, {"containerStatuses": [status("1c", "1c")], "conditions": resize("Infeasible")})
    held_by_it = held_spec(found, nothing_malformed)
    request, (of_container,) = pod_request(held_by_it, dimensions), held_by_it.containers
    assert (request[CPU_INDEX], request[dimensions.index(gpu)]) == (1000, 2000)
    assert of_container.resources is not None and of_container.resources.limits == {"cpu": "8", gpu: "2"}


@pytest.mark.parametrize(
    ("cores", "conditions"), [("1c", resize()), ("9c", resize("Deferred")), ("9c", resize("Infeasible"))]
)
@pytest.mark.parametrize(("limit", "qos"), [("", Qos.GUARANTEED), ("9c", Qos.BURSTABLE)])
def test_a_resize_does_not_change_the_qos_class(cores: str, conditions: list[Raw], limit: str, qos: Qos) -> None:
    memory = "1Gi" if qos is Qos.GUARANTEED else "2Gi"
    spec = {"containers": [container(f"{cores}+1Gi", limits=f"{limit or cores}+{memory}")]}
    reported = {"containerStatuses": [status("6c+1Gi", "4c+1Gi")], "conditions": conditions}
    assert qos_of(held_spec(pod(spec, reported), nothing_malformed)) is qos


def test_the_spec_is_the_same_object_unless_another_amount_is_held() -> None:
    equal = {"name": "c", "allocatedResources": {"cpu": "2000m"}, "resources": {"requests": {"cpu": 2}}}
    for spec in ({"requests": {"cpu": "2"}}, {"limits": {"cpu": "2"}}):
        found = pod({"containers": [{"name": "c", "resources": spec}]}, {"containerStatuses": [equal]})
        assert held_spec(found, nothing_malformed) is found.spec


@pytest.mark.parametrize(("broken", "cores"), [("many", 7), ("-1", 7)])
def test_a_malformed_amount_is_reported_with_its_field_and_releases_nothing(broken: str, cores: float) -> None:
    reported = {
        "name": "c",
        "allocatedResources": {"cpu": broken, "memory": "64Mi"},
        "resources": {"requests": {"cpu": "1", "memory": broken}},
    }
    found = pod(
        {"containers": [container("7c+32Mi")]}, {"containerStatuses": [reported], "conditions": resize("Infeasible")}
    )
    problems: dict[str, str] = {}
    vector = pod_request(held_spec(found, problems.__setitem__), Dimensions())
    assert (vector[CPU_INDEX] / 1000, vector[MEMORY_INDEX] / 2**20) == (cores, 64)
    assert problems.keys() == {
        "status.containerStatuses[c].allocatedResources[cpu]",
        "status.containerStatuses[c].resources.requests[memory]",
    }
    assert all(broken in problem for problem in problems.values())


def test_a_malformed_spec_is_left_to_its_readers() -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "many"}}}]}
    found = pod(spec, {"containerStatuses": [status("1c", "2c")]})
    assert held_spec(found, nothing_malformed) is found.spec
