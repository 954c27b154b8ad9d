"""Arguments of plugins: values of the right type are used, other values are reported and replaced by the default."""

from typing import Any

import pytest

from scheduler.framework.arguments import Arguments


def test_values_of_the_right_type_are_taken() -> None:
    arguments = Arguments({"i": 3, "f": 1.5, "b": False, "s": "a, b", "fi": 2})
    assert arguments.integer("i", 1) == 3
    assert arguments.number("f", 1.0) == 1.5
    assert arguments.number("fi", 1.0) == 2.0
    assert arguments.boolean("b", True) is False
    assert arguments.text("s", "") == "a, b"
    assert not arguments.problems
    assert dict(arguments) == {"i": 3, "f": 1.5, "b": False, "s": "a, b", "fi": 2} and len(arguments) == 5


@pytest.mark.parametrize("values", [{}, {"x": None}])
def test_what_is_missing_or_null_is_the_default_without_a_word(values: dict[str, Any]) -> None:
    arguments = Arguments(values)
    assert arguments.integer("x", 7) == 7
    assert arguments.number("x", 7.5) == 7.5
    assert arguments.boolean("x", True) is True
    assert arguments.text("x", "d") == "d"
    assert not arguments.problems


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", "3"),
        ("integer", 3.0),
        ("integer", True),
        ("integer", [3]),
        ("integer", 2**63),
        ("number", "1.2"),
        ("number", False),
        ("number", {}),
        ("number", float("nan")),
        ("number", float("inf")),
        ("number", 10**400),
        ("boolean", "yes"),
        ("boolean", 1),
        ("text", 3),
        ("text", ["a"]),
    ],
)
def test_a_value_of_a_wrong_type_is_reported_and_replaced(kind: str, value: object) -> None:
    default: Any = {"integer": 7, "number": 7.5, "boolean": True, "text": "d"}[kind]
    arguments = Arguments({"x": value})
    assert getattr(arguments, kind)("x", default) == default
    assert len(arguments.problems) == 1 and arguments.problems[0].startswith("argument x: ")
    assert len(arguments.problems[0]) < 200


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("integer", "-1", "'-1' is not an integer but a string: write it without quotes; using 7"),
        ("number", "0.5", "'0.5' is not a number but a string: write it without quotes; using 7"),
        ("integer", "1 000", "'1 000' is not an integer; using 7"),
    ],
)
def test_a_number_in_quotes_is_named_as_such(kind: str, text: str, problem: str) -> None:
    arguments = Arguments({"x": text})
    assert getattr(arguments, kind)("x", 7, least=0) == 7
    assert arguments.problems == [f"argument x: {problem}"]


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("T", True), ("1", True), ("FALSE", False), ("f", False), ("0", False)]
)
def test_a_boolean_may_be_written_as_text(text: str, expected: bool) -> None:
    assert Arguments({"x": text}).boolean("x", not expected) is expected


def test_a_nested_mapping_is_read_like_arguments_and_its_problems_name_the_whole_path() -> None:
    arguments = Arguments({"outer": {"inner": {"weight": "heavy"}, 5: 6}})
    inner = arguments.nested("outer").nested("inner")
    assert inner.integer("weight", 1) == 1
    assert arguments.nested("outer").integer("5", 0) == 6, "keys are text"
    assert arguments.problems == ["argument outer.inner.weight: 'heavy' is not an integer; using 1"]


def test_a_missing_mapping_is_empty_and_a_value_that_is_no_mapping_is_reported() -> None:
    arguments = Arguments({"wrong": [1]})
    assert dict(arguments.nested("missing")) == dict(arguments.nested("wrong")) == {}
    assert arguments.problems == ["argument wrong: a list is not a mapping; using nothing"]


@pytest.mark.parametrize(
    ("value", "kept", "problem"), [(0, 0, []), (-1, 3, ["less than 0"]), (11, 3, ["more than 10"])]
)
def test_a_number_out_of_bounds_is_reported_and_replaced(value: int, kept: int, problem: list[str]) -> None:
    for read in (Arguments.integer, Arguments.number):
        arguments = Arguments({"weight": value})
        assert read(arguments, "weight", 3, least=0, most=10) == kept
        assert [text.split(" is ")[1].split(";")[0] for text in arguments.problems] == problem


@pytest.mark.parametrize(
    ("value", "seconds", "problems"), [("1m30s", 90.0, 0), (None, 5.0, 0), ("soon", 5.0, 1), (7, 5.0, 1)]
)
def test_a_duration_is_read_as_go_writes_it(value: object, seconds: float, problems: int) -> None:
    arguments = Arguments({"interval": value})
    assert arguments.duration("interval", 5.0) == seconds
    assert len(arguments.problems) == problems


def test_names_are_separated_by_commas() -> None:
    assert Arguments({"resources": " a, b,,c "}).names("resources") == ["a", "b", "c"]
    assert Arguments().names("resources") == []


def test_an_unread_argument_is_reported_with_its_whole_path() -> None:
    arguments = Arguments({"a": 1, "b": 2, "c": {"d": 3, "e": 4}})
    arguments.integer("a", 0)
    arguments.nested("c").integer("d", 0)
    assert arguments.unknown == ["b", "c.e"]


@pytest.mark.parametrize("default", ["3", None, True, [3]])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_a_default_of_a_wrong_type_is_an_error(kind: str, default: Any) -> None:
    with pytest.raises(TypeError, match=r"the default of argument x is .*, not a number"):
        getattr(Arguments(), kind)("x", default)
