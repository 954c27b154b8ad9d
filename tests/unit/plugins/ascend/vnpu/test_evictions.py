"""preempt and reclaim make room for AI cores on one chip: Pods with parts of other chips stay."""

from collections.abc import Sequence
from random import Random

import pytest

from scheduler.api.names import ASCEND_REAL, NPU_CORE
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, queue
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_node, core_pod

CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
    for name, value in (("high", 1000), ("low", 1), ("lower", 0))
]
WITHIN, ACROSS = ("preempt", "gangpreempt"), ("reclaim", "gangreclaim")
PARTS = {1: ("vir01", "1c"), 2: ("vir02_1c", "2c.1cpu"), 4: ("vir04_3c", "4c.3cpu")}
SIZE = 8
Held = Sequence[tuple[int, int]]
"""Chip and AI cores of each Pod."""


def tiers(action: str) -> Configuration:
    return configuration(["priority", "gang"], ["ascend", "capacity"], actions=f"allocate, {action}")


def holder(number: int, chip: int, cores: int, job: str) -> Raw:
    template, suffix = PARTS.get(cores, ("", ""))
    written = f"{chip}-{template}" if template else str(chip)
    real = f"Ascend310P-{suffix}-{100 + number}-{chip}_0" if template else f"Ascend310P-{chip}"
    annotations = {NPU_CORE: written, ASCEND_REAL: real, "volcano.sh/preemptable": "true"}
    return core_pod(f"v{number}", cores, job, on="n", annotations=annotations)


def evicted(action: str, cores: int, held: Held, *, kept: int | None = None, singly: bool = False) -> list[int]:
    """The numbers of the Pods that are evicted for a Pod with AI cores. ``kept``: what their queue deserves; None: it
    may lose all. ``singly``: whether each is a job of its own."""
    chips = max(chip for chip, _ in held) + 1
    victims: list[Raw] = [] if singly else [group("low", _queue(action), 0, phase="Running", priority_class="low")]
    for number, (chip, amount) in enumerate(held):
        job = f"low{number}" if singly else "low"
        if singly:
            victims.append(group(job, _queue(action), 1, phase="Running", priority_class="low"))
        victims.append(holder(number, chip, amount, job))
    own = queue("default", deserved=f"64c+512Gi+{NPU_CORE}={SIZE * chips}")
    other = queue("other") if kept is None else queue("other", deserved=f"0c+0Gi+{NPU_CORE}={kept}")
    preemptor = [group("high", minimum=1, phase="Inqueue", priority_class="high"), core_pod("p", cores, "high")]
    there = core_node("n", chips), core_info("n", list(range(chips)))
    gone = World(CLASSES, own, other, there, victims, preemptor).run(tiers(action)).evicted
    return sorted(int(name[1:]) for name in gone)


def _queue(action: str) -> str:
    return "default" if action in WITHIN else "other"


@pytest.mark.parametrize("action", [*WITHIN, *ACROSS])
@pytest.mark.parametrize("cores", [1, 2, 4, 8])
def test_the_evicted_pods_have_parts_of_one_chip_and_no_more_than_are_needed(action: str, cores: int) -> None:
    held = [(chip, 2) for _ in range(4) for chip in range(3)]
    gone = evicted(action, cores, held)
    assert len({held[number][0] for number in gone}) == 1
    assert len(gone) == -(-cores // 2)


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_the_chip_with_the_fewest_pods_to_evict_is_freed(action: str) -> None:
    assert evicted(action, 8, [(0, 8), *[(1, 2)] * 4]) == [0]
    assert evicted(action, 8, [*[(0, 2)] * 4, (1, 8)]) == [4]
    assert evicted(action, 4, [(0, 4), (0, 4), *[(1, 2)] * 4]) in ([0], [1])
    assert evicted(action, 8, [*[(0, 1)] * 7, (1, 4)]) == [7]


def test_the_chip_of_pods_with_a_lower_priority_is_freed_although_there_are_more_of_them() -> None:
    groups = [group(name, minimum=0, phase="Running", priority_class=name) for name in ("low", "lower")]
    pods = [holder(0, 0, 8, "low"), *(holder(number, 1, 2, "lower") for number in range(1, 5))]
    preemptor = [group("high", minimum=1, phase="Inqueue", priority_class="high"), core_pod("p", 8, "high")]
    there = core_node("n", 2), core_info("n", [0, 1])
    own = queue("default", deserved=f"64c+512Gi+{NPU_CORE}=16")
    world = World(CLASSES, own, there, groups, pods, preemptor).run(tiers("preempt"))
    assert sorted(world.evicted) == ["v1", "v2", "v3", "v4"]


@pytest.mark.parametrize("singly", [False, True])
@pytest.mark.parametrize("action", ACROSS)
@pytest.mark.parametrize(("cores", "chips"), [(4, 2), (8, 2), (8, 4), (8, 8)])
def test_what_a_queue_may_lose_is_not_spread_over_chips(action: str, cores: int, chips: int, *, singly: bool) -> None:
    """The queue may lose just the cores that are needed, and its Pods are on all chips in turn."""
    held = [(chip, 2) for _ in range(4) for chip in range(chips)]
    gone = evicted(action, cores, held, kept=SIZE * chips - cores, singly=singly)
    assert len(gone) == cores // 2
    assert len({held[number][0] for number in gone}) == 1


@pytest.mark.parametrize("action", ACROSS)
def test_no_pod_is_evicted_if_a_queue_may_not_lose_enough_of_any_chip(action: str) -> None:
    held = [(chip, 4) for _ in range(2) for chip in range(2)]
    assert evicted(action, 8, held, kept=12) == []


@pytest.mark.parametrize(("seconds", "number"), [(0, 0), (8, 0), (12, 2)])
def test_no_more_pods_are_evicted_until_the_device_plugin_reports_the_freed_chip_or_is_late(
    seconds: int, number: int
) -> None:
    """The report is as it was when the Pods ran, so their chip is neither held nor listed as free."""
    victims = [group("low", "default", 0, phase="Running", priority_class="low")]
    victims += [holder(i, chip, 4, "low") for i, chip in enumerate((0, 0, 1, 1))]
    preemptor = [group("high", minimum=1, phase="Inqueue", priority_class="high"), core_pod("p", 8, "high")]
    own = queue("default", deserved=f"64c+512Gi+{NPU_CORE}=16")
    world = World(CLASSES, own, core_node("n", 2), core_info("n", []), victims, preemptor)
    assert len(world.run(tiers("preempt")).evicted) == 2
    for _ in range(2):  # the Pods terminate, then they are gone
        assert world.run(tiers("preempt")).evicted == set()
    for _ in range(seconds):
        world.cluster.tick()
    assert len(world.run(tiers("preempt")).evicted) == number
    assert world.bound == {}


def test_several_whole_chips_are_freed_chip_by_chip() -> None:
    held = [(chip, 4) for _ in range(2) for chip in range(4)]
    gone = evicted("preempt", 16, held)
    assert len(gone) == 4
    assert len({held[number][0] for number in gone}) == 2


@pytest.mark.parametrize("seed", range(12))
def test_each_evicted_pod_is_needed(seed: int) -> None:
    random = Random(seed)
    held: list[tuple[int, int]] = []
    for chip in range(3):
        left = SIZE
        while left:
            amount = random.choice([size for size in (1, 2, 4) if size <= left])
            held.append((chip, amount))
            left -= amount
    random.shuffle(held)
    cores = random.choice([2, 4, 8])
    gone = evicted("preempt", cores, held)
    (chip,) = {held[number][0] for number in gone}
    freed = sum(held[number][1] for number in gone)
    assert freed >= cores
    assert all(freed - held[number][1] < cores for number in gone), (held, gone, chip)
