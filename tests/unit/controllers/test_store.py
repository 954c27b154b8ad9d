"""The store holds the newest version of every object, whichever way it came."""

from typing import assert_type

import msgspec

from scheduler.api.acjob import AscendJob
from scheduler.api.kinds import ACJOB, POD, QUEUE
from scheduler.api.names import GROUP_NAME
from scheduler.api.objects import ObjectMeta, OwnerReference, Pod
from scheduler.api.scheduling import Queue
from scheduler.controllers.store import Store


def queue(version: str, uid: str = "u") -> Queue:
    return Queue(metadata=ObjectMeta(name="q", uid=uid, resource_version=version))


def pod(name: str, version: str = "1", owner: str = "", group: str = "") -> Pod:
    owners = [OwnerReference(kind="Job", name="j", uid=owner, controller=True)] if owner else None
    annotations = {GROUP_NAME: group} if group else None
    meta = ObjectMeta(
        name=name, namespace="a", uid=name, resource_version=version, owner_references=owners, annotations=annotations
    )
    return Pod(metadata=meta)


def test_an_older_version_that_comes_late_is_no_news() -> None:
    store = Store()
    store.upsert(QUEUE, queue("7"))

    fresh, old = store.upsert(QUEUE, queue("6"))

    assert not fresh
    assert old is store.get(QUEUE, "", "q")
    assert (kept := store.get(QUEUE, "", "q")) is not None and kept.metadata.resource_version == "7"


def test_the_same_version_seen_twice_is_no_news() -> None:
    store = Store()
    store.upsert(QUEUE, queue("7"))

    assert store.upsert(QUEUE, queue("7"))[0] is False


def test_a_newer_version_is_news_and_the_one_before_is_handed_back() -> None:
    store = Store()
    first = queue("9")
    store.upsert(QUEUE, first)

    fresh, old = store.upsert(QUEUE, queue("10"))

    assert fresh
    assert old is first


def test_an_event_about_a_deleted_object_does_not_bring_it_back() -> None:
    store = Store()
    store.upsert(QUEUE, queue("7"))
    store.delete(QUEUE, "", "q")

    assert store.upsert(QUEUE, queue("7"))[0] is False
    assert store.get(QUEUE, "", "q") is None


def test_an_object_made_again_under_the_same_name_is_taken() -> None:
    store = Store()
    store.upsert(QUEUE, queue("7"))
    store.delete(QUEUE, "", "q")

    assert store.upsert(QUEUE, queue("12", uid="another"))[0] is True


def test_late_news_of_a_deleted_object_are_none_whatever_their_version() -> None:
    store = Store()
    store.upsert(QUEUE, queue("7"))
    store.delete(QUEUE, "", "q")

    assert store.upsert(QUEUE, queue("9"))[0] is False


def test_that_an_object_went_is_not_said_of_a_namesake_made_since() -> None:
    store = Store()
    store.upsert(QUEUE, queue("7", uid="first"))
    store.delete(QUEUE, "", "q", "first")
    store.upsert(QUEUE, queue("12", uid="second"))

    assert store.delete(QUEUE, "", "q", "first") is None
    assert (kept := store.get(QUEUE, "", "q")) is not None and kept.metadata.uid == "second"


def test_deleting_what_was_never_seen_is_nothing() -> None:
    assert Store().delete(QUEUE, "", "q") is None


def test_pods_are_found_by_the_owner_that_manages_them_and_by_their_group() -> None:
    store = Store()
    store.upsert(POD, pod("p0", owner="job", group="g"))
    store.upsert(POD, pod("p1", owner="job"))
    store.upsert(POD, pod("p2", group="g"))

    assert set(store.pods_of("a", "job")) == {"p0", "p1"}
    assert store.pods_of("b", "job") == {}
    assert set(store.pods_in_group("a", "g")) == {"p0", "p2"}
    assert store.pods_in_group("b", "g") == {}


def test_a_pod_that_changes_its_group_or_goes_is_found_there_no_more() -> None:
    store = Store()
    store.upsert(POD, pod("p0", owner="job", group="g"))
    store.upsert(POD, pod("p0", version="2", owner="job", group="h"))

    assert store.pods_in_group("a", "g") == {}
    assert set(store.pods_in_group("a", "h")) == {"p0"}

    store.delete(POD, "a", "p0")
    assert store.pods_of("a", "job") == {}
    assert store.pods_in_group("a", "h") == {}


def test_the_environment_of_pods_is_not_kept() -> None:
    store = Store()
    container = {"name": "c", "env": [{"name": "A", "value": "b"}], "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "initContainers": [container, {"name": "d"}]}
    given = msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}, Pod)
    store.upsert(POD, given)
    kept = store.get(POD, "ns", "p")
    assert kept is not None and given.spec.containers[0].env is not None
    assert [each.env for each in (*kept.spec.containers, *(kept.spec.init_containers or ()))] == [None] * 3
    assert kept.spec.containers[0].resources == given.spec.containers[0].resources


def test_an_object_has_the_type_of_its_kind() -> None:
    store, job = Store(), AscendJob(metadata=ObjectMeta(name="j", namespace="a"))
    store.upsert(ACJOB, job)

    found = store.get(ACJOB, "a", "j")

    assert_type(found, AscendJob | None)
    assert found is job and list(store.all(ACJOB)) == [job]
