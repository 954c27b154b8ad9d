"""Texts that many PodGroups have in common are in memory once."""

import msgspec

from scheduler.api.scheduling import PodGroup
from scheduler.cache import ClusterCache


def decoded(name: str) -> PodGroup:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": f"owner-{name}"}
    group = {
        "metadata": {"name": name, "namespace": "jobs", "uid": name, "ownerReferences": [owner]},
        "spec": {"minMember": 1, "queue": "research", "priorityClassName": "urgent"},
        "status": {"phase": "Running"},
    }
    return msgspec.json.decode(msgspec.json.encode(group), type=PodGroup)


def test_podgroups_share_the_names_of_their_owners_kind_priority_class_and_phase() -> None:
    cache = ClusterCache(("volcano-py",))
    groups = [decoded("a"), decoded("b")]
    for group in groups:
        cache.upsert("PodGroup", group)
    first, second = groups
    owner, other = ((group.metadata.owner_references or [])[0] for group in groups)
    assert owner.api_version is other.api_version
    assert owner.kind is other.kind
    assert first.spec.priority_class_name is second.spec.priority_class_name
    assert first.status.phase is second.status.phase
    assert owner.name == "a"
    assert other.name == "b"
