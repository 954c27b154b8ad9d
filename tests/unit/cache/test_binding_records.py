"""The scheduler keeps its decision about a Pod while the Pod exists, whatever users write to the Pod."""

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.api.decisions import Bind, Decisions
from scheduler.api.names import ASCEND_910, BINDING_RECORD
from scheduler.api.signed_records import BindingRecord, SigningKey
from scheduler.api.task import MAX_EARLIER, Task
from scheduler.cache import ClusterCache
from tests.builders import NAME, Raw, feed, group, node, pod

KEY = SigningKey(b"k" * 32, 1000.0)
RECORD = BindingRecord("n1", "q", {ASCEND_910: "Ascend910-0"})
UID = "uid-of-p"


def a_pod(on: str = "n1", annotations: Mapping[str, str] | None = None, uid: str = UID) -> Raw:
    made: dict[str, Any] = pod("p", f"1c+{ASCEND_910}=1", "g", on=on, annotations=annotations or {})
    made["metadata"]["uid"] = uid
    return made


def signed(record: BindingRecord = RECORD, uid: str = UID, key: SigningKey = KEY) -> dict[str, str]:
    return {BINDING_RECORD: record.text(uid, key), **record.chips}


def a_cache(*objects: Raw, key: SigningKey | None = KEY) -> ClusterCache:
    cache = ClusterCache([NAME])
    if key is not None:
        cache.set_signing_key(key)
    feed(cache, node("n1", f"8c+{ASCEND_910}=8"), group("g"), *objects)
    return cache


def task(cache: ClusterCache) -> Task:
    found = cache.task("default/p")
    assert found is not None
    return found


def test_a_signed_record_is_read_from_the_pod() -> None:
    assert task(a_cache(a_pod(annotations=signed()))).record == RECORD


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {BINDING_RECORD: "{}"},
        {BINDING_RECORD: "[" * 100_000},
        signed(uid="uid of another"),
        signed(key=SigningKey(b"x" * 32)),
        signed(BindingRecord("n2", "q", {})),
    ],
    ids=["none", "empty", "deep", "of another Pod", "of another key", "for another node"],
)
def test_a_record_that_was_not_signed_for_this_pod_on_its_node_does_not_count(annotations: dict[str, str]) -> None:
    assert task(a_cache(a_pod(annotations=annotations))).record is None


def test_without_a_key_no_record_counts_and_none_is_required() -> None:
    cache = a_cache(a_pod(annotations=signed()), key=None)
    assert task(cache).record is None
    assert cache.snapshot(0.0).signed_since == float("inf")
    assert a_cache().snapshot(0.0).signed_since == 1000.0


def test_a_known_record_is_kept_when_the_annotation_is_removed_or_changed() -> None:
    cache = a_cache(a_pod(annotations=signed()))
    feed(cache, a_pod(annotations={ASCEND_910: "Ascend910-7"}))
    assert task(cache).record == RECORD
    assert task(cache).annotations == {ASCEND_910: "Ascend910-7"}


def test_a_new_pod_of_the_same_name_does_not_inherit_the_record() -> None:
    cache = a_cache(a_pod(annotations=signed()))
    feed(cache, a_pod(uid="another", annotations=signed()))
    assert task(cache).record is None


def test_the_record_of_a_binding_of_this_process_counts_without_an_annotation() -> None:
    cache = a_cache(a_pod(on=""))
    bind = Bind(task(cache), "n1", dict(RECORD.chips), record=RECORD)
    cache.assume(Decisions(binds=[bind]))
    assert task(cache).record == RECORD
    feed(cache, a_pod(on="n1", annotations={}))
    assert task(cache).record == RECORD


def test_a_binding_that_failed_leaves_no_record() -> None:
    cache = a_cache(a_pod(on=""))
    bind = Bind(task(cache), "n1", dict(RECORD.chips), record=RECORD)
    cache.assume(Decisions(binds=[bind]))
    cache.bind_failed(bind)
    assert task(cache).record is None


def test_a_record_on_a_pending_pod_does_not_count() -> None:
    assert task(a_cache(a_pod(on="", annotations=signed()))).record is None


# --- former annotations ---
def test_former_device_annotations_on_the_node_are_kept() -> None:
    cache = a_cache(a_pod(annotations={ASCEND_910: "Ascend910-0"}))
    assert task(cache).earlier == ()
    feed(cache, a_pod(annotations={ASCEND_910: "Ascend910-1"}))
    feed(cache, a_pod(annotations={ASCEND_910: "Ascend910-1", "other": "x"}))
    feed(cache, a_pod())
    assert task(cache).earlier == ((ASCEND_910, "Ascend910-0"), (ASCEND_910, "Ascend910-1"))


def test_device_annotations_from_before_the_binding_are_not_kept() -> None:
    cache = a_cache(a_pod(on="", annotations={ASCEND_910: "Ascend910-0"}))
    feed(cache, a_pod(annotations={ASCEND_910: "Ascend910-1"}))
    assert task(cache).earlier == ()


def test_the_number_of_kept_former_annotations_is_limited() -> None:
    cache = a_cache(a_pod())
    for number in range(40):
        feed(cache, a_pod(annotations={ASCEND_910: f"Ascend910-{number}"}))
    assert len(task(cache).earlier) == MAX_EARLIER


def test_a_long_former_value_is_not_kept_and_counts_as_too_many_changes() -> None:
    cache = a_cache(a_pod(annotations={ASCEND_910: "x" * 100_000}))
    feed(cache, a_pod())
    assert len(task(cache).earlier) == MAX_EARLIER
    assert sum(len(value) for _, value in task(cache).earlier) < 100
