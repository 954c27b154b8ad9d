"""Data that many PodGroups have in common is in memory once, and data that sessions do not use is not kept."""

import sys

import msgspec

from scheduler.api.kinds import POD_GROUP
from scheduler.api.scheduling import PodGroup
from scheduler.cache import ClusterCache
from tests.builders import NAME, feed, group, node, pods


def decoded(name: str) -> PodGroup:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": f"owner-{name}"}
    scheduled = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}
    raw = {
        "metadata": {
            "name": name,
            "namespace": "jobs",
            "uid": name,
            "ownerReferences": [owner | {"controller": True}],
            "resourceVersion": "1234",
        },
        "spec": {
            "minMember": 1,
            "queue": "research",
            "priorityClassName": "urgent",
            "minResources": {"cpu": "4", "memory": "8Gi"},
        },
        "status": {"phase": "Running", "running": 1, "conditions": [scheduled]},
    }
    return msgspec.json.decode(msgspec.json.encode(raw), type=PodGroup)


def test_podgroups_share_the_texts_and_amounts_that_they_have_in_common() -> None:
    cache = ClusterCache(("volcano-py",))
    groups = [decoded("a"), decoded("b")]
    for each in groups:
        cache.upsert(POD_GROUP, each)
    assert groups[0].spec.priority_class_name is groups[1].spec.priority_class_name
    first, second = cache.snapshot(0).jobs.values()
    assert first.queue is second.queue
    assert first.namespace is second.namespace
    assert first.phase is second.phase
    assert first.conditions[0].reason is second.conditions[0].reason
    assert first.counts is second.counts
    assert first.min_resources is second.min_resources
    assert first.min_resource_list is second.min_resource_list
    assert (first.name, second.name) == ("a", "b")
    assert (first.owner_uid, second.owner_uid) == ("owner-a", "owner-b")


def test_equal_jobs_share_the_sum_of_their_requests_and_what_they_reserve() -> None:
    cache = ClusterCache((NAME,))
    feed(cache, node("n", "8c"))
    for name in "ab":
        feed(cache, group(name, asks="4c", phase="Running"), pods(name, 2, "1c", name, node="n", phase="Running"))
    cache.enforce_admissions(())
    first, second = cache.snapshot(0).jobs.values()
    assert first.allocated is second.allocated
    assert first.reservation_limit is second.reservation_limit
    assert first.reservation_limit is not None
    assert (first.allocated[0], first.reservation_limit[0]) == (2000, 2000)


def test_of_a_podgroup_only_what_sessions_use_is_kept() -> None:
    whole = decoded("a")
    parts = [whole, whole.metadata, whole.metadata.owner_references, whole.metadata.resource_version, whole.status]
    before = [sys.getrefcount(part) for part in parts]
    ClusterCache(("volcano-py",)).upsert(POD_GROUP, whole)
    assert [sys.getrefcount(part) for part in parts] == before
