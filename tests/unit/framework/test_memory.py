"""Each scheduler has its own memory of values for later sessions."""

import functools
import gc
import sys
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from scheduler.api.snapshot import Memory
from scheduler.plugins.ascend.inventory import NodeChips
from scheduler.plugins.capacity_card.bookkeeper import SettledAccounts
from scheduler.plugins.deviceshare.inventory import FamilyNodes
from scheduler.plugins.nodeorder.plugin import ImageIndex
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.plugins.support.periodic import Periodic
from tests.builders import World, configuration, group, node, pod
from tests.device_builders import claim, device_class, gpus, named, request, resource_slice
from tests.unit.plugins.ascend.chips import device_info, npu_node, npu_pod
from tests.unit.plugins.capacity_card.cards import card_pod, gpu_node
from tests.unit.plugins.deviceshare.devices import vgpu_node, vgpu_pods

EVERYTHING: Final = configuration(
    ["priority", "gang", "tdm", "rescheduling"],
    ["predicates", "nodeorder", "capacity-card", "ascend", "deviceshare"],
    actions="enqueue, allocate, shuffle",
    arguments={"deviceshare": {"deviceshare.VGPUEnable": True}},
)


def cluster() -> World:
    """A cluster of which all plugins keep values."""
    with_images = node("images", "4c")
    with_images["status"]["images"] = [{"names": ["app:1"], "sizeBytes": 10**9}]
    return World(
        npu_node("npu"),
        device_info("npu", [*range(8)]),
        gpu_node("gpu"),
        vgpu_node("vgpu"),
        with_images,
        device_class(),
        resource_slice(gpus(2), "images"),
        claim("c", request("r", "gpu", "device.driver != ''")),
        group("g", minimum=1),
        npu_pod("with-chips", 2, "g"),
        card_pod("with-a-card", "g"),
        vgpu_pods(1, 1000, name="with-a-part"),
        pod("with-a-device", "1c", "g", resourceClaims=named("c")),
        pod("running", "1c", "g", on="images"),
    )


def reachable(root: object) -> dict[int, Any]:
    """The objects that an object refers to, directly or not, by id."""
    found: dict[int, Any] = {}
    left = [root]
    while left:
        value = left.pop()
        if id(value) not in found and not isinstance(value, type | ModuleType | FunctionType):
            found[id(value)] = value
            left += gc.get_referents(value)
    return found


def values_of_modules() -> list[Any]:
    modules = [module for name, module in sys.modules.items() if name.startswith("scheduler.")]
    return [value for module in modules for value in vars(module).values()]


def test_two_schedulers_of_a_process_share_nothing_that_can_change() -> None:
    """Constants, and results of functions that depend only on immutable arguments, do not count."""
    one, other, constants = cluster(), cluster(), reachable([EVERYTHING, values_of_modules()])

    for world in (one, other, one, other):
        world.run(EVERYTHING)

    kept, others = (reachable(world.cluster.cache.memory) for world in (one, other))
    assert set(map(type, kept.values())) >= {
        *(ImageIndex, SettledAccounts, Selectors, Periodic, NodeChips, FamilyNodes)
    }
    results = reachable([each for each in values_of_modules() if isinstance(each, functools._lru_cache_wrapper)])
    shared = [kept[key] for key in kept.keys() & others.keys() - constants.keys() - results.keys()]
    assert list(filter(can_change, shared)) == []


def can_change(value: object) -> bool:
    """Returns whether an object of its type can change."""
    if isinstance(value, msgspec.Struct):
        return not value.__struct_config__.frozen
    is_ours = type(value).__module__.startswith("scheduler.") and not isinstance(value, tuple | Enum)
    return is_ours or isinstance(value, dict | list | set | np.ndarray)


def test_a_value_is_computed_again_if_an_object_that_it_depends_on_is_replaced() -> None:
    memory, computed, text = Memory(), list[str | None](), ["a"]

    def of(version: list[str]) -> str:
        def compute(before: str | None) -> str:
            computed.append(before)
            return f"{before}{version[0]}"

        return memory.memo("key", (version,), compute)

    assert (of(text), of(text), of(["a"])) == ("Nonea", "Nonea", "Noneaa")
    assert computed == [None, "Nonea"]


def test_a_value_of_other_constants_is_not_passed_on() -> None:
    memory = Memory()
    befores: list[str | None] = []

    def compute(before: str | None) -> str:
        befores.append(before)
        return str(len(befores))

    assert [memory.memo("key", (), compute, constants) for constants in (1, 1, 2, 1)] == ["1", "1", "2", "3"]
    assert befores == [None] * 3


def test_an_exception_leaves_the_former_value() -> None:
    memory, first, second = Memory(), object(), object()
    memory.memo("key", (first,), lambda _: 1)
    with pytest.raises(ZeroDivisionError):
        memory.memo("key", (second,), lambda before: (before or 0) // 0)
    assert memory.memo("key", (first,), lambda _: 2) == 1


def test_keys_are_separate_and_cleared_together() -> None:
    memory = Memory()

    def of(key: str) -> object:
        return memory.memo(key, (), lambda _: object())

    before = of("a"), of("b")
    assert before[0] is not before[1]
    assert (of("a"), of("b")) == before
    memory.clear()
    assert not {of("a"), of("b")} & set(before)
