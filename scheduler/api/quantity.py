"""Kubernetes quantities (``500m``, ``4Gi``, ``1e3``) to whole numbers.

Every amount in the program is a whole number held in a float64, so that adding and subtracting are exact and undoing a
placement restores every number bit for bit. Amounts are rounded up as Kubernetes' ``MilliValue`` and ``Value`` do, and
cut off at 2**53, beyond which float64 would round.
"""

import re
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

_SUFFIX: Final[dict[str, Decimal]] = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
_PATTERN: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,4})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)"
)
_UP: Final = Context(prec=40, rounding=ROUND_CEILING)
"""Digits beyond any amount that is kept are rounded up, as the amount itself is."""
LARGEST: Final = 2**53
"""The largest amount kept exactly: 9 PB of memory, or nine billion of a device counted in thousandths."""


class QuantityError(ValueError):
    """The text is not a quantity."""


@lru_cache(maxsize=65536)
def parse_quantity(text: str | int | float, scale: int = 1) -> int:
    """The quantity times ``scale`` (1 for whole units, 1000 for thousandths), rounded up, cut off at +-2**53.

    Raises QuantityError when the text is not a Kubernetes quantity.
    """
    number, factor, _ = split_quantity(text)
    value = _UP.multiply(_UP.multiply(number, factor), Decimal(scale))
    if value >= LARGEST:
        return LARGEST
    if value <= -LARGEST:
        return -LARGEST
    whole = int(value)
    return whole + 1 if value > whole else whole


def split_quantity(text: str | int | float) -> tuple[Decimal, Decimal, str]:
    """Number, what its suffix multiplies it with, and the suffix ("e" for an exponent). Raises QuantityError."""
    match = _PATTERN.fullmatch(str(text).strip())
    if match is None:
        raise QuantityError(f"not a quantity: {str(text)!r:.66}")
    number, exponent, suffix = match.groups()
    try:
        return Decimal(number + (exponent or "")), _SUFFIX[suffix or ""], "e" if exponent else suffix or ""
    except InvalidOperation:
        raise QuantityError(f"not a quantity: {str(text)!r:.66}") from None


def format_milli(amount: float) -> str:
    """An amount in thousandths as Kubernetes writes it: ``1500`` is ``1500m``, ``2000`` is ``2``."""
    whole = int(amount)
    return f"{whole}m" if whole % 1000 else str(whole // 1000)
