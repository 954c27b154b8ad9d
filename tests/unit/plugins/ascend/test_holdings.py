"""Forged annotations neither reserve chips of other Pods nor release chips."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.api.names import ASCEND_910, ASCEND_REAL, BINDING_RECORD, EVENT_DEVICES_DISAGREE
from scheduler.api.signed_records import BindingRecord, SigningKey
from scheduler.plugins.ascend.masks import ids_of
from tests.builders import Raw, World, feed, group, pod
from tests.unit.plugins.ascend.chips import (
    CONFIGURATION,
    chips_of,
    config_map,
    device_info,
    ledger_of,
    names,
    npu_node,
    npu_pod,
)

ALL = list(range(8))
KEY = SigningKey(b"k" * 32, created=1_000_000.0)
BEFORE, AFTER = "1970-01-01T00:00:01Z", "2020-01-02T00:00:00Z"


def bound(
    name: str, asked: int, *, recorded: list[int] | None = None, at: str = AFTER, started: str = "", **rest: Any
) -> Raw:
    """A Pod on the node, bound by this scheduler; ``recorded``: the chips of its signed record, if it has one."""
    raw = npu_pod(name, asked, on="n", **rest) if asked else pod(name, "1c", on="n", **rest)
    raw["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": BEFORE}
    if recorded is not None:
        record = BindingRecord("n", "default", {ASCEND_910: names(recorded)})
        raw["metadata"]["annotations"][BINDING_RECORD] = record.text(f"uid-{name}", KEY)
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at}]
    if started:
        raw["status"]["startTime"] = started
    return raw


def annotated(chips: list[int], key: str = ASCEND_910) -> dict[str, str]:
    return {key: names(chips)}


class Node:
    """One node with these Pods at the start of a session of a scheduler with a signing key."""

    def __init__(
        self, *objects: Raw, key: SigningKey | None = KEY, annotations: Mapping[str, str] | None = None
    ) -> None:
        self.world = World(npu_node("n", annotations=annotations))
        if key is not None:
            self.world.cluster.cache.set_signing_key(key)
        feed(self.world.cluster.cache, *objects)

    def _opened(self) -> Any:
        return self.world.session(CONFIGURATION)

    @property
    def free(self) -> list[int]:
        ledger = ledger_of(self._opened())
        return ids_of(int(ledger.free[0]))

    @property
    def warned(self) -> dict[str, str]:
        """Maps each Pod to the messages of its Warnings."""
        messages: dict[str, str] = {}
        for problem in self._opened().malformed:
            if problem.reason == EVENT_DEVICES_DISAGREE:
                messages[problem.name] = f"{messages.get(problem.name, '')}{problem.message}\n"
        return messages


def published(free: list[int], at: int) -> Raw:
    """The device plugin's ConfigMap, published at a Unix time."""
    text = json.dumps({"DeviceInfo": {"DeviceList": {ASCEND_910: names(free)}, "UpdateTime": at}})
    return config_map("n", text)


# --- never more than asked for ---
@pytest.mark.parametrize("key", [ASCEND_910, ASCEND_REAL])
def test_annotations_of_a_pod_that_requests_no_chips_are_ignored(key: str) -> None:
    node = Node(bound("claimant", 0, annotations=annotated(ALL, key)))
    assert node.free == ALL
    assert "asked for 0 huawei.com/Ascend910; names 8 chips" in node.warned["claimant"]


def test_a_list_of_more_chips_than_the_request_is_ignored() -> None:
    node = Node(bound("p", 2, at=BEFORE, annotations=annotated([0, 1, 2, 3])))
    assert node.free == [0, 1, 2, 3, 4, 5]
    assert "asked for 2 huawei.com/Ascend910; names 4 chips" in node.warned["p"]


# --- what the scheduler bound ---
def test_a_pod_holds_the_chips_of_its_record_after_its_annotation_is_removed() -> None:
    node = Node(bound("p", 4, recorded=[0, 1, 2, 3]))
    assert node.free == [4, 5, 6, 7]
    assert (
        "bound to node n with Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-3, annotated with none"
        in (node.warned["p"])
    )


def test_after_a_rewritten_annotation_neither_set_of_chips_is_assigned() -> None:
    node = Node(bound("p", 2, recorded=[0, 1], annotations=annotated([4, 5])))
    assert node.free == [2, 3, 6, 7]
    warning = node.warned["p"]
    assert "asked for 2 huawei.com/Ascend910; bound to node n with Ascend910-0,Ascend910-1" in warning
    assert (
        "annotated with Ascend910-4,Ascend910-5" in warning
        and f"no Pod is given {names([0, 1, 4, 5])} while this" in warning
    )


def test_a_rewritten_list_of_another_length_reserves_no_further_chips() -> None:
    node = Node(bound("p", 2, recorded=[0, 1], annotations=annotated([4, 5, 6, 7])))
    assert node.free == [2, 3, 4, 5, 6, 7]
    assert "p" in node.warned


def test_chips_mounted_other_than_recorded_are_not_free() -> None:
    words = annotated([0, 1]) | annotated([2, 3], ASCEND_REAL)
    node = Node(bound("p", 2, recorded=[0, 1], annotations=words))
    assert node.free == [4, 5, 6, 7]
    assert "AscendReal" in node.warned["p"]


def test_a_record_that_matches_the_annotations_causes_no_warning() -> None:
    words = annotated([0, 1]) | annotated([0, 1], ASCEND_REAL)
    node = Node(bound("p", 2, recorded=[0, 1], annotations=words))
    assert node.free == [2, 3, 4, 5, 6, 7]
    assert node.warned == {}


def test_chips_listed_as_free_after_the_pod_started_are_free() -> None:
    rewritten = bound("p", 2, recorded=[0, 1], annotations=annotated([4, 5]), started="2020-01-02T00:00:10Z")
    started = 1577923210
    assert Node(rewritten, published(ALL, started + 5)).free == [2, 3, 6, 7]
    assert Node(rewritten, published(ALL, started + 15)).free == [2, 3, 4, 5, 6, 7]
    assert Node(rewritten, published([2, 3, 6, 7], started + 15)).free == [2, 3, 6, 7]


# --- bound after records were begun, and without one ---
def test_while_a_pod_without_its_record_exists_no_chip_of_its_node_is_free() -> None:
    node = Node(
        bound("p", 2, annotations=annotated([0, 1])), bound("q", 2, recorded=[4, 5], annotations=annotated([4, 5]))
    )
    assert node.free == []
    assert "no record that the scheduler signed" in node.warned["p"] and "asked for 2" in node.warned["p"]
    assert "q" not in node.warned


def test_a_list_published_after_the_pod_started_shows_which_chips_are_free() -> None:
    unproven = bound("p", 2, annotations=annotated([0, 1]), started="2020-01-02T00:00:10Z")
    assert Node(unproven, published([0, 1, 4, 5, 6, 7], 1577923240)).free == [0, 1, 4, 5, 6, 7]
    assert Node(unproven, published(ALL, 1577923215)).free == []


@pytest.mark.parametrize(
    "other_scheduler",
    [{"at": BEFORE}, {"scheduler": "volcano"}],
    ids=["bound before there were records", "bound by another scheduler"],
)
def test_annotations_of_pods_of_other_schedulers_are_trusted(other_scheduler: Raw) -> None:
    node = Node(bound("p", 2, annotations=annotated([2, 3]), **other_scheduler))
    assert node.free == [0, 1, 4, 5, 6, 7]
    assert node.warned == {}


def test_without_a_signing_key_all_annotations_are_trusted() -> None:
    node = Node(bound("p", 2, annotations=annotated([2, 3])), key=None)
    assert node.free == [0, 1, 4, 5, 6, 7]
    assert node.warned == {}


# --- two that claim one chip ---
def test_two_pods_that_list_the_same_chip_both_hold_it_and_get_a_warning() -> None:
    owner = bound("owner", 2, recorded=[0, 1], annotations=annotated([0, 1]))
    claimant = bound("claimant", 2, annotations=annotated([1, 2]), scheduler="other")
    node = Node(owner, claimant)
    assert node.free == []
    assert node.warned.keys() == {"owner", "claimant"}
    assert "Ascend910-1 of node n" in node.warned["claimant"] and "default/owner" in node.warned["claimant"]


def test_virtual_devices_of_one_chip_do_not_conflict() -> None:
    virtual = [
        pod(f"v{i}", f"{ASCEND_910}-2c=1", on="n", annotations={ASCEND_REAL: f"Ascend910-2c-10{i}-3"}) for i in range(2)
    ]
    node = Node(*virtual, key=None)
    assert node.free == [0, 1, 2, 4, 5, 6, 7]
    assert node.warned == {}


# --- whole stories, without a restart ---
def bound_world(annotations: Mapping[str, str] | None = None) -> World:
    """A gang of one Pod with four chips, bound by this process."""
    world = World(npu_node("n"), group("a"), npu_pod("a-0", 4, "a", annotations=annotations))
    world.cluster.cache.set_signing_key(KEY)
    return world.run(CONFIGURATION)


def next_pod(world: World, chips: int = 4) -> list[int]:
    """Returns the chips that the next Pod gets."""
    feed(world.cluster.cache, group("b"), npu_pod("b-0", chips, "b"))
    world.cluster.cache.configure(CONFIGURATION)
    world.run(CONFIGURATION)
    return chips_of(world)["b-0"][1] if world.decisions.binds else []


def rewritten(world: World, **annotations: str | None) -> World:
    raw = dict(world.get("Pod", "a-0"))
    kept = {**raw["metadata"]["annotations"], **annotations}
    raw["metadata"] = {**raw["metadata"], "annotations": {k: v for k, v in kept.items() if v is not None}}
    feed(world.cluster.cache, raw)
    return world


def test_a_preset_annotation_does_not_hide_the_assigned_chips() -> None:
    world = bound_world({ASCEND_REAL: names([4, 5, 6, 7])})
    assert chips_of(world)["a-0"] == ("n", [0, 1, 2, 3])
    assert next_pod(world) == []


def test_after_a_rewritten_annotation_the_next_pod_gets_neither_set() -> None:
    world = rewritten(bound_world(), **{ASCEND_910: names([4, 5, 6, 7])})
    assert next_pod(world) == []


def test_after_a_removed_annotation_the_next_pod_gets_other_chips() -> None:
    world = rewritten(bound_world(), **{ASCEND_910: None})
    assert next_pod(world) == [4, 5, 6, 7]


def test_a_list_rewritten_and_restored_leaves_both_sets_reserved() -> None:
    world = rewritten(
        rewritten(bound_world(), **{ASCEND_910: names([4, 5, 6, 7])}), **{ASCEND_910: names([0, 1, 2, 3])}
    )
    assert next_pod(world) == []
    assert "was annotated with Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7 there before" in "".join(world.malformed)


def test_a_changed_annotation_of_another_schedulers_pod_frees_no_chips() -> None:
    node = Node(bound("p", 2, annotations=annotated([0, 1]), scheduler="other"))
    feed(node.world.cluster.cache, bound("p", 2, annotations=annotated([4, 5]), scheduler="other"))
    assert node.free == [2, 3, 6, 7]


@pytest.mark.parametrize("whose", [{"scheduler": "other"}, {"recorded": [0, 1]}], ids=["another's", "ours"])
def test_after_too_many_changes_the_annotations_are_not_trusted(whose: dict[str, Any]) -> None:
    node = Node(bound("p", 2, **whose))
    for chip in range(6):
        for other in range(3):
            said = annotated([chip, chip + 1]) | annotated([chip, (chip + 2 + other) % 8], ASCEND_REAL)
            feed(node.world.cluster.cache, bound("p", 2, annotations=said, **whose))
    feed(node.world.cluster.cache, bound("p", 2, annotations=annotated([0, 1]), **whose))
    assert node.free == []
    assert "changed on node n 16 times or more" in node.warned["p"]


def test_device_lists_without_a_time_do_not_resolve_conflicts() -> None:
    rewritten_pod = bound("p", 2, recorded=[0, 1], annotations=annotated([4, 5]), started=AFTER)
    assert Node(rewritten_pod, device_info("n", ALL)).free == [2, 3, 6, 7]
