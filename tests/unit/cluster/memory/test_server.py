"""The API server of a cluster in memory: storage, notification of watchers, and garbage collection."""

import uuid
from typing import Any

import pytest

from scheduler.api.kinds import POD, POD_GROUP, QUEUE, VCJOB, Kind
from scheduler.api.objects import KubeObject, Pod
from scheduler.cluster.manifests import ManifestError
from scheduler.cluster.memory.server import MemoryServer


def manifest(kind: Kind, name: str, owner: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, **({"namespace": "ns"} if kind.namespaced else {})}
    if owner is not None:
        metadata["ownerReferences"] = [
            {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        ]
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **rest}


def server_with_log() -> tuple[MemoryServer, list[tuple[str, str, str]]]:
    server, log = MemoryServer(), []

    def record(kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        what = "came" if old is None else "went" if new is None else "changed"
        obj = new or old
        assert obj is not None
        log.append((what, kind.name, obj.metadata.name))

    server.watch(record)
    return server, log


def found(server: MemoryServer, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
    """The object as it is stored."""
    obj = server.find(kind, namespace, name)
    assert obj is not None
    return obj


def test_a_created_object_gets_defaults_is_stored_and_notified() -> None:
    server, log = server_with_log()

    assert server.create(POD_GROUP, manifest(POD_GROUP, "g"))

    stored = found(server, POD_GROUP, "ns", "g")
    assert stored["spec"]["queue"] == "default"
    assert stored["metadata"]["uid"]
    assert log == [("came", "PodGroup", "g")]


def test_an_existing_object_is_not_created_again() -> None:
    server, _ = server_with_log()
    server.create(POD_GROUP, manifest(POD_GROUP, "g"))

    assert not server.create(POD_GROUP, manifest(POD_GROUP, "g", spec={"minMember": 5}))
    assert found(server, POD_GROUP, "ns", "g")["spec"].get("minMember") is None


def test_an_object_created_again_has_another_uid() -> None:
    server, _ = server_with_log()
    server.create(POD_GROUP, manifest(POD_GROUP, "g"))
    first = found(server, POD_GROUP, "ns", "g")["metadata"]["uid"]
    server.delete(POD_GROUP, "ns", "g")
    server.create(POD_GROUP, manifest(POD_GROUP, "g"))

    assert found(server, POD_GROUP, "ns", "g")["metadata"]["uid"] != first


def test_a_merge_patch_changes_what_it_names_and_removes_what_it_nulls() -> None:
    server, log = server_with_log()
    server.create(QUEUE, manifest(QUEUE, "q", spec={"weight": 2, "parent": "root"}))

    server.patch(QUEUE, "", "q", {"spec": {"weight": 3, "parent": None}, "status": {"state": "Closed"}})

    stored = found(server, QUEUE, "", "q")
    assert stored["spec"] == {"weight": 3, "reclaimable": True}
    assert stored["status"] == {"state": "Closed"}
    assert log[-1] == ("changed", "Queue", "q")


def test_a_patch_without_changes_is_not_notified() -> None:
    server, log = server_with_log()
    server.create(QUEUE, manifest(QUEUE, "q", spec={"weight": 2}))

    server.patch(QUEUE, "", "q", {"spec": {"weight": 2}})

    assert len(log) == 1


def test_a_patch_that_makes_an_object_invalid_is_refused() -> None:
    server, _ = server_with_log()
    server.create(QUEUE, manifest(QUEUE, "q"))

    with pytest.raises(ManifestError, match="weight"):
        server.patch(QUEUE, "", "q", {"spec": {"weight": "heavy"}})
    assert found(server, QUEUE, "", "q")["spec"]["weight"] == 1


def test_deleting_an_object_deletes_all_that_it_owns_transitively() -> None:
    server, log = server_with_log()
    server.create(VCJOB, manifest(VCJOB, "j"))
    job = server.find(VCJOB, "ns", "j")
    server.create(POD_GROUP, manifest(POD_GROUP, "g", owner=job))
    server.create(POD, manifest(POD, "p", owner=server.find(POD_GROUP, "ns", "g"), spec={"containers": []}))

    server.delete(VCJOB, "ns", "j")

    assert [raw for _, raw in server] == []
    assert [entry for entry in log if entry[0] == "went"] == [
        ("went", "Job", "j"),
        ("went", "PodGroup", "g"),
        ("went", "Pod", "p"),
    ]


def test_an_object_of_another_namespace_is_owned_by_nobody_here() -> None:
    server, _ = server_with_log()
    server.create(VCJOB, manifest(VCJOB, "j"))
    job = found(server, VCJOB, "ns", "j")
    forged = manifest(POD, "p", owner=job, spec={"containers": []})
    forged["metadata"]["namespace"] = "evil"
    server.create(POD, forged)

    assert server.owned(POD, "ns", job["metadata"]["uid"]) == []
    server.delete(VCJOB, "ns", "j")
    assert server.find(POD, "evil", "p") is not None


def test_a_deleted_pod_on_a_node_terminates_and_one_without_a_node_is_removed() -> None:
    server, _ = server_with_log()
    server.create(POD, manifest(POD, "placed", spec={"containers": [], "nodeName": "n1"}))
    server.create(POD, manifest(POD, "waiting", spec={"containers": []}))

    server.delete(POD, "ns", "placed")
    server.delete(POD, "ns", "waiting")

    assert found(server, POD, "ns", "placed")["metadata"]["deletionTimestamp"]
    assert server.find(POD, "ns", "waiting") is None
    assert [key[2] for key in server.terminating] == ["placed"]


def test_batched_changes_are_notified_once_for_each_object() -> None:
    server, _ = server_with_log()
    for name in ("a", "b"):
        server.create(POD, manifest(POD, name, spec={}))
    seen: list[tuple[str, str, str]] = []

    def changed(kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        assert isinstance(old, Pod) and isinstance(new, Pod)
        seen.append((new.metadata.name, old.status.phase, new.status.phase))

    server.watch(changed)

    with server.batched():
        for phase in ("Running", "Succeeded"):
            server.patch(POD, "ns", "b", {"status": {"phase": phase}})
            server.patch(POD, "ns", "a", {"status": {"phase": phase}})
        assert not seen
        decoded = server.decoded(POD, "ns", "a")
        assert isinstance(decoded, Pod) and decoded.status.phase == "Succeeded"

    assert seen == [("b", "Pending", "Succeeded"), ("a", "Pending", "Succeeded")]
    server.patch(POD, "ns", "a", {"status": {"phase": "Failed"}})
    assert seen[2:] == [("a", "Succeeded", "Failed")]


def test_batched_changes_are_notified_before_the_next_object_is_added_or_deleted() -> None:
    server, log = server_with_log()
    for name in ("a", "b"):
        server.create(POD, manifest(POD, name, spec={}))
    log.clear()

    with server.batched():
        server.patch(POD, "ns", "a", {"status": {"phase": "Running"}})
        server.create(POD, manifest(POD, "c", spec={}))
        server.patch(POD, "ns", "b", {"status": {"phase": "Running"}})
        server.delete(POD, "ns", "b")

    assert log == [("changed", "Pod", "a"), ("came", "Pod", "c"), ("changed", "Pod", "b"), ("went", "Pod", "b")]


def test_batched_changes_are_notified_even_after_an_exception() -> None:
    server, log = server_with_log()
    server.create(POD, manifest(POD, "a", spec={}))

    with pytest.raises(ManifestError), server.batched():
        server.patch(POD, "ns", "a", {"status": {"phase": "Running"}})
        server.patch(POD, "ns", "a", {"status": {"phase": 1}})

    assert log[1:] == [("changed", "Pod", "a")]


@pytest.mark.parametrize("name", ["a", "b-1", "é"])
def test_a_uid_is_the_uuid_of_the_name(name: str) -> None:
    server, _ = server_with_log()
    server.create(POD_GROUP, manifest(POD_GROUP, name))

    namespace = uuid.UUID("6f1d1c5e-0b44-5a3c-9a53-1f7b3c6f2b10")
    made = uuid.uuid5(namespace, f"scheduling.volcano.sh/PodGroup/ns/{name}")
    assert found(server, POD_GROUP, "ns", name)["metadata"]["uid"] == str(made)
