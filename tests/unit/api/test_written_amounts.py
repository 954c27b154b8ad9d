"""Amounts in the notation for users."""

import pytest

from scheduler.api.written_amounts import readable_text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("19595788288", "18.2Gi"),
        ("4Gi", "4Gi"),
        ("1088Gi", "1088Gi"),  # 1.1Ti would hide what is left of 1100Gi
        ("1.5Ti", "1.5Ti"),
        ("1300Mi", "1300Mi"),
        ("512Ki", "512Ki"),
        ("300", "300"),
        ("0", "0"),
        ("by hand", "by hand"),
    ],
)
def test_memory_has_the_largest_unit_in_which_one_decimal_says_enough(text: str, shown: str) -> None:
    assert readable_text("memory", text) == shown


def test_other_amounts_are_written_as_they_are() -> None:
    assert readable_text("cpu", "1.5") == "1500m"
    assert readable_text("NVIDIA-H200", "19595788288") == "19595788288"
