"""Chip lists and device information are parsed strictly, and errors have a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugins.ascend.masks import (
    ALL,
    ChipListError,
    format_chips,
    ids_of,
    parse_chips,
    parse_mounted,
)
from scheduler.plugins.support.device_info import DeviceInfoError, device_info, json_object

PREFIX = "Ascend910-"


@given(st.integers(0, ALL))
def test_parsing_a_formatted_list_returns_the_same_mask(mask: int) -> None:
    assert parse_chips(format_chips(ids_of(mask), PREFIX), PREFIX) == mask


def test_a_list_keeps_the_order_of_the_chips() -> None:
    assert format_chips((5, 8, 1), PREFIX) == "Ascend910-5,Ascend910-8,Ascend910-1"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Ascend910-0, Ascend910-1", "' Ascend910-1' is not a chip's name, Ascend910-<number> is"),
        ("Ascend910-0,Ascend910-0", "'Ascend910-0' is listed twice"),
        ("Ascend910-64", "'Ascend910-64': the chips are numbered 0 to 63"),
        ("Ascend910-99999999999999999999", "'Ascend910-99999999999999999999' is not a chip's name"),
        ("Ascend910--1", "'Ascend910--1' is not a chip's name"),
        ("Ascend910-01", "'Ascend910-01' is not a chip's name"),
        ("Ascend910-٣", "is not a chip's name"),
        ("Ascend310-0", "'Ascend310-0' is not a chip's name"),
        ("Ascend910-0,", "'' is not a chip's name"),
        (",", "'' is not a chip's name"),
        ("Ascend910-2c-100-0", "is not a chip's name"),
        ("Ascend910-0," * 1000, "12000 characters, a list has at most 1024"),
    ],
)
def test_a_malformed_list_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ChipListError) as error:
        parse_chips(text, PREFIX)
    assert problem in str(error.value)


def test_virtual_devices_count_for_their_chip() -> None:
    assert parse_mounted("Ascend910-2c-100-3", PREFIX) == 0b1000
    assert parse_mounted("Ascend910-12c.3cpu.32g-100-0_2", PREFIX) == 1
    assert parse_mounted("Ascend910-0,Ascend910-5", PREFIX) == 0b100001


@pytest.mark.parametrize("text", ['{"DeviceInfo":{"DeviceList":{"a":"b"}}}', '{"DeviceList":{"a":"b"},"UpdateTime":0}'])
def test_device_information_may_be_wrapped_or_flat(text: str) -> None:
    assert device_info(text).lists == {"a": "b"}


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", '{"DeviceInfo":7}', '{"DeviceList":[]}', "[" * 100_000])
def test_malformed_device_information_is_refused(text: str) -> None:
    with pytest.raises(DeviceInfoError):
        device_info(text)


@given(st.text())
def test_parsing_arbitrary_text_raises_no_unexpected_error(text: str) -> None:
    for read in (json_object, device_info, lambda t: parse_chips(t, PREFIX), lambda t: parse_mounted(t, PREFIX)):
        try:
            read(text)
        except (ChipListError, DeviceInfoError):
            continue


@given(st.text(alphabet="Ascend910-,.c_ 7", max_size=60))
def test_parsing_an_arbitrary_list_raises_no_unexpected_error(text: str) -> None:
    for read in (parse_chips, parse_mounted):
        try:
            assert 0 <= read(text, PREFIX) <= ALL
        except ChipListError:
            continue
