"""Parses and formats the chip lists in annotations and ConfigMaps.

A list has the form ``Ascend910-0,Ascend910-1``: names joined by commas, without spaces. Any other text is an error. The
message says what is wrong; the caller (``inventory``) adds the object and the field.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from scheduler.plugins.ascend.masks import WIDTH

MAX_LENGTH: Final = 1024
"""Longest list that is parsed, in characters; 64 chips need 900."""
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,8}")
_VIRTUAL: Final = re.compile(r"[0-9a-z.]+-[0-9]{1,9}-([0-9]{1,9})(?:_[0-9]{1,9})?")
"""The name of a virtual device after the prefix: template, id of the device, id of the chip, and optionally the
group."""


class ChipListError(ValueError):
    """The text is not a valid chip list. The message gives the reason."""


@lru_cache(maxsize=8192)
def parse_chips(text: str, prefix: str) -> int:
    """Returns the mask of the listed chips; 0 for an empty text. Raises ChipListError."""
    return _parse(text, prefix, virtual=False)


@lru_cache(maxsize=8192)
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
