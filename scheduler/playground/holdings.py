"""The devices that Pods of a node have, read from the annotations that the device plugin wrote."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from scheduler.api.names import ASCEND_REAL
from scheduler.playground.families import NodeFamily
from scheduler.playground.names import KUBELET_DEVICES
from scheduler.playground.objects import SimulatedPod, annotations_of, whole_number

_PART: Final = re.compile(
    r"(?P<type>[A-Za-z0-9]+)-(?P<suffix>\d+c[a-z0-9.]*)-(?P<id>[0-9]{1,9})-(?P<chip>[0-9]{1,3})(_(?P<group>[0-9]))?"
)
FIRST_ID: Final = 100
"""The lowest number of a virtual NPU."""


@dataclass(slots=True)
class Holdings:
    """What the Pods of one node have that have not ended."""

    chips: dict[int, str] = field(default_factory=dict)
    """Whole chips, with the Pod that has each."""
    parts: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    """Chip -> its virtual NPUs that Pods have: suffix, number and group."""
    devices: dict[str, str] = field(default_factory=dict)
    """Names of mounted devices, with the Pod that has each."""
    kubelet: set[str] = field(default_factory=set)
    """Names of the devices that kubelet counts as assigned."""

    @property
    def used(self) -> set[int]:
        """The chips of which Pods have something."""
        return {*self.chips, *self.parts}

    def next_id(self) -> int:
        """The number of the next virtual NPU."""
        taken = {number for parts in self.parts.values() for _, number, _ in parts}
        return next(number for number in range(FIRST_ID, FIRST_ID + len(taken) + 1) if number not in taken)


def read_holdings(family: NodeFamily, pods: Iterable[SimulatedPod]) -> Holdings:
    """What the Pods of a node have. Names that are no devices of the family are ignored."""
    found = Holdings()
    for pod in pods:
        annotations = annotations_of(pod)
        if pod.ended or KUBELET_DEVICES not in annotations:
            continue
        found.kubelet.update(filter(None, annotations[KUBELET_DEVICES].split(",")))
        for name in filter(None, annotations.get(ASCEND_REAL, "").split(",")):
            found.devices[name] = pod.key
            chip = chip_number(family, name)
            if chip is not None:
                found.chips[chip] = pod.key
            elif part := _PART.fullmatch(name):
                parts = found.parts.setdefault(int(part["chip"]), [])
                parts.append((part["suffix"], int(part["id"]), int(part["group"] or 0)))
    return found


def chip_number(family: NodeFamily, name: str) -> int | None:
    """The number of a chip, or None if the name is no chip of the family."""
    if not name.startswith(family.prefix):
        return None
    number = whole_number(name.removeprefix(family.prefix))
    return number if number is not None and number < family.chips else None
