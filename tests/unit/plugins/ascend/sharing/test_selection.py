"""The chip of a node that a Pod shares."""

from random import Random

import pytest

from scheduler.plugins.ascend.shares import (
    FULL,
    Quota,
    SharedChips,
    Used,
    chip_memory,
    choose,
    fits_job,
    quota_of,
    rank,
    room,
)
from tests.unit.plugins.ascend.sharing.shares import quota

FIXED, ELASTIC = "fixed-share", "elastic"
MEMORY = 64 * 1024


def shares(used: dict[int, tuple[int, int, str]], *unused: int) -> SharedChips:
    return SharedChips({chip: Used(*values) for chip, values in used.items()}, unused, MEMORY)


@pytest.mark.parametrize(
    ("used", "unused", "chip"),
    [
        ({}, (1, 3), 1),
        ({2: (50, 1024, FIXED)}, (0, 1), 2),
        ({2: (50, 1024, FIXED), 5: (60, 1024, FIXED)}, (0,), 5),
        ({2: (60, 1024, FIXED), 5: (60, 1024, FIXED)}, (0,), 2),
        ({2: (90, 1024, FIXED)}, (0,), 0),
        ({2: (50, MEMORY, FIXED)}, (0,), 0),
        ({2: (50, 1024, ELASTIC)}, (0,), 0),
        ({2: (50, 1024, ELASTIC)}, (), None),
        ({2: (80, 1024, FIXED)}, (), 2),
        ({2: (81, 1024, FIXED)}, (), None),
    ],
)
def test_the_fullest_chip_with_room_and_the_same_policy_comes_first(
    used: dict[int, tuple[int, int, str]], unused: tuple[int, ...], chip: int | None
) -> None:
    assert choose(shares(used, *unused), Quota(20, 1024, FIXED)) == chip


def test_more_memory_than_a_chip_has_fits_nowhere() -> None:
    assert choose(shares({}, 0, 1), Quota(20, MEMORY + 1, FIXED)) is None


def test_a_node_needs_cores_and_memory_for_the_whole_job() -> None:
    one, both = shares({}, 0), shares({0: (50, 0, FIXED)}, 1)
    assert fits_job(one, Quota(50, 1024, FIXED), 2) and not fits_job(one, Quota(50, 1024, FIXED), 3)
    assert fits_job(both, Quota(50, 1024, FIXED), 3) and not fits_job(both, Quota(50, 1024, ELASTIC), 3)
    assert not fits_job(one, Quota(10, 40_000, FIXED), 2)


def test_a_node_is_better_the_fuller_the_chip_becomes() -> None:
    asked = Quota(20, 1024, FIXED)
    ranks = [
        rank(shares(used, 7), asked)
        for used in ({}, {0: (90, 1, FIXED)}, {0: (10, 1, FIXED)}, {0: (10, 1, FIXED), 1: (70, 1, FIXED)})
    ]
    assert ranks == sorted(set(ranks)) and ranks[-1] < 2 * FULL


@pytest.mark.parametrize("seed", range(50))
def test_as_many_pods_find_a_chip_as_the_node_says_that_it_takes(seed: int) -> None:
    random = Random(seed)
    used = {
        chip: Used(random.randint(1, FULL), random.randint(1, MEMORY), random.choice([FIXED, ELASTIC]))
        for chip in random.sample(range(8), random.randint(0, 8))
    }
    there = SharedChips(used, tuple(sorted({*range(8)} - used.keys())), MEMORY)
    asked = Quota(random.randint(1, FULL), random.randint(1, MEMORY), FIXED)
    for _ in range(room(there, asked)):
        chip = choose(there, asked)
        assert chip is not None
        before = there.used.get(chip, Used(0, 0, FIXED))
        now = Used(before.cores + asked.cores, before.memory + asked.memory, FIXED)
        assert now.cores <= FULL and now.memory <= MEMORY and before.policy == FIXED
        there = SharedChips({**there.used, chip: now}, tuple(c for c in there.unused if c != chip), MEMORY)
    assert choose(there, asked) is None


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({}, "a job that shares chips needs the labels"),
        (quota(0), "is not a number from 1 to 100"),
        (quota(101), "is not a number from 1 to 100"),
        (quota("٣"), "is not a number from 1 to 100"),
        (quota("1|2"), "is not a number from 1 to 100"),
        (quota(1, 0), "is not a number of MiB"),
        (quota(1, "1Gi"), "is not a number of MiB"),
        (quota(1, 1, "greedy"), "is none of fixed-share, elastic, best-effort"),
    ],
)
def test_a_malformed_quota_is_refused(labels: dict[str, str], problem: str) -> None:
    found = quota_of(labels)
    assert isinstance(found, str) and problem in found


def test_a_quota() -> None:
    assert quota_of(quota(20, 4096, "best-effort")) == Quota(20, 4096, "best-effort")


@pytest.mark.parametrize(("label", "memory"), [("64G", 65536), ("32", 32768), ("", 0), ("-1G", 0), ("64Gi", 0)])
def test_the_memory_of_a_chip_is_a_label(label: str, memory: int) -> None:
    assert chip_memory(label) == memory
