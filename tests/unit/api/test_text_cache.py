"""Caches of parsers of texts that users write: bounded in characters."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.api import cards
from scheduler.api.cards import parse_names, parse_request
from scheduler.api.quantity import is_quantity, parse_amount, parse_quantity
from scheduler.api.text_cache import CHARACTERS, OF_NODES, cache_texts
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.vnpu.devices import parse_devices
from scheduler.plugins.deviceshare.device_config import VgpuConfig
from scheduler.plugins.deviceshare.wire import parse_npus, parse_register


def test_equal_texts_are_parsed_once() -> None:
    calls: list[str] = []

    @cache_texts(8)
    def parse(text: str) -> int:
        calls.append(text)
        return len(text)

    assert [parse(text) for text in ("a", "bb", "a", "a", "bb")] == [1, 2, 1, 1, 2]
    assert calls == ["a", "bb"]


def test_other_arguments_belong_to_the_key() -> None:
    @cache_texts(8)
    def parse(text: str, factor: int = 1) -> int:
        return len(text) * factor

    assert (parse("ab"), parse("ab", 3), parse("ab", factor=2)) == (2, 6, 4)


def test_the_cache_is_emptied_when_its_texts_are_too_long_together() -> None:
    calls: list[str] = []

    @cache_texts(100, characters=10)
    def parse(text: str) -> int:
        calls.append(text)
        return len(text)

    for text in ("abcd", "efgh", "abcd", "ijkl", "abcd"):  # the third text makes 12 characters
        parse(text)
    assert calls == ["abcd", "efgh", "ijkl", "abcd"]


def test_numbers_are_measured_by_their_digits() -> None:
    calls: list[object] = []

    @cache_texts(100, characters=10)
    def parse(value: str | int) -> str:
        calls.append(value)
        return str(value)

    for value in (10**6, 10**7, 10**6):
        parse(value)
    assert calls == [10**6, 10**7, 10**6]


def test_exceptions_are_neither_kept_nor_measured() -> None:
    calls: list[str] = []

    @cache_texts(8, characters=5)
    def parse(text: str) -> int:
        calls.append(text)
        return int(text)

    assert parse("1") == 1
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            parse("x" * 100)
    assert parse("1") == 1
    assert len(calls) == 3


def test_the_docstring_and_the_signature_are_those_of_the_function() -> None:
    assert parse_quantity.__doc__ is not None and "rounded up" in parse_quantity.__doc__
    assert [*inspect.signature(parse_quantity).parameters] == ["text", "scale"]


RESOURCE = ChipResource("huawei.com/Ascend910-2c")
LONG = 30_000
"""Characters of each text of a hostile user."""


def counts(number: int) -> str:
    return "{" + ",".join(f'"NVIDIA-{number}-{i}":1' for i in range(LONG // 18)) + "}"


def devices(number: int) -> str:
    return ",".join(f"{RESOURCE.prefix}{number + 1}{i:04}-{i % 64}" for i in range(LONG // 26))


HOSTILE: list[tuple[Any, Callable[[str], object], Callable[[int], str], int]] = [
    (parse_names, parse_names, lambda n: "|".join(f"NVIDIA-{n}-{i}" for i in range(LONG // 14)), CHARACTERS),
    (cards._parse_counts, parse_request, counts, CHARACTERS),
    (parse_quantity, parse_quantity, lambda n: f"{n}." + "0" * LONG, CHARACTERS),
    (is_quantity, is_quantity, lambda n: f"{n}" + "x" * LONG, CHARACTERS),
    (parse_amount, parse_amount, lambda n: "0" * LONG + f"{n}", CHARACTERS),
    (parse_devices, lambda text: parse_devices(text, RESOURCE), devices, CHARACTERS),
    (
        parse_register,
        lambda text: parse_register(text, VgpuConfig()),
        lambda n: f"u{n},1,1,NVIDIA-{'x' * LONG},true,hami-core:",
        OF_NODES,
    ),
    (
        parse_npus,
        lambda text: parse_npus(text, "Ascend310P", False),
        lambda n: f'[{{"id":"{n}{"x" * LONG}","count":1,"devmem":1,"devcore":1,"health":true}}]',
        OF_NODES,
    ),
]
"""The cached function, a call of it, hostile texts by number, and the characters that the cache may have."""


@pytest.mark.parametrize(
    ("function", "parse", "text_of", "limit"), HOSTILE, ids=lambda each: getattr(each, "__name__", "")
)
def test_long_texts_of_a_user_do_not_fill_the_memory(
    function: Any, parse: Callable[[str], object], text_of: Callable[[int], str], limit: int
) -> None:
    function.cache_clear()  # other tests have parsed short texts
    for number in range(limit // LONG + 20):
        parse(text_of(number))
        assert function.cache_info().currsize * LONG <= 2 * limit
