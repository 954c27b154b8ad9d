"""The fast path for JSON gives the same objects as the YAML reader."""

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.cluster.manifests import ManifestError, parse_manifests
from tests.builders import Raw

HEAD = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def read(text: str) -> list[Raw]:
    return [manifest.raw for manifest in parse_manifests(text.encode(), "input")]


def listed(*items: Raw) -> Raw:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES.filter(lambda value: "Infinity" not in json.dumps(value)))
def test_json_is_parsed_as_python_does_without_null_fields(value: object) -> None:
    text = json.dumps({**HEAD, "data": value, "nothing": None})
    assert read(text) == [without_nulls({**HEAD, "data": value})]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(VALUES.filter(lambda value: "Infinity" not in json.dumps(value)))
def test_listed_objects_are_parsed_as_python_does_without_null_fields(value: object) -> None:
    item = {**HEAD, "data": value, "spec": {"text": "null", "nothing": None}, "nothing": None}
    plain = {**HEAD, "data": value}
    assert read(json.dumps(listed(item, HEAD, plain))) == [without_nulls(item), HEAD, without_nulls(plain)]


@pytest.mark.parametrize(("deep", "innermost"), [(97, 1), (98, None)])
def test_the_maximum_depth_counts_from_the_list(deep: int, innermost: object) -> None:
    text = json.dumps(listed({**HEAD, "data": "deep"})).replace('"deep"', "[" * deep + "1" + "]" * deep)
    value = read(text)[0]["data"]
    for _ in range(96):
        value = value[0]
    assert value == [innermost]


def test_fields_keep_their_order() -> None:
    document = {"items": [{"a": 1}], **HEAD, "data": 2}
    assert list(read(json.dumps(document))[0]) == list(document)


@pytest.mark.parametrize("deep", [97, 98])
def test_json_up_to_the_maximum_depth_is_parsed_and_deeper_json_is_refused(deep: int) -> None:
    text = json.dumps(HEAD)[:-1] + ', "data": ' + "[" * (deep + 1) + "1" + "]" * (deep + 1) + "}"
    assert len(read(text)) == 1


def test_json_that_is_too_deep_is_refused_with_file_and_document() -> None:
    text = json.dumps(HEAD)[:-1] + ', "data": ' + "[" * 120 + "1" + "]" * 120 + "}"
    with pytest.raises(ManifestError, match=r"input, document 1: data\[0\].*nested more than 100 deep"):
        read(text)


def test_values_that_json_does_not_allow_are_refused() -> None:
    with pytest.raises(ManifestError, match="data: nan is not a number that JSON knows"):
        read(json.dumps({**HEAD, "data": math.nan}))


def test_a_lone_surrogate_is_replaced_as_api_servers_do() -> None:
    text = json.dumps({**HEAD, "data": ["\ud800", "\U0001f600"], "a\udc00": "b"})
    assert read(text) == [{**HEAD, "data": ["\ufffd", "\U0001f600"], "a\ufffd": "b"}]
