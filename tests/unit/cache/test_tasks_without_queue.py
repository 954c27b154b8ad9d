"""Groups and sums of the Pods that belong to no queue, kept from snapshot to snapshot, equal those counted from
scratch."""

import random
from collections import Counter

import numpy as np
import pytest

from scheduler.api.kinds import NODE, POD, POD_GROUP
from scheduler.api.names import WORKLOAD
from scheduler.api.task import ALLOCATED_STATUSES, Task
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.fork import branch, fork
from tests.builders import NAME, Raw, feed, group, node, pod, queue
from tests.examples import examples

OTHER = "default-scheduler"


def foreign(name: str, namespace: str = "old", **rest: object) -> Raw:
    made = pod(name, scheduler=OTHER, **rest)  # type: ignore[arg-type]
    made["metadata"]["namespace"] = namespace
    return made


def test_pods_of_other_schedulers_are_grouped_by_namespace_owner_and_class() -> None:
    cache = ClusterCache([NAME])
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f", "uid": "u", "controller": True}
    replicas = [foreign(f"web-{i}", asks="1c", on="n", labels={"pod-template-hash": "5d4f"}) for i in range(3)]
    for each in replicas:
        each["metadata"]["ownerReferences"] = [owner]
    feed(cache, node("n"), *replicas, foreign("lone", asks="2c", on="n"), foreign("waits", asks="4c"))
    feed(cache, foreign("other", "new", asks="1c", on="n", phase="Succeeded"))

    found = cache.snapshot(0.0).without_queue

    groups = sorted((each.namespace, each.owner, len(each.tasks)) for each in found.groups.values())
    assert groups == [("old", "", 1), ("old", "Deployment/web", 3)]
    assert {name: its.allocated[0] for name, its in found.amounts.items()} == {"old": 5000}
    assert found.amounts["old"].online[0] == 3000


def test_snapshots_share_the_groups_until_a_pod_changes() -> None:
    cache = ClusterCache([NAME])
    feed(cache, node("n"), queue("q"), foreign("a", asks="1c", on="n"), foreign("b", asks="2c", on="n"))
    first = cache.snapshot(0.0).without_queue
    feed(cache, group("g", "q"), pod("g-0", "1c", "g"))
    again = cache.snapshot(1.0).without_queue
    assert again.groups is first.groups and again.amounts is first.amounts
    cache.delete(POD, "old", "a")
    last = cache.snapshot(2.0).without_queue
    kept = [each for each in last.groups.values() if each in first.groups.values()]
    assert len(last.groups) == len(kept) == 1 and len(first.groups) == 2
    assert last.amounts["old"].allocated[0] == 2000 and first.amounts["old"].allocated[0] == 3000


def test_a_pod_with_a_pod_group_belongs_to_its_queue_once_the_pod_group_exists() -> None:
    cache = ClusterCache([NAME])
    feed(cache, node("n"), queue("q"), pod("g-0", "1c", "g", on="n"))
    assert set(cache.snapshot(0.0).without_queue.amounts) == {"default"}
    feed(cache, group("g", "q"))
    assert not cache.snapshot(0.0).without_queue.amounts
    cache.delete(POD_GROUP, "default", "g")
    assert set(cache.snapshot(0.0).without_queue.amounts) == {"default"}
    cache.delete(POD, "default", "g-0")
    assert cache.snapshot(0.0).without_queue == ({}, {})


def expected(cache: ClusterCache, groups: set[str]) -> list[Task]:
    """The tasks on nodes that belong to no queue. ``groups``: the keys of the PodGroups that exist."""
    return [task for task in cache.tasks() if task.node and task.job not in groups and task.status.value not in _ENDED]


_ENDED = ("Succeeded", "Failed")


@pytest.mark.parametrize("seed", range(examples(40)))
def test_groups_and_sums_after_any_history_are_those_counted_from_scratch(seed: int) -> None:
    random_ = random.Random(seed)
    choice = random_.choice
    cache, groups, resources = ClusterCache([NAME]), set[str](), 0
    feed(cache, queue("q"), *(node(name) for name in "mn"))
    for _ in range(60):
        match random_.randrange(9):
            case 0 | 1 | 2:
                more = f"+example.com/r{resources}=1" if random_.random() < 0.2 else ""  # vectors grow
                resources += bool(more)
                labels = {WORKLOAD: choice(["online", "offline"])}
                on, phase = choice(["", "m", "n"]), choice(["Running", "Running", "Pending", "Failed", "Unknown"])
                name, asks = f"p{random_.randrange(6)}", choice(["1c", "2c"]) + more
                deleting = random_.random() < 0.2
                made = foreign(name, choice(["old", "default"]), asks=asks, on=on, phase=phase, labels=labels)
                if deleting:
                    made["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
                feed(cache, made)
            case 3:
                feed(cache, pod(f"g{random_.randrange(4)}", "1c", choice("ab"), on=choice(["", "m"])))
            case 4:
                name = choice("ab")
                feed(cache, group(name, "q"))
                groups.add(f"default/{name}")
            case 5:
                name = choice("ab")
                cache.delete(POD_GROUP, "default", name)
                groups.discard(f"default/{name}")
            case 6:
                name = f"{choice('pg')}{random_.randrange(6)}"
                cache.delete(POD, choice(["old", "default"]), name)
            case 7:
                cache.delete(NODE, "", "m") if random_.random() < 0.5 else feed(cache, node("m"))
            case _:
                cache = fork(cache) if random_.random() < 0.5 else branch(cache)
        found = cache.snapshot(0.0).without_queue
        tasks = expected(cache, groups)
        assert Counter(task.uid for each in found.groups.values() for task in each.tasks) == Counter(
            task.uid for task in tasks
        )
        for each in found.groups.values():
            assert {(task.namespace, task.owner, task.cls) for task in each.tasks} == {
                (each.namespace, each.owner, each.cls)
            }
        held = [task for task in tasks if task.status in ALLOCATED_STATUSES]
        assert found.amounts.keys() == {task.namespace for task in held}
        for namespace, its in found.amounts.items():
            own = [task for task in held if task.namespace == namespace]
            width = len(its.allocated)
            for amounts, of in ((its.allocated, own), (its.online, [task for task in own if task.cls.online])):
                sums = np.zeros(width)
                for task in of:
                    sums[: len(task.cls.request)] += task.cls.request
                assert np.array_equal(amounts[: len(sums)], sums[: len(amounts)])
