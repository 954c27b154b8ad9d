"""Amounts as people write them, and the units in which a change of one makes sense."""

from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import format_amount, scale_of

_BINARY = ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki"))
_PRECISION = 0.01
"""The part by which an amount that is written to be read may differ from the exact one."""


def unit_of(resource: str) -> float:
    """The smallest amount, in the units of vectors, that is worth a change: a milli-core, a mebibyte, a whole one."""
    if resource == "cpu":
        return 1.0
    if resource == "memory" or resource.endswith((".memory", "ephemeral-storage")) or resource.startswith("hugepages-"):
        return float(2**20 * scale_of(resource))
    return float(scale_of(resource)) if not resource.endswith(".cpu") else 1.0


def grain_of(resource: str) -> int:
    """How many units make a core or a gibibyte; 1 for resources that are counted in whole units."""
    smallest = unit_of(resource)
    if smallest >= 2**20:
        return 1024
    return 1000 if smallest == 1 and scale_of(resource) != 1 else 1


def units(resource: str, amount: float) -> int:
    """An amount in units, rounded up."""
    return int(-(-amount // unit_of(resource)))


def quantity(resource: str, amount: float) -> str:
    """An amount as people write it: ``2500m``, ``4Gi``, ``3``."""
    text = format_amount(resource, amount)
    if unit_of(resource) < 2**20 or not text.isdecimal():
        return text
    number = int(text)
    for power, suffix in _BINARY:
        if number and number % 2**power == 0:
            return f"{number >> power}{suffix}"
    return text


def readable(resource: str, amount: float) -> str:
    """An amount to read, not to calculate with: memory with at most one decimal, such as ``18.2Gi``, in the largest
    unit in which it differs by at most a hundredth."""
    text = format_amount(resource, amount)
    if unit_of(resource) < 2**20 or not text.isdecimal():
        return text
    number = int(text)
    for power, suffix in _BINARY:
        written = f"{number / 2**power:.1f}"
        if number >= 2**power and abs(float(written) * 2**power - number) <= number * _PRECISION:
            return written.removesuffix(".0") + suffix
    return text


def equal(resource: str, text: object, other: object) -> bool:
    """Whether two quantities of the API are the same amount; if one is malformed, whether the texts are the same."""
    try:
        return parse_quantity(str(text), scale_of(resource)) == parse_quantity(str(other), scale_of(resource))
    except QuantityError:
        return str(text) == str(other)


def readable_text(resource: str, text: object) -> str:
    """A quantity of the API as ``readable`` writes it; as it stands if it is malformed."""
    try:
        return readable(resource, parse_quantity(str(text), scale_of(resource)))
    except QuantityError:
        return str(text)
