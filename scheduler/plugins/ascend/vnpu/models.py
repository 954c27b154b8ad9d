"""The models of chips that can be divided: their AI cores and AI CPUs, and the templates of virtual NPUs."""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.api.names import ASCEND_310P, ASCEND_910

YES: Final = "yes"
NO: Final = "no"
NULL: Final = "null"
"""Whether a virtual NPU has the image processor (DVPP) of its chip: yes, no, or a share."""


class PartTemplate(msgspec.Struct, frozen=True):
    """The size of a virtual NPU. Its name is part of the contract with the device plugin."""

    name: str
    cores: int
    cpus: int
    dvpp: str = NULL


class ChipModel(msgspec.Struct, frozen=True):
    """A model of chips."""

    name: str
    resource: str
    """The extended resource of whole chips."""
    cores: frozenset[int]
    """The numbers of AI cores that a chip may have."""
    cpus: int
    templates: tuple[PartTemplate, ...]
    requests: tuple[int, ...]
    """The numbers of AI cores, less than a chip, for which a Pod may ask."""
    with_dvpp: frozenset[int] = frozenset()
    """The ``requests`` with which the label ``vnpu-dvpp`` may be set."""
    with_level: frozenset[int] = frozenset()
    """The ``requests`` with which the label ``vnpu-level`` may be ``high``."""
    groups: bool = False
    """The virtual NPUs of a chip form at most four groups."""

    def template(self, cores: int, high: bool, dvpp: str) -> PartTemplate | None:
        """Returns the template of a request: of those with its cores and its DVPP the one with the most AI CPUs if the
        level is high, else the one with the fewest. None if there is none."""
        fitting = [t for t in self.templates if t.cores == cores and t.dvpp == dvpp]
        return (max if high else min)(fitting, key=lambda t: t.cpus, default=None)

    def smaller(self, template: PartTemplate) -> PartTemplate | None:
        """Returns the template with the same cores and DVPP and fewer AI CPUs, to be used if those lack; None if there
        is none."""
        found = self.template(template.cores, False, template.dvpp)
        return found if found is not None and found.cpus < template.cpus else None

    def named(self, name: str) -> PartTemplate | None:
        return next((t for t in self.templates if t.name == name), None)


_310P: Final = ChipModel(
    "Ascend310P",
    ASCEND_310P,
    frozenset({8, 10}),
    7,
    (
        PartTemplate("vir01", 1, 1),
        PartTemplate("vir02", 2, 2),
        PartTemplate("vir02_1c", 2, 1),
        PartTemplate("vir04", 4, 4),
        PartTemplate("vir04_3c", 4, 3),
        PartTemplate("vir04_3c_ndvpp", 4, 3, NO),
        PartTemplate("vir04_4c_dvpp", 4, 4, YES),
    ),
    (1, 2, 4),
    with_dvpp=frozenset({4}),
    with_level=frozenset({1, 2, 4}),
    groups=True,
)
_B1: Final = (
    PartTemplate("vir03_1c_8g", 3, 1),
    PartTemplate("vir06_1c_16g", 6, 1),
    PartTemplate("vir12_3c_32g", 12, 3),
)
_B3: Final = (PartTemplate("vir05_1c_16g", 5, 1), PartTemplate("vir10_3c_32g", 10, 3))
_B4: Final = (
    PartTemplate("vir05_1c_8g", 5, 1),
    PartTemplate("vir10_3c_16g", 10, 3),
    PartTemplate("vir10_3c_16g_nm", 10, 3, NO),
    PartTemplate("vir10_4c_16g_m", 10, 4, YES),
)


def _910(name: str, cores: int, templates: tuple[PartTemplate, ...], requests: tuple[int, ...]) -> ChipModel:
    return ChipModel(name, ASCEND_910, frozenset({cores}), 6, templates, requests)


MODELS: Final[Mapping[str, ChipModel]] = {
    model.name: model
    for model in (
        _310P,
        _910("910B1", 25, _B1, (6, 12)),
        _910("910B2", 24, _B1, (6, 12)),
        _910("910B2C", 24, _B1, (6, 12)),
        _910("910B3", 20, _B3, (5, 10)),
        _910("910B4-1", 20, _B3, (5, 10)),
        ChipModel(
            "910B4",
            ASCEND_910,
            frozenset({20}),
            6,
            _B4,
            (5, 10),
            with_dvpp=frozenset({10}),
            with_level=frozenset({10}),
        ),
        _910("Ascend910A3-20", 20, _B3, (5, 10)),
        _910("Ascend910A3-24", 24, _B1[1:], (6, 12)),
    )
}
"""The models by the name of the chip, or by the server type of A3 servers."""
