"""What many PodGroups have in common is in memory once, and what sessions do not use is not kept."""

import sys

import msgspec

from scheduler.api.scheduling import PodGroup
from scheduler.cache import ClusterCache


def decoded(name: str) -> PodGroup:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": f"owner-{name}"}
    scheduled = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}
    group = {
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
        "status": {"phase": "Running", "conditions": [scheduled]},
    }
    return msgspec.json.decode(msgspec.json.encode(group), type=PodGroup)


def test_podgroups_share_the_texts_and_amounts_that_they_have_in_common() -> None:
    cache = ClusterCache(("volcano-py",))
    groups = [decoded("a"), decoded("b")]
    for group in groups:
        cache.upsert("PodGroup", group)
    assert groups[0].spec.priority_class_name is groups[1].spec.priority_class_name
    first, second = cache.snapshot(0).jobs.values()
    assert first.queue is second.queue
    assert first.namespace is second.namespace
    assert first.phase is second.phase
    assert first.conditions[0].reason is second.conditions[0].reason
    assert first.min_resources is second.min_resources
    assert first.min_resource_list is second.min_resource_list
    assert (first.name, second.name) == ("a", "b")
    assert (first.owner_uid, second.owner_uid) == ("owner-a", "owner-b")


def test_of_a_podgroup_only_what_sessions_use_is_kept() -> None:
    group = decoded("a")
    parts = [group, group.metadata, group.metadata.owner_references, group.metadata.resource_version, group.status]
    before = [sys.getrefcount(part) for part in parts]
    ClusterCache(("volcano-py",)).upsert("PodGroup", group)
    assert [sys.getrefcount(part) for part in parts] == before
