"""The answers of a selection algorithm as arrays, so that one array operation looks up a column of nodes.

A selection is a pure function of the mask of free chips. The answers for the masks that occur are computed once per
family and request, and kept for later sessions. For families of up to eight chips the arrays have an element for each
of the 256 masks; for larger families the known masks are sorted, and looked up by bisection.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.columns import Counts
from scheduler.plugins.ascend.family import ChipFamily, ChipRequest, Choice
from scheduler.plugins.ascend.masks import NONE, WIDTH, Masks, first, mask_of

UNFIT: Final = -1
"""The penalty of a mask in which the request does not fit."""
_SMALL: Final = 8
_MAX_KNOWN: Final = 1 << 16
"""The largest number of known masks; with more, the table begins again."""


class ChipPlacements:
    """The choices of a family's selection for one request, for every mask of free chips."""

    def __init__(self, family: ChipFamily, request: ChipRequest) -> None:
        self._family = family
        self._request = request
        self._depth = family.chips // request.chips
        """The largest number of such requests on one node."""
        self._every = np.uint64(first(family.chips))
        # Without regard to ids, masks with equally many chips are equal, and masks with too many have no room.
        self._by_number: Masks | None = None
        if family.any_ids:
            numbers = range(WIDTH + 1)
            self._by_number = np.array([first(n) if n <= family.chips else NONE for n in numbers], dtype=np.uint64)
        self._choices: dict[int, Choice | None] = {}
        self._known: Masks = np.zeros(0, dtype=np.uint64)
        self._penalties: NDArray[np.int64] = np.zeros((self._depth + 1, 0), dtype=np.int64)
        """Shape (depth + 1, known masks): the penalty of the next task after 0 to ``depth`` tasks have taken chips."""
        self._room: Counts = np.zeros(0, dtype=np.int64)
        if family.chips <= _SMALL:
            self._learn(np.arange(1 << family.chips, dtype=np.uint64))

    def choice(self, free: int) -> Choice | None:
        """Returns the choice of one task on a node with these free chips."""
        if self._by_number is None:
            free &= int(self._every)
        elif free.bit_count() > self._family.chips:
            return None
        if free not in self._choices:
            self._choices[free] = self._family.select(free, self._request)
        return self._choices[free]

    def room(self, free: Masks) -> Counts:
        """Returns the number of tasks that fit one after the other, per mask."""
        at = self._find(free)  # may replace the arrays
        room: Counts = self._room[at]
        return room

    def penalty(self, free: Masks, ahead: Counts | None) -> NDArray[np.int64]:
        """Returns the penalty of the next task per mask, after ``ahead`` tasks (None: no task) have taken chips; UNFIT
        if it does not fit."""
        at = self._find(free)
        found: NDArray[np.int64] = self._penalties[0 if ahead is None else np.minimum(ahead, self._depth), at]
        return found

    def _find(self, free: Masks) -> NDArray[np.intp]:
        """Returns the position of each mask among the known ones."""
        masks: Masks = free & self._every if self._by_number is None else self._by_number[np.bitwise_count(free)]
        if self._family.chips <= _SMALL:
            return masks.astype(np.intp)
        at = np.searchsorted(self._known, masks)
        if len(self._known) and (self._known[np.minimum(at, len(self._known) - 1)] == masks).all():
            return at
        missing = np.setdiff1d(masks, self._known)
        if len(self._known) + len(missing) > _MAX_KNOWN:
            self._known, self._penalties, self._choices = self._known[:0], self._penalties[:, :0], {}
            missing = np.unique(masks)
        self._learn(missing)
        return np.searchsorted(self._known, masks)

    def _learn(self, masks: Masks) -> None:
        new = np.full((self._depth + 1, len(masks)), UNFIT, dtype=np.int64)
        for position, mask in enumerate(masks.tolist()):
            free = mask
            for placed in range(self._depth):
                choice = self.choice(free)
                if choice is None:
                    break
                new[placed, position] = choice.penalty
                free &= ~mask_of(choice.chips)
        known = np.concatenate((self._known, masks))
        order = np.argsort(known)
        self._known, self._penalties = known[order], np.concatenate((self._penalties, new), axis=1)[:, order]
        self._room = (self._penalties != UNFIT).sum(axis=0, dtype=np.int64)


@lru_cache(maxsize=1024)
def placements(family: ChipFamily, request: ChipRequest) -> ChipPlacements:
    """Returns the table of a family and a request."""
    return ChipPlacements(family, request)
