"""Virtual NPUs that were created beforehand: the device is written where the Node lists names."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from scheduler.api.names import ASCEND_910, BINDING_RECORD, DISTRIBUTED_JOB, EVENT_DEVICES_DISAGREE, PREDICATE_TIME
from scheduler.api.signed_records import BindingRecord, SigningKey, device_annotations
from scheduler.api.task import TaskStatus
from scheduler.framework.statement import AllocationError
from scheduler.plugins.ascend.masks import ids_of
from scheduler.plugins.ascend.vnpu.devices import VirtualDeviceLedger
from tests.builders import Raw, World, feed, group, node, pod
from tests.examples import examples
from tests.unit.plugins import statements
from tests.unit.plugins.ascend.chips import CONFIGURATION, ledger_of, plugin_of, refusal_of

TWO = "huawei.com/Ascend910-2c"
KEY = SigningKey(b"k" * 32, created=1_000_000.0)
FIRST, SECOND = "Ascend910-2c-100-0", "Ascend910-2c-101-1"


def static_node(name: str, listed: str | None = f"{FIRST},{SECOND}", number: int = 2) -> Raw:
    raw = node(name, f"64c+512Gi+{TWO}={number}+{ASCEND_910}=8")
    raw["metadata"]["annotations"] = {} if listed is None else {TWO: listed}
    return raw


def static_job(name: str, number: int = 1, devices: int = 1) -> list[Raw]:
    asking = [pod(f"{name}-{i}", f"1c+1Gi+{TWO}={devices}", name) for i in range(number)]
    return [group(name, minimum=number), *asking]


def running(name: str, device: str = "", on: str = "n", **annotations: str) -> list[Raw]:
    written = {**({TWO: device} if device else {}), **{f"huawei.com/{key}": v for key, v in annotations.items()}}
    return [group(name, phase="Running"), pod(f"{name}-0", f"1c+{TWO}=1", name, on=on, annotations=written)]


def devices_of(world: World) -> dict[str, str | None]:
    return {bind.task.name: bind.annotations.get(TWO) for bind in world.decisions.binds}


def test_each_pod_gets_the_first_free_device_of_the_list() -> None:
    world = World(static_node("n"), static_job("j", 2)).run(CONFIGURATION)
    assert devices_of(world) == {"j-0": FIRST, "j-1": SECOND}
    assert world.decisions.binds[0].annotations[PREDICATE_TIME].isdecimal()
    assert world.decisions.binds[0].annotations[DISTRIBUTED_JOB] == "true"


def test_a_virtual_npu_of_a_710_chip_is_assigned_by_name() -> None:
    two = "huawei.com/Ascend710-2c"
    there = node("n", f"64c+512Gi+{two}=2")
    there["metadata"]["annotations"] = {two: "Ascend710-2c-100-0,Ascend710-2c-101-1"}
    world = World(there, group("j", minimum=1), pod("j-0", f"1c+1Gi+{two}=1", "j")).run(CONFIGURATION)
    assert [bind.annotations[two] for bind in world.decisions.binds] == ["Ascend710-2c-100-0"]


def test_a_node_that_lists_no_names_is_chosen_by_amounts() -> None:
    world = World(static_node("n", None), static_job("j", 2)).run(CONFIGURATION)
    assert devices_of(world) == {"j-0": None, "j-1": None}
    assert PREDICATE_TIME not in world.decisions.binds[0].annotations
    assert world.decisions.binds[0].annotations[DISTRIBUTED_JOB] == "true"


def test_a_device_of_a_pod_on_the_node_is_not_given_again() -> None:
    world = World(static_node("n"), running("x", FIRST), static_job("j")).run(CONFIGURATION)
    assert devices_of(world) == {"j-0": SECOND}


def test_a_device_that_the_device_plugin_chose_is_not_given_again() -> None:
    world = World(static_node("n"), running("x", AscendReal=FIRST), static_job("j")).run(CONFIGURATION)
    assert devices_of(world) == {"j-0": SECOND}


def test_a_pod_without_a_device_counts_with_the_last_one() -> None:
    world = World(static_node("n"), running("x"), static_job("j")).run(CONFIGURATION)
    assert devices_of(world) == {"j-0": FIRST}


def test_a_node_whose_devices_are_all_named_by_pods_is_refused() -> None:
    both = running("x", FIRST, AscendReal=SECOND)
    world = World(static_node("n"), both, static_job("j")).run(CONFIGURATION)
    assert world.bound == {}
    assert "node(s) had no free device of huawei.com/Ascend910-2c" in world.message_of("j-0")


def test_chips_with_such_devices_are_not_assigned_whole() -> None:
    session = World(static_node("n"), static_job("j")).session(CONFIGURATION)
    assert ids_of(int(ledger_of(session).usable(np.array([0]), False)[0])) == [2, 3, 4, 5, 6, 7]


def test_after_a_restart_the_device_of_the_signed_record_is_not_given_again() -> None:
    """The Pod's annotation was rewritten to the other device: neither is given to another Pod."""
    held = running("x", SECOND)[1]
    record = BindingRecord("n", "default", {TWO: FIRST})
    held["metadata"] |= {"uid": "uid-x"}
    held["metadata"]["annotations"][BINDING_RECORD] = record.text("uid-x", KEY)
    world = World(static_node("n", number=3))
    world.cluster.cache.set_signing_key(KEY)
    feed(world.cluster.cache, held)
    session = world.session(CONFIGURATION)
    assert plugin_of(session).ledgers.devices[0].room(np.array([0]), later=False).tolist() == [0]
    assert any(m.reason == EVENT_DEVICES_DISAGREE and m.uid == "uid-x" for m in session.malformed)


def test_the_device_is_in_the_record_that_is_signed() -> None:
    assert device_annotations({TWO: FIRST, "other": "x"}) == {TWO: FIRST}


@pytest.mark.parametrize(
    "listed", ["Ascend910-2c-100", "Ascend910-4c-100-0", f"{FIRST}, {SECOND}", f"{FIRST},{FIRST}", "x" * 99_999]
)
def test_a_malformed_list_is_set_aside_with_a_warning(listed: str) -> None:
    world = World(static_node("n", listed), static_job("j")).run(CONFIGURATION)
    assert devices_of(world) == {"j-0": None}
    assert any(m.startswith(f"Node n metadata.annotations[{TWO}]: ") for m in world.malformed)


def test_a_malformed_annotation_of_a_pod_is_set_aside_with_a_warning() -> None:
    world = World(static_node("n"), running("x", f"{FIRST},{SECOND}"), static_job("j")).run(CONFIGURATION)
    assert devices_of(world) == {"j-0": FIRST}
    assert any(m.startswith(f"Pod x-0 metadata.annotations[{TWO}]: names 2 devices") for m in world.malformed)


def test_two_devices_in_one_pod_are_refused() -> None:
    found = refusal_of("j", static_node("n"), static_job("j", 1, 2))
    assert found == f"a Pod asks for 2 {TWO}; it may ask for exactly 1 virtual device"


@dataclass
class Setting(statements.Setting):
    """A session with its ledger of devices."""

    ledger: VirtualDeviceLedger = field(init=False)

    def __post_init__(self) -> None:
        (self.ledger,) = plugin_of(self.session).ledgers.devices

    def books(self) -> list[object]:
        ledger = self.ledger
        held = {row: dict(ledger._held_on(row)) for row in ledger.nodes}
        leaving = {row: set(ledger._leaving_on(row)) for row in ledger.nodes}
        return [held, leaving, dict(ledger._taken), ledger._now.tobytes(), ledger._later.tobytes()]


class DevicesAreConserved(statements.Statements):
    """Makes random statements on a node that lists names and a node that does not."""

    @initialize(old=st.integers(0, 2))
    def open(self, old: int) -> None:
        held = [running(f"r{i}", name, "a") for i, name in enumerate((FIRST, SECOND)[:old])]
        waiting: list[Any] = [static_job(f"j{i}") for i in range(4)]
        world = World(static_node("a"), static_node("b", None), *held, *waiting)
        self.given = Setting(world.session(CONFIGURATION))
        self.begin(self.given, [f"j{i}" for i in range(4)], [f"r{i}" for i in range(old)])

    @invariant()
    def no_device_is_given_twice(self) -> None:
        ledger, pipelined = self.given.ledger, TaskStatus.PIPELINED
        placed = {t.uid for i in range(4) for t in self.given.job(f"j{i}").of(pipelined).values()}
        for without in (placed, ledger._leaving_on(0)):
            found = [name for uid, names in ledger._held_on(0).items() if uid not in without for name in names]
            assert len(set(found)) == len(found)


DevicesAreConserved.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20, deadline=None)
TestDevicesAreConserved = DevicesAreConserved.TestCase


def test_an_allocation_without_a_free_device_raises_and_takes_nothing() -> None:
    given = Setting(World(static_node("n", FIRST), static_job("j", 2)).session(CONFIGURATION))
    before = given.books()
    with pytest.raises(AllocationError, match=r"no free device of huawei.com/Ascend910-2c"):
        given.session.statement().allocate(given.job("j"), [given.task("j"), given.task("j", 1)], [0, 0])
    assert given.books() == before
