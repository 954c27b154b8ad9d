"""Quantities that are added, multiplied and written back: exact, in the canonical form of Kubernetes.

An amount keeps the family of suffixes it was written in, as apimachinery's ``resource.Quantity`` does: ``1024Mi`` is
``1Gi``, ``1000M`` is ``1G``, ``1e3`` stays ``1e3``; a sum takes the family of its first operand that is not zero.
"""

from dataclasses import dataclass
from decimal import ROUND_UP, Context, Decimal
from enum import Enum
from functools import lru_cache
from typing import Final

from scheduler.api.objects import Quantity
from scheduler.api.quantity import split_quantity

_NANO: Final = Decimal(10**9)
_LARGEST: Final = Decimal((2**63 - 1) * 10**9)
"""What Kubernetes cuts a quantity off at."""
_EXACT: Final = Context(prec=60, rounding=ROUND_UP)
"""Exact for whatever is not cut off or rounded to a thousand-millionth anyway."""
_DECIMAL_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Family(Enum):
    """Which suffixes an amount is written with."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity, exact to a thousand-millionth."""

    nano: int
    family: Family = Family.DECIMAL

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.nano + other.nano, self.family if self.nano else other.family)

    def __mul__(self, count: int) -> "Amount":
        return Amount(self.nano * count, self.family)

    def is_integer(self) -> bool:
        return not self.nano % 10**9

    def __str__(self) -> str:
        if not self.nano:
            return "0"
        whole, rest = divmod(self.nano, 10**9)
        if self.family is Family.BINARY and not rest and abs(whole) >= 1024:
            return _binary(whole)
        return _decimal(self.nano, self.family)


@lru_cache(maxsize=4096)
def parse_amount(text: Quantity) -> Amount:
    """A quantity as an amount, rounded away from zero to a thousand-millionth and cut off at +-(2**63 - 1).

    Raises QuantityError when the text is not a Kubernetes quantity.
    """
    number, factor, suffix = split_quantity(text)
    family = Family.EXPONENT if suffix == "e" else Family.BINARY if suffix.endswith("i") else Family.DECIMAL
    value = _EXACT.multiply(_EXACT.multiply(number, factor), _NANO)
    nano = int(min(abs(value), _LARGEST).to_integral_value(ROUND_UP))
    return Amount(-nano if value < 0 else nano, family)


def _decimal(nano: int, family: Family) -> str:
    exponent = -9
    while nano % 1000 == 0 and exponent < 18:
        nano //= 1000
        exponent += 3
    if family is Family.EXPONENT:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIXES[exponent]}"


def _binary(whole: int) -> str:
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY_SUFFIXES[power]}"
