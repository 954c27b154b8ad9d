"""Valid and invalid quotas, requests and names."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.api.cards import parse_names, parse_quota, parse_request
from tests.unit.plugins.capacity_card.cards import D4090, D4090D, H200, H800, SEED_QUOTA


def test_the_design_quota_is_read_in_thousandths() -> None:
    quota = parse_quota(json.dumps(SEED_QUOTA))
    assert quota.amounts == {(card,): number * 1000 for card, number in SEED_QUOTA.items()}
    assert quota.problems == ()


def test_a_request_may_name_alternative_cards() -> None:
    assert parse_request(f'{{"{D4090}|{D4090D}": 2}}').amounts == {(D4090, D4090D): 2000}


def test_a_quota_may_not_name_alternative_cards() -> None:
    quota = parse_quota(f'{{"{D4090}|{D4090D}": 2, "{H200}": 1}}')
    assert quota.amounts == {(H200,): 1000}
    assert len(quota.problems) == 1


def test_a_missing_annotation_is_an_empty_quota_without_problems() -> None:
    assert (parse_quota(None).amounts, parse_quota(None).problems, parse_quota(None).readable) == ({}, (), True)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '"NVIDIA-H200"', "null", "true", "{'A': 1}", "[" * 100_000, '{"A":' * 100_000, "1" * 5000],
)
def test_a_text_that_is_not_a_json_object_is_ignored(text: str) -> None:
    quota = parse_quota(text)
    assert (dict(quota.amounts), quota.readable) == ({}, False)
    assert len(quota.problems) == 1


@pytest.mark.parametrize(
    "entry",
    [
        '"A": "2"', '"A": true', '"A": null', '"A": [1]', '"A": {"b": 1}', '"A": -1', '"A": 0.5', '"A": NaN',
        '"A": Infinity', '"A": -Infinity', '"A": 1e400', '"A": 1000000001', '"A": 1e15', '"": 1', '" ": 1', '"A B": 1',
        '"cpu": 1', '"memory": 1', '"A": 1, "A": 2', '"A": 1, "A": 2, "A": 1', '"\\ud800": 1',
        '"' + "A" * 300 + '": 1',
    ],
)  # fmt: skip
def test_an_invalid_entry_is_ignored_and_the_others_count(entry: str) -> None:
    quota = parse_quota(f'{{{entry}, "NVIDIA-H200": 3}}')
    assert quota.amounts == {(H200,): 3000}
    assert quota.readable
    assert quota.problems
    assert all(len(problem) < 200 for problem in quota.problems)


def test_whole_numbers_written_as_fractions_are_taken() -> None:
    assert parse_quota('{"A": 2.0, "B": 0}').amounts == {("A",): 2000, ("B",): 0}


def test_names_keep_the_order_written() -> None:
    assert parse_names(f"{H800} | {H200}").names == (H800, H200)


@pytest.mark.parametrize(
    ("text", "names", "problems"),
    [
        ("", (), 1),
        ("|", (), 1),
        ("A||B", ("A", "B"), 1),
        ("A|A", ("A",), 1),
        ("A|b c", ("A",), 1),
        ("cpu", (), 1),
        ("|".join(f"A{i}" for i in range(70)), tuple(f"A{i}" for i in range(64)), 1),
    ],
)
def test_invalid_names_are_ignored(text: str, names: tuple[str, ...], problems: int) -> None:
    parsed = parse_names(text)
    assert parsed.names == names
    assert len(parsed.problems) == problems


@given(st.text() | st.recursive(st.none() | st.floats() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_parsing_arbitrary_text_raises_no_error(text: str) -> None:
    parse_names(text)
    assert all(amount >= 0 for amount in parse_quota(text).amounts.values())
    assert all(amount >= 0 for amount in parse_request(text).amounts.values())


@given(st.dictionaries(st.text(), st.floats() | st.integers() | st.booleans()))
def test_parsing_arbitrary_json_raises_no_error(values: dict[str, object]) -> None:
    text = json.dumps(values)
    assert all(amount == int(amount) for amount in parse_quota(text).amounts.values())
    parse_request(text)
