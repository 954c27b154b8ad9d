"""The queues and positions of each namespace, in the order in which the scheduler considers jobs."""

from typing import Any

from scheduler.cluster.memory import Simulation
from scheduler.explain.queues import queue_quotas
from tests.builders import NAME, group, manifests, node, pod, queue
from tests.unit.explain.small_clusters import DEFAULT, explained

Raw = dict[str, Any]


def of_namespace(raw: Raw, namespace: str) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}


def waiting(name: str, namespace: str, priority: int = 0) -> list[Raw]:
    """A gang of one Pod of 4 cpu."""
    made = group(name, queue="gold", phase="Inqueue", priority_class=f"class-{priority}")
    return [of_namespace(each, namespace) for each in (made, pod(f"{name}-0", "4c", name))]


def priority_class(value: int) -> Raw:
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**head, "metadata": {"name": f"class-{value}"}, "value": value}


CLUSTER = (
    *(priority_class(value) for value in (0, 5, 9)),
    node("n1", "6c+8Gi"),
    queue("gold", capability="8c"),
    queue("silver"),
    *(of_namespace(each, "blue") for each in (group("runs", queue="gold"), pod("runs-0", "3c", "runs", on="n1"))),
    *waiting("low", "red"),
    *waiting("high", "blue", priority=9),
    *waiting("middle", "red", priority=5),
)


def test_positions_count_all_namespaces_and_follow_the_order_of_the_scheduler() -> None:
    found = queue_quotas(Simulation(manifests(*CLUSTER), DEFAULT, [NAME]))

    positions = {
        (namespace, each["podGroup"]): (each["position"], each["of"], each["for"])
        for namespace, answer in found.items()
        for each in answer["waiting"]
    }
    assert positions == {
        ("blue", "high"): (1, 3, "nodes"),
        ("red", "middle"): (2, 3, "nodes"),
        ("red", "low"): (3, 3, "nodes"),
    }


def test_a_position_is_that_of_explain() -> None:
    found = explained("podgroup", "a", node("n", "1c"), *_gangs(), conf=DEFAULT).queue_position
    listed = queue_quotas(Simulation(manifests(node("n", "1c"), *_gangs()), DEFAULT, [NAME]))["default"]["waiting"]

    assert found is not None
    assert [(each["podGroup"], each["position"]) for each in listed if each["podGroup"] == "a"] == [
        ("a", found.position)
    ]


def _gangs() -> list[Raw]:
    made: list[Raw] = [queue("default")]
    for name in ("a", "b"):
        made += [group(name, phase="Inqueue"), pod(f"{name}-0", "4c", name)]
    return made


def test_a_namespace_gets_its_own_queues_with_numbers_and_no_names_of_others() -> None:
    found = queue_quotas(Simulation(manifests(*CLUSTER), DEFAULT, [NAME]))

    (gold,) = found["red"]["items"]
    assert (gold["queue"], gold["jobs"]) == ("gold", {"running": 1, "waiting": 3})
    assert {"queue": "gold", "resource": "cpu", "used": "3", "deserved": "6", "capability": "8"} in gold["amounts"]
    assert not any(name in repr(found["red"]) for name in ("blue", "runs", "high", "silver"))


def test_a_cluster_without_jobs_has_no_answers() -> None:
    assert queue_quotas(Simulation(manifests(node("n")), DEFAULT, [NAME])) == {}
