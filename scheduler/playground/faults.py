"""The faults of a simulated node, as one annotation of its Node holds them.

The annotation is JSON: ``{"chips": {"3": {"fault": "Chip", "level": "SeparateNPU", "since": 1790000000000}},
"node": "UnHealthy", "switch": "UnHealthy", "kubelet": "Stopped"}``. Every part may be absent.
"""

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final

import msgspec

from scheduler.api.json_texts import JsonFormat

SEPARATE: Final = "SeparateNPU"
HARMLESS: Final = frozenset({"NotHandleFault", "SubHealthFault"})
"""Levels of faults with which a chip counts as healthy."""
PRE_SEPARATE: Final = "PreSeparateNPU"
"""The level of faults with which a chip counts as healthy only while a Pod uses it."""
MANUAL: Final = "ManuallySeparateNPU"
LEVELS: Final = (
    "NotHandleFault",
    "RestartRequest",
    "RestartBusiness",
    "FreeRestartNPU",
    "RestartNPU",
    SEPARATE,
    PRE_SEPARATE,
    MANUAL,
    "SubHealthFault",
)


class FaultOf(Enum):
    """The part of a chip that has a fault."""

    CHIP = "Chip"
    NETWORK = "Network"
    RECOVERING = "Recovering"
    """The chip is being reset."""
    DIVISION = "Division"
    """The chip cannot be divided: no virtual NPU can be created on it. It is not reported as faulty."""


class NodeHealth(Enum):
    """The health of hardware outside the chips."""

    HEALTHY = "Healthy"
    PRE_SEPARATE = "PreSeparate"
    """NodeD only: Pods go on, new ones avoid the node."""
    SUB_HEALTHY = "SubHealthy"
    """A state that only a switch has."""
    UNHEALTHY = "UnHealthy"


class Kubelet(Enum):
    RUNNING = "Running"
    STOPPED = "Stopped"
    """The node is NotReady, and nothing on it answers."""


class ChipFault(msgspec.Struct, frozen=True, omit_defaults=True):
    fault: FaultOf = FaultOf.CHIP
    level: str = SEPARATE
    since: int = 0
    """Milliseconds since the epoch."""


class Faults(msgspec.Struct, frozen=True, omit_defaults=True):
    """All faults of a node."""

    chips: dict[int, ChipFault] = {}
    node: NodeHealth = NodeHealth.HEALTHY
    switch: NodeHealth = NodeHealth.HEALTHY
    kubelet: Kubelet = Kubelet.RUNNING

    def having(self, fault: FaultOf) -> set[int]:
        """The chips with a kind of fault."""
        return {chip for chip, found in self.chips.items() if found.fault is fault}

    def broken(self, used: Collection[int]) -> set[int]:
        """The chips that no Pod may get. ``used``: the chips that Pods have."""
        return {
            chip
            for chip, found in self.chips.items()
            if found.fault is FaultOf.CHIP
            and found.level not in HARMLESS
            and not (found.level == PRE_SEPARATE and chip in used)
        }

    def with_chips(self, chips: Iterable[int], fault: ChipFault) -> "Faults":
        return msgspec.structs.replace(self, chips={**self.chips, **dict.fromkeys(chips, fault)})

    def without_chips(self, chips: Collection[int]) -> "Faults":
        kept = {chip: fault for chip, fault in self.chips.items() if chip not in chips}
        return msgspec.structs.replace(self, chips=kept)


_FAULTS: Final = JsonFormat(Faults)


def read_faults(text: str | None) -> Faults:
    """The faults in an annotation; none without one. Raises ValueError."""
    if not text:
        return Faults()
    found = _FAULTS.decode(text)
    for chip, fault in found.chips.items():
        if fault.level not in LEVELS:
            raise ValueError(f"chips.{chip}.level is {fault.level!r}, not one of {', '.join(LEVELS)}")
    return found


def write_faults(faults: Faults) -> str | None:
    """The annotation; None without faults."""
    return None if faults == Faults() else msgspec.json.encode(faults).decode()
