"""Other objects that the cache stores for plugins: quotas, disruption budgets, affinity of queues."""

from scheduler.cache import ClusterCache
from tests.builders import NAME, Raw, feed, group, node, pod, queue


def cache() -> ClusterCache:
    return ClusterCache([NAME])


def quota(name: str, **used: str) -> Raw:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "status": {"used": used}}


def test_quotas_and_budgets_are_added_and_removed() -> None:
    live = cache()
    budget = {
        **quota("b"),
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "status": {"disruptionsAllowed": 2},
    }
    feed(live, quota("q", cpu="1"), budget)
    before = live.snapshot(0.0)
    assert before.quotas["default/q"].status.used == {"cpu": "1"}
    assert before.budgets["default/b"].status.disruptions_allowed == 2
    live.delete("ResourceQuota", "default", "q")
    live.replace("PodDisruptionBudget", [])
    after = live.snapshot(0.0)
    assert (after.quotas, after.budgets) == ({}, {})
    assert before.quotas, "an older snapshot keeps what it had"
    assert after.version > before.version


def test_a_change_of_queue_affinity_reaches_the_next_session() -> None:
    live = cache()
    feed(live, queue("q"))
    before = live.version
    feed(live, queue("q", affinity={"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}}))
    assert live.version > before
    found = live.snapshot(0.0).queues["q"].affinity
    assert found is not None
    assert found.node_group_affinity is not None


def test_a_deserved_amount_of_zero_is_kept() -> None:
    live = cache()
    feed(live, queue("q", deserved="1c+example.com/card=0", guarantee="example.com/other=1"))
    assert live.snapshot(0.0).queues["q"].deserves == {"cpu", "example.com/card", "example.com/other"}


def test_a_task_has_the_time_of_its_binding() -> None:
    live = cache()
    placed = pod("p", "1c", "a", on="n1")
    feed(live, node("n1"), group("a"), placed)
    (task,) = live.snapshot(0.0).jobs["default/a"].tasks()
    assert task.scheduled_at == 0
    moment = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:01:00Z"}
    feed(live, {**placed, "status": {"phase": "Running", "conditions": [moment]}})
    (task,) = live.snapshot(0.0).jobs["default/a"].tasks()
    assert task.scheduled_at == 60


def test_a_job_keeps_min_resources_as_written() -> None:
    live = cache()
    raw = group("a")
    raw["spec"]["minResources"] = {"cpu": "1", "requests.cpu": "1", "count/pods": "2"}
    feed(live, raw)
    assert live.snapshot(0.0).jobs["default/a"].min_resource_list == raw["spec"]["minResources"]
