"""Documents that are nested deeper than Python can decode."""

import json

import msgspec
import pytest

from scheduler.cluster.decoding import decode, shallow

_any = msgspec.json.Decoder()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"),
        ("[[1],2]", "[[1],2]"),
        ("[[[1]],2]", "[[null],2]"),
        ('{"a":{"b":{"c":{}},"d":[[]],"e":"["}}', '{"a":{"b":null,"d":null,"e":"["}}'),
        (r'[["\"[{"],[["\\"]]]', r'[["\"[{"],[null]]'),
        ("[[[", "[[["),
        ("]]", "]]"),
    ],
)
def test_values_nested_below_the_depth_become_null(text: str, expected: str) -> None:
    assert shallow(text.encode(), 2) == expected.encode()


def test_a_document_that_python_can_decode_is_decoded_completely() -> None:
    document = json.loads('{"a":' * 300 + "1" + "}" * 300)
    assert decode(_any, json.dumps(document).encode()) == document


@pytest.mark.parametrize("depth", [9_999, 100_000])
def test_a_document_too_deep_for_python_is_decoded_without_its_deepest_levels(depth: int) -> None:
    text = '{"near":1,"far":' + '{"a":' * depth + "1" + "}" * depth + "}"
    document = decode(_any, text.encode())
    assert isinstance(document, dict) and document["near"] == 1


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "}" * 100_000])
def test_a_deep_document_that_is_not_json_raises_the_error_of_the_decoder(text: str) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        decode(_any, text.encode())
