"""Which chip of a node a Pod shares: a pure function of the shares on the chips.

A Pod gets the chip in use with the most AI cores assigned that has room for its quota and has Pods of its policy only;
otherwise the lowest chip that is not in use.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler.plugins.ascend.sharing.quota import FULL, Quota


class Used(NamedTuple):
    """The sum of the shares of the Pods on one chip."""

    cores: int
    memory: int
    policy: str


UNUSED = Used(0, 0, "")


class SharedChips(NamedTuple):
    """The chips of a node that can be shared."""

    used: Mapping[int, Used]
    """Chip -> what its Pods have, for the chips that have Pods."""
    unused: tuple[int, ...]
    """The other chips, ascending."""
    memory: int
    """The memory of each chip, in MiB."""


def total(quotas: Iterable[Quota]) -> Used:
    """Returns what Pods on one chip have together. The policy of the last one counts."""
    cores = memory = 0
    policy = ""
    for quota in quotas:
        cores, memory, policy = cores + quota.cores, memory + quota.memory, quota.policy
    return Used(cores, memory, policy)


def room(shares: SharedChips, quota: Quota) -> int:
    """Returns how many more Pods with the quota the node takes."""
    of_unused = _room(UNUSED, shares.memory, quota) * len(shares.unused)
    return of_unused + sum(_room(used, shares.memory, quota) for used in shares.used.values() if _suits(used, quota))


def fits_job(shares: SharedChips, quota: Quota, pods: int) -> bool:
    """Whether the node has AI cores and memory for all Pods of a job, whose shares so far are not among ``shares``.
    Cores and memory are counted independently of each other, as the NPU plugin counts them."""
    suiting = [*(used for used in shares.used.values() if _suits(used, quota)), *[UNUSED] * len(shares.unused)]
    by_cores = sum(max(FULL - used.cores, 0) // quota.cores for used in suiting)
    by_memory = sum(max(shares.memory - used.memory, 0) // quota.memory for used in suiting)
    return min(by_cores, by_memory) >= pods


def choose(shares: SharedChips, quota: Quota) -> int | None:
    """Returns the chip for one more Pod; None if no chip has room."""
    fitting = [chip for chip, used in shares.used.items() if _suits(used, quota) and _room(used, shares.memory, quota)]
    if fitting:
        return max(sorted(fitting), key=lambda chip: shares.used[chip].cores)
    return shares.unused[0] if shares.unused and _room(UNUSED, shares.memory, quota) else None


def rank(shares: SharedChips, quota: Quota) -> int:
    """Returns how good a node is for one more Pod, up to twice ``FULL``: the fuller the fullest chip gets, the better;
    then nodes with more chips in use, on which the Pod gets one of its own."""
    fitting = [used.cores for used in shares.used.values() if _room(used, shares.memory, quota) and _suits(used, quota)]
    return FULL + max(fitting) + quota.cores if fitting else len(shares.used)


def _suits(used: Used, quota: Quota) -> bool:
    return used.policy == quota.policy


def _room(used: Used, memory: int, quota: Quota) -> int:
    return max(min((FULL - used.cores) // quota.cores, (memory - used.memory) // quota.memory), 0)
