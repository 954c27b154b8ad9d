"""The families of Ascend chips: one file each. ``FAMILIES`` lists all of them."""

from typing import Final

from scheduler.plugins.ascend.families import (
    a3_superpod,
    a3_x16,
    a5_superpod,
    base_310p,
    card_310_x4,
    card_310p_duo,
    card_910_x2,
    chip_310_x4,
    chip_310p_duo,
    half_910_x4,
    module_910_x8,
    module_910b_x8,
    module_910b_x16,
    npu_mesh,
    npu_single,
)
from scheduler.plugins.ascend.family import ChipFamily

FAMILIES: Final[tuple[ChipFamily, ...]] = (
    *module_910_x8.FAMILIES,
    *half_910_x4.FAMILIES,
    *card_910_x2.FAMILIES,
    *module_910b_x8.FAMILIES,
    *module_910b_x16.FAMILIES,
    *a3_x16.FAMILIES,
    *a3_superpod.FAMILIES,
    *a5_superpod.FAMILIES,
    *npu_mesh.FAMILIES,
    *npu_single.FAMILIES,
    *card_310_x4.FAMILIES,
    *chip_310_x4.FAMILIES,
    *card_310p_duo.FAMILIES,
    *chip_310p_duo.FAMILIES,
    *base_310p.FAMILIES,
)
"""All families. A job gets the first family of its resource whose traits it has."""
