"""Forged annotations neither release parts of chips nor reserve parts of other Pods."""

from typing import Any

import numpy as np
import pytest

from scheduler.api.names import ASCEND_310P, ASCEND_REAL, BINDING_RECORD, EVENT_DEVICES_DISAGREE, NPU_CORE
from scheduler.api.signed_records import BindingRecord, SigningKey
from scheduler.framework.session import Session
from scheduler.plugins.ascend.masks import ids_of
from tests.builders import Raw, World, feed, group, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, ledger_of
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_node, core_pod, part_ledger_of

KEY = SigningKey(b"k" * 32, created=1_000_000.0)
BEFORE, AFTER = "1970-01-01T00:00:01Z", "2020-01-02T00:00:00Z"
REAL = "Ascend310P-4c.3cpu-100-0_0"


def bound(name: str, cores: int, *, recorded: str = "", annotations: dict[str, str] | None = None, **rest: Any) -> Raw:
    """A Pod on the node, bound by this scheduler; ``recorded``: the value in its signed record, if it has one."""
    raw = core_pod(name, cores, name, on="n", annotations=annotations or {}, **rest)
    raw["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": BEFORE}
    if recorded:
        record = BindingRecord("n", "default", {NPU_CORE: recorded})
        raw["metadata"]["annotations"][BINDING_RECORD] = record.text(f"uid-{name}", KEY)
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": AFTER}]
    return raw


def opened(*objects: Raw, whole: int = 0) -> Session:
    """A session of a scheduler with a signing key, over one node of two chips."""
    world = World(core_node("n", whole=whole))
    world.cluster.cache.set_signing_key(KEY)
    feed(world.cluster.cache, core_info("n", [0, 1]), *objects)
    return world.session(CONFIGURATION)


def free(session: Session) -> dict[int, int]:
    """Maps each chip to its free AI cores."""
    ledger = part_ledger_of(session)
    state = int(ledger.states(np.array([0]), later=False)[0])
    return {chip.number: chip.cores for chip in ledger.known[state].chips}


def warnings(session: Session) -> list[str]:
    return [m.problem for m in session.malformed if m.kind == "Pod"]


def test_after_a_restart_the_record_says_what_a_pod_has() -> None:
    session = opened(bound("x", 4, recorded="0-vir04_3c", annotations={NPU_CORE: "0-vir04_3c", ASCEND_REAL: REAL}))
    assert free(session) == {0: 4, 1: 8}
    assert warnings(session) == []


def test_after_a_rewritten_annotation_neither_chip_is_divided() -> None:
    session = opened(bound("x", 4, recorded="0-vir04_3c", annotations={NPU_CORE: "1-vir04_3c"}))
    assert free(session) == {0: 4}
    assert any(m.reason == EVENT_DEVICES_DISAGREE and m.uid == "uid-x" for m in session.malformed)


def test_after_a_removed_annotation_the_record_counts() -> None:
    assert free(opened(bound("x", 4, recorded="0-vir04_3c"))) == {0: 4, 1: 8}


def test_a_pod_whose_chip_is_unknown_closes_its_node() -> None:
    session = opened(bound("x", 4, annotations={NPU_CORE: "0-vir04_3c"}), whole=2)
    assert free(session) == {}
    assert ids_of(int(ledger_of(session, ASCEND_310P).usable(np.array([0]), False)[0])) == []
    assert "nothing that can be trusted says which chips of node n it has" in warnings(session)[0]


def test_the_device_plugin_naming_another_chip_makes_both_unavailable() -> None:
    other = {NPU_CORE: "1-vir04_3c", ASCEND_REAL: REAL}
    assert free(opened(bound("x", 4, recorded="1-vir04_3c", annotations=other))) == {1: 4}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0-vir05", "Ascend310P chips have no template 'vir05'"),
        ("0-vir02", "means 2 AI cores, the Pod asks for 4"),
        ("0", "means 8 AI cores, the Pod asks for 4"),
        ("0,1", "means 16 AI cores, the Pod asks for 4"),
        ("0,1-vir04", "is neither a list of chips, as 0,1 is, nor a part of a chip, as 0-vir01 is"),
        ("64-vir04", "is neither a list of chips"),
        ("0-", "Ascend310P chips have no template ''"),
        ("-vir04", "is neither a list of chips"),
        ("0, 1", "is neither a list of chips"),
        ("١-vir04", "is neither a list of chips"),
        ("9" * 5000, "is neither a list of chips"),
    ],
)
def test_an_annotation_that_does_not_match_the_request_is_set_aside(text: str, problem: str) -> None:
    foreign = core_pod("x", 4, "x", on="n", annotations={NPU_CORE: text, ASCEND_REAL: REAL})
    foreign["spec"]["schedulerName"] = "other"
    session = opened(group("x", phase="Running"), foreign)
    assert any(problem in found for found in warnings(session))
    assert free(session) == {1: 8}, "only the chip that the device plugin names is affected"


def test_annotations_of_a_pod_without_ai_cores_are_ignored() -> None:
    session = opened(pod("x", "1c", on="n", annotations={NPU_CORE: "0,1"}))
    assert free(session) == {0: 8, 1: 8}
    assert "but the Pod asks for no huawei.com/npu-core" in warnings(session)[0]


def test_more_chips_than_the_request_needs_are_ignored() -> None:
    many = {NPU_CORE: "0-vir04_3c", ASCEND_REAL: "Ascend310P-0,Ascend310P-1"}
    session = opened(bound("x", 4, recorded="0-vir04_3c", annotations=many))
    assert free(session) == {0: 4, 1: 8}
    assert warnings(session) == ["names 2 chips, the AI cores of the Pod are on 1"]
