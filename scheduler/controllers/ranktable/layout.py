"""The version of a rank table, and what else the settings of a job say about it."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.api.names import (
    AFFINITY_CONFIG,
    MINDIE_APP,
    MINDIE_JOB,
    NPU,
    SCALE_OUT,
    SCHEDULE_POLICY,
    SP_BLOCK,
    SUPER_POD_AFFINITY,
    SUPER_POD_SOFT,
)

PLAIN: Final = "1.0"
SUPER_PODS: Final = "1.2"
NETWORK_LEVELS: Final = "2.0"
_MULTILEVEL: Final = "multilevel"
_SUPER_POD_POLICIES: Final = frozenset({"chip2-node16-sp", "chip2-node8-sp", _MULTILEVEL})
_SUPER_POD_SERVERS: Final = ("module-a3-", "-super-pod")


class Layout(NamedTuple):
    """The settings of a job for its rank table."""

    version: str
    block_chips: int = 0
    """Chips of a logical super pod; 0: all chips of the job are in one."""
    soft: bool = False
    """The scheduler chose the logical super pods, and wrote them onto the Pods."""
    mindie: bool = False
    """A job of MindIE: the table names the models of servers, and physical super pods."""
    scale_out: str = ""
    """The network between super pods that the job asks for; "": any."""


def layout_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], selectors: Sequence[str], chips: Mapping[str, int]
) -> Layout:
    """``selectors``: the values of ``accelerator-type`` in the node selectors of the Pods. ``chips``: resource of
    chips -> amount that a Pod requests."""
    mindie = MINDIE_JOB in labels and MINDIE_APP in labels
    if NPU in chips:
        return Layout(NETWORK_LEVELS, mindie=mindie, scale_out=labels.get(SCALE_OUT, "").strip().upper())
    if SCHEDULE_POLICY in annotations:
        super_pods = annotations[SCHEDULE_POLICY] in _SUPER_POD_POLICIES
    else:
        prefix, suffix = _SUPER_POD_SERVERS
        super_pods = SP_BLOCK in annotations or any(s.startswith(prefix) and s.endswith(suffix) for s in selectors)
    if not super_pods:
        return Layout(PLAIN, mindie=mindie)
    block = block_chips(annotations, next(iter(chips.values()), 0))
    return Layout(SUPER_PODS, block, labels.get(SUPER_POD_AFFINITY) == SUPER_POD_SOFT, mindie)


def block_chips(annotations: Mapping[str, str], chips: int) -> int:
    """Chips of a logical super pod; 0 if the job has none, or if the annotation is malformed. ``chips``: those of a
    Pod, by which the schedule policy ``multilevel`` counts."""
    block = annotations.get(SP_BLOCK, "")
    if is_number(block) and int(block):
        return int(block)
    if annotations.get(SCHEDULE_POLICY) != _MULTILEVEL:
        return 0
    pairs = [pair.partition("=") for pair in annotations.get(AFFINITY_CONFIG, "").split(",")]
    nodes = next((nodes for level, _, nodes in pairs if level == "level1"), "")
    return int(nodes) * chips if is_number(nodes) else 0


def is_number(text: str) -> bool:
    """Whether a text is a number of up to seven digits."""
    return text.isascii() and text.isdecimal() and len(text) < 8
