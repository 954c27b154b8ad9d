"""Templates of virtual NPUs on Ascend 310P chips, and the choice of the chip.

A node creates virtual NPUs of one template at a time: until the device plugin reports a virtual NPU, the node takes no
other template, and the chip takes no further virtual NPU.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.plugins.deviceshare.cards import Card, CardPlacement, Cards, CardUse, Part

CPUS: Final = 7
"""AI CPUs of a chip, with eight cores or with ten."""
YES, NO, NULL = "yes", "no", "null"
HIGH: Final = "high"
WHOLE: Final = ""
"""The name of the part that is a whole chip."""
CUTTING: Final = "cutting"
"""The device plugin has not reported the virtual NPU yet."""
CHOSEN: Final = "chosen"
"""Allocated in this session."""


class CoreTemplate(msgspec.Struct, frozen=True):
    """The size of a virtual NPU."""

    cores: int
    cpus: int
    dvpp: str = NULL
    """Whether it includes the image processor (DVPP): yes, no, or null (either)."""
    fallback: str = ""
    """The template to use instead if there are too few AI CPUs."""


TEMPLATES: Final[Mapping[str, CoreTemplate]] = {
    "vir01": CoreTemplate(1, 1),
    "vir02": CoreTemplate(2, 2, fallback="vir02_1c"),
    "vir02_1c": CoreTemplate(2, 1),
    "vir04": CoreTemplate(4, 4, fallback="vir04_3c"),
    "vir04_3c": CoreTemplate(4, 3),
    "vir04_3c_ndvpp": CoreTemplate(4, 3, NO),
    "vir04_4c_dvpp": CoreTemplate(4, 4, YES),
}


@lru_cache(maxsize=16384)
def place(cards: Cards, cores: int, template: str) -> CardPlacement | None:
    """Places a request on the first idle chips (whole chips), or its template on the fitting chip with the least free
    cores. If no chip fits, the fallback template is tried. The score is 1, or 0 for a fallback template."""
    chip = cards[0] if cards else None
    if chip is None:
        return None
    if cores % chip.cores == 0:
        idle = [i for i, card in enumerate(cards) if card.slots and not card.used and card.free_cores >= card.cores]
        chosen = idle[: cores // chip.cores]
        if len(chosen) * chip.cores < cores:
            return None
        return CardPlacement((tuple(CardUse(i, CPUS, chip.cores, Part(WHOLE)) for i in chosen),), 1.0)
    name = template
    score = 1.0
    while name:
        i = _chip_for(cards, name)
        cut = TEMPLATES[name]
        if i is not None:
            return CardPlacement(((CardUse(i, cut.cpus, cut.cores, Part(name, state=CHOSEN)),),), score)
        name, score = cut.fallback, 0.0
    return None


def _chip_for(cards: Cards, name: str) -> int | None:
    """Returns the chip on which a virtual NPU of a template is created."""
    if any(part.state and part.name != name for card in cards for part in card.parts):
        return None
    template = TEMPLATES[name]
    order = sorted(range(len(cards)), key=lambda i: (cards[i].free_cores, cards[i].free_memory))
    return next((i for i in order if _takes(cards[i], template)), None)


def _takes(card: Card, template: CoreTemplate) -> bool:
    if not card.slots or card.free_cores < template.cores or card.free_memory < template.cpus:
        return False
    names = [part.name for part in card.parts]
    if WHOLE in names or any(part.state == CUTTING for part in card.parts):
        return False
    groups = {part.group for part in card.parts if part.group >= 0}
    if (len(groups) == 3 and template.cores >= 4) or (len(groups) >= 4 and template.cores >= 2):
        return False
    has = {TEMPLATES[cut].dvpp for cut in names if cut in TEMPLATES}
    free = NO if YES in has else NULL if NULL in has else YES
    return template.dvpp == NO or (free == YES if template.dvpp == YES else free != NO)


def template_for(cores: int, high: bool, dvpp: str) -> str:
    """Returns the template for fewer cores than a chip has; "" if there is none."""
    match cores:
        case 1:
            return "vir01"
        case 2:
            return "vir02" if high else "vir02_1c"
        case 4:
            if dvpp == NULL:
                return "vir04" if high else "vir04_3c"
            return "vir04_4c_dvpp" if dvpp == YES else "vir04_3c_ndvpp"
    return ""
