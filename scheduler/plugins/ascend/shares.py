"""The share of a chip that a Pod has (AI cores in percent, and memory), and which chip of a node it shares.

A job asks for shares with the schedule policy ``chip1-softShareDev``, and with three labels that all of its Pods have
in common. The scheduler copies the labels into annotations with their names at the binding; the device plugin reads
them there. It copies them without the policy, too: the Pods of such a job are placed as if they had their chips whole,
and what the device plugin limits is a Pod with one chip.

A Pod gets the chip in use with the most AI cores assigned that has room for its quota and has Pods of its policy only;
otherwise the lowest chip that is not in use.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.api.job import Job
from scheduler.api.names import ASCEND_910, NPU, SHARED_NODE, SHARED_NODE_VALUE, SOFT_SHARE
from scheduler.api.node import NodeFacts
from scheduler.api.objects import Node
from scheduler.api.task import Task
from scheduler.plugins.ascend.npu_requests import ChipResource

SHARING: Final = "chip1-softShareDev"
"""The schedule policy of jobs whose Pods share chips."""
RESOURCES: Final = (ASCEND_910, NPU)
"""The resources of the chips that can be shared."""
CHIP_MEMORY: Final = "mind-cluster/npu-chip-memory"
"""Label of nodes: the memory of a chip, such as ``64G``."""
FULL: Final = 100
"""The AI cores of a chip, in percent. The device plugin of a node whose chips are shared reports as many per chip."""
POLICIES: Final = ("fixed-share", "elastic", "best-effort")
_CORES, _MEMORY, _POLICY = SOFT_SHARE


class Quota(NamedTuple):
    cores: int
    """The AI cores, in percent of a chip."""
    memory: int
    """The memory, in MiB."""
    policy: str
    """The behaviour beyond the quota. All Pods on a chip have the same policy."""


class ShareUse(NamedTuple):
    """How the Pods of a job share chips."""

    resource: ChipResource
    quota: Quota
    pods: int
    """Number of active Pods that request chips."""
    job: str
    """Key of the job."""
    avoids_sub_health: bool = False
    """The job does not use sub-healthy nodes."""


def quota_of(labels: Mapping[str, str]) -> Quota | str:
    """Returns the quota in the labels of a job, or why they give none."""
    missing = [label for label in SOFT_SHARE if label not in labels]
    if missing:
        return f"a job that shares chips needs the labels {', '.join(missing)}"
    cores, memory = _number(labels[_CORES]), _number(labels[_MEMORY])
    if not 1 <= cores <= FULL:
        return f"{_CORES}={labels[_CORES][:64]} is not a number from 1 to {FULL}"
    if memory < 1:
        return f"{_MEMORY}={labels[_MEMORY][:64]} is not a number of MiB"
    if labels[_POLICY] not in POLICIES:
        return f"{_POLICY}={labels[_POLICY][:64]} is none of {', '.join(POLICIES)}"
    return Quota(cores, memory, labels[_POLICY])


def labels_of(job: Job, tasks: Sequence[Task]) -> dict[str, str]:
    """Returns the labels of the PodGroup and its Pods that are about sharing. Different values of one label are joined
    by ``|``, which no quota has."""
    values: dict[str, dict[str, None]] = {}
    for labels in (job.labels, *(task.labels for task in tasks)):
        for label in SOFT_SHARE:
            if label in labels:
                values.setdefault(label, {})[labels[label]] = None
    return {label: "|".join(found) for label, found in values.items()}


def share_of(task: Task) -> Quota | None:
    """Returns the quota of a Pod on a node, by its binding record or else by its annotations; None if it has none, if
    it is malformed, or if the Pod has several chips."""
    annotations = task.annotations
    if annotations.keys().isdisjoint(SOFT_SHARE):
        return None
    if task.record is not None:
        annotations = dict(task.record.chips)
    found = None if any("," in annotations.get(name, "") for name in RESOURCES) else quota_of(annotations)
    return found if isinstance(found, Quota) else None


def copied(job: Job) -> dict[str, str]:
    """Returns the labels about sharing of a job without the schedule policy, which are copied into annotations if it
    has all of them, whatever they say."""
    labels = labels_of(job, list(job.tasks()))
    return labels if len(labels) == len(SOFT_SHARE) else {}


def annotations_of(quota: Quota) -> dict[str, str]:
    return dict(zip(SOFT_SHARE, map(str, quota), strict=True))


def is_shared(node: Node) -> bool:
    """Whether the chips of a node are shared."""
    return (node.metadata.labels or {}).get(SHARED_NODE) == SHARED_NODE_VALUE


def rows_of_shared(facts: NodeFacts) -> list[int]:
    """Returns the rows of the nodes whose chips are shared."""
    rows: list[int] = facts.rows_with(SHARED_NODE, SHARED_NODE_VALUE).tolist()
    return rows


def chip_memory(label: str) -> int:
    """Returns the memory of a chip, in MiB, by the label of its node; 0 if the label is missing or malformed."""
    return _number(label.removesuffix("G")) * 1024


def _number(text: str) -> int:
    """Returns a number of at most nine digits; 0 for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


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
