"""Kubernetes quantities (``500m``, ``4Gi``, ``1e3``): whole numbers for vectors, and exact amounts.

Vectors hold whole numbers in float64, so that additions and subtractions are exact and undoing a placement restores
every number bit for bit. ``parse_quantity`` rounds up as Kubernetes' ``MilliValue`` and ``Value`` do, and limits values
to 2**53, beyond which float64 would round.

An ``ExactAmount`` keeps the family of suffixes of its text, as apimachinery's ``resource.Quantity`` does: ``1024Mi`` is
``1Gi``, ``1000M`` is ``1G``, ``1e3`` stays ``1e3``. A sum has the family of its first operand that is not zero.
"""

import re
from decimal import ROUND_CEILING, ROUND_UP, Context, Decimal, InvalidOperation
from enum import Enum
from typing import Final

import msgspec

from scheduler.api.objects import Quantity
from scheduler.api.text_cache import cache_texts

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
"""Rounds digits beyond the precision up, as the amount itself is rounded."""
MAX_AMOUNT: Final = 2**53
"""The largest exact amount: 9 PB of memory, or nine billion of a device counted in thousandths."""


class QuantityError(ValueError):
    """The text is not a quantity."""


@cache_texts(65536)
def parse_quantity(text: str | int | float, scale: int = 1) -> int:
    """Returns the quantity times ``scale`` (1 for whole units, 1000 for thousandths), rounded up, limited to +-2**53.

    Raises QuantityError if the text is not a Kubernetes quantity.
    """
    number, factor, _ = split_quantity(text)
    value = _UP.multiply(_UP.multiply(number, factor), Decimal(scale))
    if value >= MAX_AMOUNT:
        return MAX_AMOUNT
    if value <= -MAX_AMOUNT:
        return -MAX_AMOUNT
    whole = int(value)
    return whole + 1 if value > whole else whole


@cache_texts(65536)
def is_quantity(text: str) -> bool:
    """Whether ``parse_quantity`` accepts the text."""
    try:
        split_quantity(text)
    except QuantityError:
        return False
    return True


def split_quantity(text: str | int | float) -> tuple[Decimal, Decimal, str]:
    """Returns the number, the factor of its suffix, and the suffix ("e" for an exponent). Raises QuantityError."""
    match = _PATTERN.fullmatch(str(text).strip())
    if match is None:
        raise QuantityError(f"not a quantity: {str(text)!r:.66}")
    number, exponent, suffix = match.groups()
    try:
        return Decimal(number + (exponent or "")), _SUFFIX[suffix or ""], "e" if exponent else suffix or ""
    except InvalidOperation:
        raise QuantityError(f"not a quantity: {str(text)!r:.66}") from None


def format_milli(amount: float) -> str:
    """Formats an amount in thousandths as Kubernetes does: ``1500`` is ``1500m``, ``2000`` is ``2``."""
    whole = int(amount)
    return f"{whole}m" if whole % 1000 else str(whole // 1000)


_NANO: Final = Decimal(10**9)
_MAX_QUANTITY: Final = Decimal((2**63 - 1) * 10**9)
"""The largest quantity of Kubernetes."""
_EXACT: Final = Context(prec=60, rounding=ROUND_UP)
"""Exact for all values that are neither limited nor rounded to a billionth."""
_DECIMAL_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class SuffixFamily(Enum):
    """The suffixes that an amount is formatted with."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class ExactAmount(msgspec.Struct, frozen=True):
    """A quantity, exact to a billionth."""

    nano: int
    family: SuffixFamily = SuffixFamily.DECIMAL

    def __add__(self, other: "ExactAmount") -> "ExactAmount":
        return ExactAmount(self.nano + other.nano, self.family if self.nano else other.family)

    def __mul__(self, count: int) -> "ExactAmount":
        return ExactAmount(self.nano * count, self.family)

    def is_integer(self) -> bool:
        return not self.nano % 10**9

    def __str__(self) -> str:
        if not self.nano:
            return "0"
        whole, rest = divmod(self.nano, 10**9)
        if self.family is SuffixFamily.BINARY and not rest and abs(whole) >= 1024:
            return _binary(whole)
        return _decimal(self.nano, self.family)


@cache_texts(4096)
def parse_amount(text: Quantity) -> ExactAmount:
    """Returns a quantity as an amount, rounded away from zero to a billionth, limited to +-(2**63 - 1).

    Raises QuantityError if the text is not a Kubernetes quantity.
    """
    number, factor, suffix = split_quantity(text)
    family = (
        SuffixFamily.EXPONENT
        if suffix == "e"
        else SuffixFamily.BINARY
        if suffix.endswith("i")
        else SuffixFamily.DECIMAL
    )
    value = _EXACT.multiply(_EXACT.multiply(number, factor), _NANO)
    nano = int(min(abs(value), _MAX_QUANTITY).to_integral_value(ROUND_UP))
    return ExactAmount(-nano if value < 0 else nano, family)


def _decimal(nano: int, family: SuffixFamily) -> str:
    exponent = -9
    while nano % 1000 == 0 and exponent < 18:
        nano //= 1000
        exponent += 3
    if family is SuffixFamily.EXPONENT:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIXES[exponent]}"


def _binary(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY_SUFFIXES[power]}"
