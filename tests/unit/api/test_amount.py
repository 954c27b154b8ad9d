"""Amounts: quantities that are added and formatted as apimachinery's ``resource.Quantity`` does."""

import pytest

from scheduler.api.quantity import QuantityError, parse_amount


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("1", "1"),
        ("4000m", "4"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("1000", "1k"),
        ("1000M", "1G"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("0Gi", "0"),
        ("1e3", "1e3"),
        ("1e4", "10e3"),
        ("1e1", "10"),
        ("100n", "100n"),
        ("-5", "-5"),
        (2, "2"),
        (0.1, "100m"),
    ],
)
def test_an_amount_is_written_in_canonical_form(written: str | int | float, canonical: str) -> None:
    assert str(parse_amount(written)) == canonical


@pytest.mark.parametrize(("written", "canonical"), [("0.1n", "1n"), ("-0.1n", "-1n"), ("1e-20", "1e-9")])
def test_an_amount_finer_than_a_billionth_is_rounded_away_from_zero(written: str, canonical: str) -> None:
    assert str(parse_amount(written)) == canonical


@pytest.mark.parametrize("written", ["100E", "1e999", "9" * 400])
def test_an_amount_beyond_64_bits_is_limited(written: str) -> None:
    assert parse_amount(written).nano == (2**63 - 1) * 10**9


@pytest.mark.parametrize(
    ("left", "right", "total"),
    [("1Gi", "1G", "2073741824"), ("1G", "1Gi", "2073741824"), ("1Gi", "1024M", "2048576Ki"), ("0", "1Gi", "1Gi")],
)
def test_a_sum_is_exact_and_has_the_family_of_its_first_operand_that_is_not_zero(
    left: str, right: str, total: str
) -> None:
    assert str(parse_amount(left) + parse_amount(right)) == total


def test_a_sum_keeps_a_binary_family_where_the_number_allows() -> None:
    assert str(parse_amount("1Gi") + parse_amount("1048576")) == "1025Mi"
    assert str(parse_amount("1048576") + parse_amount("1Gi")) == "1074790400"


def test_a_multiple_is_exact_and_keeps_the_family() -> None:
    assert str(parse_amount("100m") * 10) == "1"
    assert str(parse_amount("512Mi") * 4) == "2Gi"
    assert str(parse_amount("1Gi") * 0) == "0"


@pytest.mark.parametrize("written", ["", "one", "1 Gi", "1gi", "--1", "1e99999", "0x10", "٣"])
def test_what_is_no_quantity_is_refused(written: str) -> None:
    with pytest.raises(QuantityError):
        parse_amount(written)
