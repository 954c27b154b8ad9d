"""Other objects that the cache stores for plugins: quotas, disruption budgets, affinity of queues. What a kind declares
is what the cache does with it."""

from collections.abc import Mapping
from typing import assert_type

import msgspec
import pytest

from scheduler.api.kinds import CLAIM, DISRUPTION_BUDGET, KINDS, RESOURCE_QUOTA, SCHEDULER_KINDS, Cached, Kind
from scheduler.api.storage import PersistentVolumeClaim
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
    assert before.objects[RESOURCE_QUOTA]["default/q"].status.used == {"cpu": "1"}
    assert before.objects[DISRUPTION_BUDGET]["default/b"].status.disruptions_allowed == 2
    live.delete(RESOURCE_QUOTA, "default", "q")
    live.delete(DISRUPTION_BUDGET, "default", "b")
    after = live.snapshot(0.0)
    assert (after.objects[RESOURCE_QUOTA], after.objects[DISRUPTION_BUDGET]) == ({}, {})
    assert before.objects[RESOURCE_QUOTA], "an older snapshot keeps what it had"
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


# --- what a kind declares ---
WHOLE = [kind for kind in KINDS if kind.cached is Cached.WHOLE]


@pytest.mark.parametrize("kind", WHOLE, ids=str)
def test_a_kind_that_is_kept_whole_is_in_snapshots_until_it_is_deleted(kind: Kind) -> None:
    live, key = cache(), kind.key("default", "x")
    metadata = {"name": "x", **({"namespace": "default"} if kind.namespaced else {})}
    live.upsert(kind, msgspec.convert({"metadata": metadata}, kind.struct))
    before = live.snapshot(0.0)
    live.delete(kind, "default" if kind.namespaced else "", "x")
    assert list(before.objects[kind]) == [key] and not live.snapshot(0.0).objects[kind]
    assert live.stores(kind) and live.find(kind, "default", "x") is None


def test_every_kind_that_the_scheduler_watches_is_kept_whole_or_has_a_table() -> None:
    tables = cache()._tables
    assert set(tables) == set(SCHEDULER_KINDS)


def test_the_objects_of_a_snapshot_have_the_type_of_their_kind() -> None:
    claims = cache().snapshot(0.0).objects[CLAIM]
    assert_type(claims, Mapping[str, PersistentVolumeClaim])
    assert claims == {}
