"""Sets of chips as masks: bit n is the chip with the id n. A node has at most 64 chips."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

WIDTH: Final = 64
"""Chips are numbered 0 to WIDTH - 1."""
NONE: Final = 0
ALL: Final = (1 << WIDTH) - 1

Masks = NDArray[np.uint64]


def first(number: int) -> int:
    """Returns the mask of the chips 0 to ``number`` - 1."""
    return (1 << number) - 1


def mask_of(chips: Iterable[int]) -> int:
    mask = NONE
    for chip in chips:
        mask |= 1 << chip
    return mask


def ids_of(mask: int) -> list[int]:
    """Returns the ids of the chips in a mask, ascending."""
    ids = []
    while mask:
        bit = mask & -mask
        ids.append(bit.bit_length() - 1)
        mask ^= bit
    return ids


def lowest(mask: int, number: int) -> int:
    """Returns the lowest ``number`` chips of a mask (all if it has fewer)."""
    result = NONE
    for _ in range(min(number, mask.bit_count())):
        bit = mask & -mask
        result |= bit
        mask ^= bit
    return result


def highest(mask: int, number: int) -> int:
    """Returns the highest ``number`` chips of a mask (all if it has fewer)."""
    return mask & ~lowest(mask, max(mask.bit_count() - number, 0))


def groups_of(mask: int, size: int, chips: int) -> list[int]:
    """Returns the part of a mask in each group of ``size`` consecutive chips, for the chips 0 to ``chips`` - 1."""
    return [mask & (first(size) << start) for start in range(0, chips, size)]
