"""Quantities are parsed like exact arithmetic, and malformed texts are refused."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.quantity import MAX_AMOUNT, QuantityError, parse_quantity

FACTORS = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(1000),
    "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}  # fmt: skip
DIGITS = st.text("0123456789", min_size=1, max_size=40)


def exactly(value: Fraction) -> int:
    """The expected value: rounded up and limited."""
    whole = -((-value.numerator) // value.denominator)
    return max(-MAX_AMOUNT, min(MAX_AMOUNT, whole))


@given(
    st.sampled_from(["", "+", "-"]),
    DIGITS,
    st.none() | DIGITS,
    st.sampled_from(sorted(FACTORS)),
    st.sampled_from([1, 1000]),
)
def test_any_number_with_any_suffix_is_rounded_up_exactly(
    sign: str, whole: str, fraction: str | None, suffix: str, scale: int
) -> None:
    number = whole if fraction is None else f"{whole}.{fraction}"
    value = Fraction(sign + number) * FACTORS[suffix] * scale
    assert parse_quantity(sign + number + suffix, scale) == exactly(value)


@given(DIGITS, st.sampled_from("eE"), st.integers(-30, 30))
def test_a_decimal_exponent_counts_exactly(whole: str, letter: str, exponent: int) -> None:
    assert parse_quantity(f"{whole}{letter}{exponent}") == exactly(Fraction(whole) * Fraction(10) ** exponent)


@pytest.mark.parametrize(
    ("text", "scale", "expected"),
    [
        ("500m", 1000, 500),
        ("0.5", 1000, 500),
        (".5", 1000, 500),
        ("1.", 1000, 1000),
        (2, 1000, 2000),
        (0.1, 1000, 100),
        ("1Gi", 1, 2**30),
        ("1E", 1, MAX_AMOUNT),
        ("1e3", 1, 1000),
        ("1u", 1000, 1),
        ("0", 1000, 0),
        ("1500m", 1, 2),
        ("9" * 400, 1, MAX_AMOUNT),
        ("-" + "9" * 400, 1, -MAX_AMOUNT),
        ("1e9999", 1, MAX_AMOUNT),
        ("1e-9999", 1, 1),
    ],
)
def test_quantities_equal_values_computed_by_hand(text: str | float, scale: int, expected: int) -> None:
    assert parse_quantity(text, scale) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "cpu",
        "1 Gi",
        "1gi",
        "1KiB",
        "--1",
        "1.2.3",
        "0x10",
        "1e",
        "1e1.5",
        "Gi",
        "nan",
        "inf",
        float("nan"),
        float("inf"),
        "١",
        "1e99999",
    ],
)
def test_what_is_no_quantity_is_refused(text: str | float) -> None:
    with pytest.raises(QuantityError, match="not a quantity"):
        parse_quantity(text)


@given(st.text(max_size=20))
def test_arbitrary_text_is_a_number_or_a_quantity_error(text: str) -> None:
    try:
        assert abs(parse_quantity(text, 1000)) <= MAX_AMOUNT
    except QuantityError as error:
        assert len(str(error)) < 120


@given(st.integers(0, 10**12))
def test_a_cached_quantity_is_not_used_for_another_scale(number: int) -> None:
    assert parse_quantity(number, 1000) == 1000 * parse_quantity(number, 1)
