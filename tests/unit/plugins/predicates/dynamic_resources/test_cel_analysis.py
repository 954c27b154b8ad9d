"""The largest cost of a CEL expression, and the attributes of a device that it reads, by its syntax tree."""

import pytest

from scheduler.plugins.predicates.dynamic_resources.cel_analysis import ATTRIBUTES, CAPACITY, DRIVER, MAX_ITERATIONS
from scheduler.plugins.predicates.dynamic_resources.expressions import Expression

TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def steps(text: str) -> int:
    return Expression(text).steps


def test_what_a_macro_repeats_counts_as_often_as_its_range_has_elements() -> None:
    call = "quantity(string(x)).isInteger()"
    once = steps(call.replace("x", "1"))

    assert 9 * once < steps(f"{TEN}.all(x, {call})") < 12 * once
    assert 90 * once < steps(f"{TEN}.all(y, {TEN}.exists(x, {call}))") < 120 * once
    assert 90 * once < steps(f"{TEN}.map(y, y * 2).filter(z, {TEN}.exists_one(x, {call})).size() > 0") < 120 * once
    assert 19 * once < steps(f"({TEN} + {TEN}).all(x, {call})") < 24 * once


def test_no_part_counts_more_often_than_the_runtime_iterates() -> None:
    nested = "isQuantity(string(a))"
    for variable in "abcdef":
        nested = f"{TEN}.all({variable}, {nested})"

    assert steps(nested) < 2 * MAX_ITERATIONS * steps("isQuantity(string(1))")


def test_a_range_of_unknown_size_counts_as_the_largest_possible_one() -> None:
    assert steps("lists.range(size(device.driver)).all(x, isQuantity(string(x)))") > 10_000 * 30
    few = steps('device.attributes["a"].list.split(",").all(x, isQuantity(x))')
    assert 64 * 30 < few < 64 * 100


@pytest.mark.parametrize(
    ("cheap", "costly"),
    [
        ("'a'.matches('[a-z]+')", "'a'.matches('(a{500}){2}')"),
        ("'a'.matches('b')", "'a'.matches('a' + 'b')"),
        ("'ab'.replace('a', 'b') == ''", f"'{'a' * 3000}'.replace('a', '{'b' * 3000}') == ''"),
        ("cel.bind(a, 'x', a) == ''", "cel.bind(a, 'x', cel.bind(b, a + a, cel.bind(c, b + b, c.upperAscii()))) == ''"),
    ],
)
def test_patterns_and_growing_texts_count_by_what_they_can_become(cheap: str, costly: str) -> None:
    assert steps(costly) > 5 * steps(cheap)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("true", ()),
        ('device.driver == "x"', ((DRIVER, "", ""),)),
        ('device.attributes["x"].model == "a"', ((ATTRIBUTES, "x", "model"),)),
        ('device.attributes["x"]["model"] == "a"', ((ATTRIBUTES, "x", "model"),)),
        ("has(device.attributes.x.model)", ((ATTRIBUTES, "x", "model"),)),
        (
            'device.capacity["x"].memory == quantity("1") && device.attributes["y"].a == 1',
            ((ATTRIBUTES, "y", "a"), (CAPACITY, "x", "memory")),
        ),
        ('[1].all(a, device.attributes["x"].model == "a")', ((ATTRIBUTES, "x", "model"),)),
        ('"x" in device.attributes', None),
        ('device.attributes["x"].?model.orValue("") == ""', None),
        ("device.attributes[device.driver].a == 1", None),
        ('cel.bind(a, device.attributes["x"], a.model == "a")', None),
    ],
)
def test_what_an_expression_reads_of_a_device(text: str, reads: tuple[tuple[str, str, str], ...] | None) -> None:
    assert Expression(text).reads == reads


def test_a_tree_of_the_largest_expression_is_analyzed() -> None:
    assert steps(" && ".join(["device.driver != 'x'"] * 400)) < 1000
