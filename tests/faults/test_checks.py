"""The checks of a history find what they look for, and nothing in a history that is as it should be."""

from collections.abc import Sequence
from typing import Any

from scheduler.api.names import ASCEND_910, GROUP_NAME, VGPU_IDS
from tests.faults import checks
from tests.faults.proxy import Exchange, Takeover
from tests.faults.revisions import Change
from tests.faults.schedule import Role, Target


def pod(
    name: str, node: str = "", chips: Sequence[int] = (), *, requested: int = 1, phase: str = "Pending", uid: str = ""
) -> Change:
    """A version of a Pod of the gang ``g`` of two, in the queue ``q``."""
    annotations = {GROUP_NAME: "g"}
    if chips:
        annotations[ASCEND_910] = ",".join(f"Ascend910-{chip}" for chip in chips)
    metadata = {"name": name, "uid": uid or name, "annotations": annotations, "labels": {checks.JOB_LABEL: "j"}}
    requests = {"cpu": "1", ASCEND_910: str(requested)}
    spec = {"containers": [{"resources": {"requests": requests}}], **({"nodeName": node} if node else {})}
    return Change(0, "Pod", f"ns/{name}", {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def history(*changes: Change) -> list[Change]:
    """Changes after those that create a node with eight chips and a gang of two Pods."""
    node: dict[str, Any] = {"status": {"allocatable": {"cpu": "8", ASCEND_910: "8"}}}
    first = [
        Change(0, "Node", "n", node),
        Change(0, "PodGroup", "ns/g", {"spec": {"minMember": 2, "queue": "q"}}),
        pod("a"),
        pod("b"),
    ]
    return [change._replace(revision=number) for number, change in enumerate([*first, *changes], 1)]


def findings(changes: list[Change]) -> list[str]:
    """What all checks of objects find."""
    return [
        *checks.double_bindings(changes),
        *checks.devices_used_twice(changes, 10_000),
        *checks.overcommitted_nodes(changes),
        *checks.exceeded_quota(changes, "q", 3),
        *checks.torn_gangs(changes),
        *checks.needless_pods(changes, {"ns/j": 2}, frozenset()),
    ]


def test_a_gang_that_is_bound_and_ends_is_as_it_should_be() -> None:
    assert not findings(
        history(
            pod("a", "n", [0]),
            pod("b", "n", [1]),
            pod("a", "n", [0], phase="Running"),
            pod("a", "n", [0], phase="Succeeded"),
            pod("b", "n", [1], phase="Succeeded"),
        )
    )


def test_a_pod_that_changes_its_node_was_bound_twice() -> None:
    (finding,) = checks.double_bindings(history(pod("a", "n", [0]), pod("a", "m", [0])))
    assert "ns/a was bound to n" in finding and "then to m" in finding and "(revision 6)" in finding


def test_a_namesake_on_another_node_is_another_pod() -> None:
    again = history(pod("a", "n", [0]), Change(0, "Pod", "ns/a", None), pod("a", "m", [0], uid="second"))
    assert not list(checks.double_bindings(again))


def test_a_chip_of_two_pods_is_used_twice_until_one_has_ended() -> None:
    (finding,) = checks.devices_used_twice(history(pod("a", "n", [0]), pod("b", "n", [0])), 10_000)
    assert "chip Ascend910-0 of n is used by ['ns/a', 'ns/b']" in finding
    after = history(pod("a", "n", [0]), pod("a", "n", [0], phase="Succeeded"), pod("b", "n", [0]))
    assert not list(checks.devices_used_twice(after, 10_000))


def test_a_bound_pod_without_the_chips_that_it_requests_is_found() -> None:
    (finding,) = checks.devices_used_twice(history(pod("a", "n", [0], requested=2)), 10_000)
    assert "requests 2 chips and has" in finding


def test_a_gpu_of_which_pods_use_more_than_there_is_is_found() -> None:
    changes = history(pod("a", "n", [0]), pod("b", "n", [1]))
    for change in changes[-2:]:
        assert change.object is not None
        change.object["metadata"]["annotations"][VGPU_IDS] = "gpu-0,NVIDIA,6000,30:;"
    (finding,) = checks.devices_used_twice(changes, 10_000)
    assert "gpu-0 of n: 12000 memory, 60 % in use" in finding


def test_a_node_whose_pods_request_more_than_it_has_is_found() -> None:
    changes = history(pod("a", "n", range(8), requested=8), pod("b", "n", [0], requested=1))
    assert [text for text in checks.overcommitted_nodes(changes) if "9000 thousandths of huawei.com/Ascend910" in text]


def test_a_queue_above_its_quota_is_found() -> None:
    changes = history(pod("a", "n", [0, 1], requested=2), pod("b", "n", [2, 3], requested=2))
    (finding,) = checks.exceeded_quota(changes, "q", 3)
    assert "uses 4 chips of 3" in finding


def test_a_pod_that_is_bound_before_its_gang_exists_is_found() -> None:
    changes = history(Change(0, "Pod", "ns/b", None), pod("a", "n", [0]))
    assert any("bound while 1 of 2 Pods existed" in text for text in checks.torn_gangs(changes))


def test_half_a_gang_at_the_end_is_found() -> None:
    (finding,) = checks.torn_gangs(history(pod("a", "n", [0])))
    assert finding == "1 of 2 Pods of ns/g are bound at the end"


def test_a_pod_that_is_created_again_without_a_reason_is_found() -> None:
    changes = history(Change(0, "Pod", "ns/a", None), pod("a", uid="second"))
    assert list(checks.needless_pods(changes, {"ns/j": 2}, frozenset())) == ["job ns/j of 2 Pods created 3"]
    assert not list(checks.needless_pods(changes, {"ns/j": 2}, frozenset({"ns/j"})))


def accepted(client: str, at: float) -> Exchange:
    return Exchange(client, Role.SCHEDULER, "POST", "/api/v1/namespaces/ns/pods/a/binding", Target.BINDING, at, 201)


def test_a_binding_by_a_process_that_another_has_replaced_is_found() -> None:
    takeovers = [Takeover(Role.SCHEDULER, "one", 1.0), Takeover(Role.SCHEDULER, "two", 5.0)]
    (finding,) = checks.writes_of_former_leaders([accepted("one", 2.0), accepted("one", 6.5)], takeovers)
    assert finding.startswith("one bound a Pod 1.50 s after two took the lease")
    assert not list(checks.writes_of_former_leaders([accepted("two", 6.5)], takeovers))


def test_a_failover_lasts_until_another_process_has_the_lease() -> None:
    takeovers = [Takeover(Role.SCHEDULER, "one", 1.0), Takeover(Role.SCHEDULER, "two", 7.0)]
    assert checks.failovers([(Role.SCHEDULER, "one", 2.5)], takeovers) == [4.5]
    assert checks.failovers([(Role.CONTROLLERS, "c", 2.5)], takeovers) == []
