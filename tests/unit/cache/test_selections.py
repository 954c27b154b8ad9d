"""The selectors of Services and workloads decide which labels split the classes of Pods."""

from random import Random

import pytest

from scheduler.api.kinds import POD, REPLICA_SET, SERVICE
from scheduler.cache import ClusterCache, task_table
from scheduler.cache.task_table import TaskTable
from tests.builders import NAME, Raw, feed, group, pod


def service(name: str, selector: dict[str, str]) -> Raw:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": selector}}


def replica_set(name: str, selector: Raw, replicas: int = 1) -> Raw:
    meta = {"name": name, "namespace": "default"}
    spec = {"replicas": replicas, "selector": selector}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec}


def classes(cache: ClusterCache) -> dict[str, int]:
    """Maps each Pod to the number of its class."""
    jobs = cache.snapshot(0).jobs
    return {task.name: task.cls.id for task in jobs["default/g"].tasks()}


def cache_of(*pods: Raw) -> ClusterCache:
    cache = ClusterCache([NAME])
    feed(cache, group("g"), list(pods))
    return cache


def test_a_service_splits_only_the_pods_it_selects() -> None:
    cache = cache_of(
        pod("a", group="g", labels={"app": "x"}),
        pod("b", group="g", labels={"app": "y"}),
        pod("c", group="g", labels={"app": "z"}),
    )
    assert len(set(classes(cache).values())) == 1

    feed(cache, service("s", {"app": "x"}))

    found = classes(cache)
    assert found["b"] == found["c"] != found["a"]


def test_pods_created_after_the_service_are_split_too() -> None:
    cache = ClusterCache([NAME])
    feed(cache, service("s", {"app": "x"}), group("g"))
    feed(cache, pod("a", group="g", labels={"app": "x"}), pod("b", group="g", labels={"app": "y"}))

    assert len(set(classes(cache).values())) == 2


def test_pods_share_a_class_again_after_the_service_is_deleted() -> None:
    cache = cache_of(pod("a", group="g", labels={"app": "x"}), pod("b", group="g", labels={"app": "y"}))
    feed(cache, service("s", {"app": "x"}))
    assert len(set(classes(cache).values())) == 2

    cache.delete(SERVICE, "default", "s")

    assert len(set(classes(cache).values())) == 1
    assert not cache.snapshot(0).selections


def test_match_expressions_of_a_workload_affect_all_pods_of_the_namespace() -> None:
    cache = cache_of(pod("a", group="g", labels={"app": "x"}), pod("b", group="g"))
    feed(cache, replica_set("r", {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}))

    assert len(set(classes(cache).values())) == 2


def test_a_new_replica_set_splits_its_pods_without_a_search_in_those_that_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str] = []

    def with_labels(table: TaskTable, namespace: str, labels: object) -> list[object]:
        searched.append(namespace)
        return []

    cache = cache_of(pod("a", group="g", labels={"app": "x", "hash": "1"}), pod("b", group="g", labels={"app": "y"}))
    before = classes(cache)
    monkeypatch.setattr(TaskTable, "with_labels", with_labels)
    feed(cache, replica_set("r2", {"matchLabels": {"app": "x", "hash": "2"}}))
    feed(cache, pod("c", group="g", labels={"app": "x", "hash": "2"}))

    found = classes(cache)
    assert not searched
    assert {name: found[name] for name in before} == before
    assert found["c"] not in before.values()


def test_an_update_with_the_same_selector_changes_nothing() -> None:
    cache = cache_of()
    feed(cache, replica_set("r", {"matchLabels": {"app": "x"}}))
    before = cache.version

    feed(cache, replica_set("r", {"matchLabels": {"app": "x"}}, replicas=1))
    assert cache.version == before


def test_the_replicas_of_replica_sets_with_more_than_one_are_kept() -> None:
    cache = cache_of()
    for replicas, kept in ((5, {"default/r": 5}), (2, {"default/r": 2}), (1, {}), (3, {"default/r": 3})):
        before = cache.version
        feed(cache, replica_set("r", {"matchLabels": {"app": "x"}}, replicas=replicas))
        assert cache.version > before
        assert cache.snapshot(0.0).replicas == kept
    cache.delete(REPLICA_SET, "default", "r")
    assert cache.snapshot(0.0).replicas == {}
    feed(cache, replica_set("r", {"matchLabels": {"app": "y"}}))
    assert cache.version > before


def test_a_removed_selector_selects_no_pods() -> None:
    cache = cache_of(pod("a", group="g", labels={"app": "x"}))
    feed(cache, service("s", {"app": "x"}))
    feed(cache, service("s", {}))

    assert not cache.snapshot(0).selections


@pytest.mark.parametrize("seed", range(5))
def test_selectors_that_come_after_many_pods_came_and_went_split_as_those_that_come_before(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_table, "_LABELS", 4)  # labels of former Pods are dropped all the time
    random = Random(seed)
    selector = service("s", {"app": "3"})
    late, early = cache_of(), ClusterCache([NAME])
    feed(early, group("g"), selector)
    for cache in (late, early):
        feed(cache, pod("selected", group="g", labels={"app": "3"}))
    for step in range(40):
        name = f"p{random.randrange(10)}"
        changed = pod(name, group="g", labels={"app": str(random.randrange(5)), "step": str(step)})
        for cache in (late, early):
            if random.random() < 0.3:
                cache.delete(POD, "default", name)
            feed(cache, changed)
    feed(late, selector)

    found, expected = classes(late), classes(early)
    assert found.keys() == expected.keys()
    assert {a: [b for b in found if found[a] == found[b]] for a in found} == {
        a: [b for b in found if expected[a] == expected[b]] for a in found
    }
    assert len(set(found.values())) == 2
