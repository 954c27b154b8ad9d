"""Lists of objects that are decoded while they arrive."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.decoding import ListDecoder

BATCH = 40
_TEXT = st.sampled_from(["", "pod", '"},{"metadata":{', "\\", "},{", '{"items":[', "ä\U0001f600"])
_VALUES = st.recursive(
    _TEXT | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.fixed_dictionaries({"metadata": inner, "name": inner}), max_size=3)
        | st.dictionaries(_TEXT, inner, max_size=3)
    ),
    max_leaves=12,
)
_OBJECTS = st.fixed_dictionaries({"metadata": _VALUES, "spec": _VALUES})


def decoded(text: bytes, sizes: list[int], batch: int = BATCH) -> tuple[list[Any], list[Any], str]:
    """Feeds a list in parts of these sizes. Returns the objects decoded while it arrived, the rest, and the token."""
    decoder: ListDecoder[Any] = ListDecoder(Any, batch)
    early: list[Any] = []
    start = 0
    for size in [*sizes, len(text)]:
        early += decoder.feed(text[start : start + size])
        start += size
    rest = decoder.finish()
    return early, rest.items or [], rest.metadata.continuation


@given(
    items=st.lists(_OBJECTS, max_size=8), sizes=st.lists(st.integers(0, 90), max_size=20), metadata_first=st.booleans()
)
def test_any_list_in_any_parts_has_the_same_objects_in_the_same_order(
    items: list[Any], sizes: list[int], metadata_first: bool
) -> None:
    members: list[tuple[str, Any]] = [("kind", "PodList"), ("metadata", {"continue": "next"}), ("items", items)]
    text = json.dumps(dict(members if metadata_first else members[::-1]), separators=(",", ":"), ensure_ascii=False)

    early, rest, continuation = decoded(text.encode(), sizes)

    assert (early + rest, continuation) == (items, "next")


@pytest.mark.parametrize("first", ["metadata", "apiVersion"])
def test_objects_are_decoded_before_the_list_is_complete(first: str) -> None:
    items = [{first: {"name": f"p{i}"}, "spec": [{first: 1}, {first: 2}]} for i in range(100)]
    text = json.dumps({"metadata": {}, "items": items}, separators=(",", ":"))

    early, rest, _ = decoded(text.encode(), [50] * 200)

    assert early + rest == items
    assert len(early) > 90


def test_a_list_that_cannot_be_divided_is_decoded_as_a_whole() -> None:
    items = [{"metadata": {"name": f"p{i}"}} for i in range(100)]

    early, rest, _ = decoded(json.dumps({"items": items}, indent=1).encode(), [50] * 200)

    assert (early, rest) == ([], items)


@pytest.mark.parametrize("text", ["", "{}", '{"items":null}', '{"items":[]}'])
def test_a_list_without_objects_is_empty_or_malformed(text: str) -> None:
    decoder: ListDecoder[Any] = ListDecoder(Any, 1)

    assert decoder.feed(text.encode()) == []
    if text:
        assert not decoder.finish().items
    else:
        with pytest.raises(msgspec.DecodeError):
            decoder.finish()


@pytest.mark.parametrize(
    "text",
    [
        '{"items":[{"a":1},{"a":2},{"a":',
        '{"items":[{"a":1},{"a":2}] "metadata":{}}',
        '{"items":[{"a":1},{"a":2}],"metadata":{"continue":7}}',
        '{"items":[{"a":1},{"a"2},{"a":3}]}',
        '{"x":"{"items":[{"a":1},{"a":2}]}',
    ],
)
def test_a_malformed_list_raises_an_error_at_its_end(text: str) -> None:
    decoder: ListDecoder[Any] = ListDecoder(Any, 1)
    for byte in text.encode():
        decoder.feed(bytes([byte]))

    with pytest.raises(msgspec.MsgspecError):
        decoder.finish()


def test_an_object_nested_too_deeply_is_kept_without_its_deepest_levels() -> None:
    deep = '{"metadata":' * 50_000 + "1" + "}" * 50_000
    text = f'{{"items":[{{"metadata":0}},{{"metadata":{deep}}},{{"metadata":2}}]}}'

    early, rest, _ = decoded(text.encode(), [100, 100_000, 100_000, 100_000])

    found = early + rest
    assert [found[0], found[2]] == [{"metadata": 0}, {"metadata": 2}]
    assert set(found[1]) == {"metadata"}
