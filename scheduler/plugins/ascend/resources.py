"""The extended resources that count chips, and the requests of tasks for them."""

from dataclasses import dataclass, field
from typing import Final

from scheduler.api.names import HUAWEI_PREFIX, NPU_CORE
from scheduler.api.resource import Dimensions
from scheduler.api.task import TaskClass

MILLI: Final = 1000
"""Resource vectors count chips in thousandths."""


@dataclass(frozen=True, slots=True)
class ChipResource:
    """An extended resource that counts whole chips."""

    name: str
    prefix: str = field(init=False, compare=False, repr=False)
    """The part of a chip's name before its number."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", f"{self.name.removeprefix(HUAWEI_PREFIX)}-")


class ChipRequests:
    """The chips of one resource that each class of tasks requests."""

    def __init__(self, resource: ChipResource, dimensions: Dimensions) -> None:
        names = dimensions.names
        self._known: dict[int, tuple[int, int]] = {}
        """Class id -> (whole chips, maximum of chips used)."""
        self._whole = dimensions.find(resource.name)
        self._parts = [d for d, name in enumerate(names) if name.startswith(f"{resource.name}-") or name == NPU_CORE]

    def whole(self, cls: TaskClass) -> int:
        """Returns the number of whole chips; a fraction is rounded up."""
        return self._of(cls)[0]

    def maximum(self, cls: TaskClass) -> int:
        """Returns the maximum number of chips that a Pod uses: each virtual device or AI core may be on another
        chip."""
        return self._of(cls)[1]

    def _of(self, cls: TaskClass) -> tuple[int, int]:
        known = self._known.get(cls.id)
        if known is None:
            whole = units(cls, self._whole)
            parts = sum(units(cls, position) for position in self._parts if position != self._whole)
            known = self._known[cls.id] = whole, whole + parts
        return known


def units(cls: TaskClass, position: int | None) -> int:
    """Returns the request of a class for one resource, rounded up to whole units."""
    if position is None or position >= len(cls.request):
        return 0
    return int(-(-cls.request[position] // MILLI))
