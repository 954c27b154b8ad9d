"""Sets of chips as masks, and the lists of chips in annotations and ConfigMaps.

Bit n of a mask is the chip with the id n; a node has at most 64 chips. A list has the form ``Ascend910-0,Ascend910-1``:
names joined by commas, without spaces. Any other text is an error, whose message says what is wrong; the caller adds
the object and the field.
"""

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.text_cache import cache_texts

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


MAX_LENGTH: Final = 1024
"""Longest list that is parsed, in characters; 64 chips need 900."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_VIRTUAL: Final = re.compile(r"[0-9a-z.]+-[0-9]{1,9}-([0-9]{1,9})(?:_[0-9]{1,9})?")
"""The name of a virtual device after the prefix: template, id of the device, id of the chip, and optionally the
group."""


class ChipListError(ValueError):
    """The text is not a valid chip list. The message gives the reason."""


@cache_texts(8192)
def parse_chips(text: str, prefix: str) -> int:
    """Returns the mask of the listed chips; 0 for an empty text. Raises ChipListError."""
    return _parse(text, prefix, virtual=False)


@cache_texts(8192)
def parse_mounted(text: str, prefix: str) -> int:
    """Returns the mask of the chips that a Pod uses, whole or as virtual devices (``Ascend910-2c-100-0`` is part of
    chip 0). Raises ChipListError."""
    return _parse(text, prefix, virtual=True)


def _parse(text: str, prefix: str, *, virtual: bool) -> int:
    if not text:
        return 0
    if len(text) > MAX_LENGTH:
        raise ChipListError(f"{len(text)} characters, a list has at most {MAX_LENGTH}")
    mask = 0
    for name in text.split(","):
        bit = 1 << _chip(name, prefix, virtual)
        if mask & bit:
            raise ChipListError(f"{_quote(name)} is listed twice")
        mask |= bit
    return mask


def _chip(name: str, prefix: str, virtual: bool) -> int:
    if not name.startswith(prefix):
        raise ChipListError(f"{_quote(name)} is not a chip's name, {prefix}<number> is")
    rest = name.removeprefix(prefix)
    cut = _VIRTUAL.fullmatch(rest) if virtual else None
    if cut is not None:
        rest = cut.group(1)
    elif _NUMBER.fullmatch(rest) is None:
        raise ChipListError(f"{_quote(name)} is not a chip's name, {prefix}<number> is")
    chip = int(rest)
    if chip >= WIDTH:
        raise ChipListError(f"{_quote(name)}: the chips are numbered 0 to {WIDTH - 1}")
    return chip


def format_chips(chips: Iterable[int], prefix: str) -> str:
    """Formats the ids of chips as a list, in their order."""
    return ",".join([f"{prefix}{chip}" for chip in chips])


def _quote(name: str) -> str:
    return repr(name[:64])
