"""Which chips one Pod has, from annotations that may be forged.

Users who may edit a Pod may write any list of chips onto it. So what the scheduler decided counts first, whatever the
Pod says now. Annotations are believed where nothing better exists: of Pods that another scheduler bound, or this one
before it signed its bindings. A Pod never holds more chips than it asks for. Chips about which annotations and record
disagree are given to no Pod as long as this Pod exists.
"""

from typing import Final, NamedTuple

from scheduler.api.names import ASCEND_REAL, EVENT_DEVICES_DISAGREE, EVENT_MALFORMED, NPU_CORE
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions
from scheduler.api.task import MOST_EARLIER, Task, TaskClass
from scheduler.plugins.ascend.chiplist import ChipListError, format_chips, parse_chips, parse_mounted
from scheduler.plugins.ascend.families import Family
from scheduler.plugins.ascend.rings import ALL, NONE

MILLI: Final = 1000
"""Vectors hold chips in thousandths."""


class Asked:
    """What classes ask of the chips of a family."""

    def __init__(self, family: Family, dimensions: Dimensions) -> None:
        names = dimensions.names
        self._known: dict[int, tuple[int, int]] = {}
        """Class -> whole chips, and most chips."""
        self._whole = dimensions.find(family.resource)
        self._parts = [d for d, name in enumerate(names) if name.startswith(f"{family.resource}-") or name == NPU_CORE]

    def whole(self, cls: TaskClass) -> int:
        """Whole chips, a fraction counting as one."""
        return self._of(cls)[0]

    def most(self, cls: TaskClass) -> int:
        """Chips of which a Pod may have something: virtual devices, and AI cores, may each be of another chip."""
        return self._of(cls)[1]

    def _of(self, cls: TaskClass) -> tuple[int, int]:
        known = self._known.get(cls.id)
        if known is None:
            whole = _units(cls, self._whole)
            known = self._known[cls.id] = whole, whole + sum(_units(cls, position) for position in self._parts)
        return known


def _units(cls: TaskClass, position: int | None) -> int:
    if position is None or position >= len(cls.request):
        return 0
    return int(-(-cls.request[position] // MILLI))


class Holding(NamedTuple):
    """What is believed of one Pod on a node."""

    held: int = NONE
    """Mask of the chips that count as its own; never more than it asks for."""
    doubtful: int = NONE
    """Mask of those that it may have besides, or instead."""
    nameless: int = 0
    """Whole chips asked for of which nothing says which they are."""
    unknown: bool = False
    """Whatever its annotations say may be wrong, and nothing better is known."""


def holding(family: Family, task: Task, asked: Asked, since: float, problems: list[Malformed]) -> Holding:
    """What a Pod on a node has. ``since``: Unix time since which bindings are recorded. What is wrong is added to
    ``problems``."""
    said = _Annotations(family, task, asked.most(task.cls), problems)
    whole = asked.whole(task.cls)
    recorded, earlier = said.recorded(), said.earlier()
    if whole and len(task.earlier) == MOST_EARLIER:
        said.unknown(f"its annotations of devices were changed on node {task.node} {MOST_EARLIER} times or more")
        return Holding(recorded, ALL & ~recorded, whole - recorded.bit_count(), True)
    if recorded:
        return Holding(recorded, (said.differing_from(recorded) | said.changed(earlier, recorded)) & ~recorded)
    mounted, assigned = said.mounted(), said.assigned()
    if whole and task.unproven(since):
        said.unknown(
            f"its binding to node {task.node} has no record that the scheduler signed "
            f"(annotated: {said.listed(mounted | assigned)})"
        )
        return Holding(NONE, mounted | assigned | earlier, whole, True)
    held = mounted or assigned
    return Holding(held, (assigned | said.changed(earlier, held)) & ~held, max(whole - held.bit_count(), 0))


class _Annotations:
    """What is written on a Pod about its chips: lists of no more chips than it asks for."""

    def __init__(self, family: Family, task: Task, most: int, problems: list[Malformed]) -> None:
        self._family = family
        self._task = task
        self._most = most
        self._problems = problems

    def recorded(self) -> int:
        """What the scheduler decided; 0: that its device plugin may choose, or nothing that is known."""
        record = self._task.record
        text = "" if record is None else record.chips.get(self._family.resource, "")
        try:
            return parse_chips(text, self._family.chip_prefix)
        except ChipListError:  # of a version that names chips otherwise
            return NONE

    def mounted(self) -> int:
        """What is really mounted, by the device plugin's word."""
        text = self._task.annotations.get(ASCEND_REAL, "")
        # The key is shared by all families; a Pod of another one lists other names.
        if not text.startswith(self._family.chip_prefix) and self._family.resource not in self._task.annotations:
            return NONE
        return self._read(ASCEND_REAL, text)

    def assigned(self) -> int:
        return self._read(self._family.resource, self._task.annotations.get(self._family.resource, ""))

    def earlier(self) -> int:
        """What annotations named before they were changed, as far as a device plugin may have followed them."""
        mask = NONE
        for key, text in self._task.earlier:
            if key in (ASCEND_REAL, self._family.resource):
                try:
                    found = parse_mounted(text, self._family.chip_prefix)
                except ChipListError:
                    continue
                mask |= found if found.bit_count() <= self._most else NONE
        return mask

    def changed(self, earlier: int, held: int) -> int:
        """The same chips; those that the Pod does not hold are reported."""
        if earlier & ~held:
            self.disagree(
                self._family.resource,
                f"holds {self.listed(held)} of node {self._task.node}, "
                f"was annotated with {self.listed(earlier & ~held)} there before",
                "no Pod is given those while this one exists",
            )
        return earlier

    def _read(self, key: str, text: str) -> int:
        try:
            mask = (parse_mounted if key == ASCEND_REAL else parse_chips)(text, self._family.chip_prefix)
        except ChipListError as error:
            self._complain(key, str(error))
            return NONE
        if mask.bit_count() <= self._most:
            return mask
        self.disagree(key, f"names {mask.bit_count()} chips: {self.listed(mask)}", "ignored")
        return NONE

    def differing_from(self, recorded: int) -> int:
        """The chips that annotations name although the Pod was bound with others. Device plugins ignore lists of
        another length."""
        doubtful = NONE
        annotations = self._task.annotations
        for key, mask in ((self._family.resource, self.assigned()), (ASCEND_REAL, self.mounted())):
            if mask == recorded or (key == ASCEND_REAL and not annotations.get(key)):
                continue
            if mask.bit_count() == recorded.bit_count():
                doubtful |= mask
            said = self.listed(mask) if mask else "none that count"
            self.disagree(
                key,
                f"bound to node {self._task.node} with {self.listed(recorded)}, annotated with {said}",
                f"no Pod is given {self.listed(recorded | doubtful)} while this one exists",
            )
        return doubtful

    def unknown(self, why: str) -> None:
        """Nothing that is written is believed."""
        consequence = "while it exists, no Pod is given chips there that the device plugin does not report as free"
        self.disagree(self._family.resource, why, consequence)

    def disagree(self, key: str, what: str, consequence: str) -> None:
        text = f"asked for {self._most} {self._family.resource}; {what}"
        self._complain(key, text, consequence, EVENT_DEVICES_DISAGREE)

    def listed(self, mask: int) -> str:
        return format_chips(mask, self._family.chip_prefix) or "none"

    def _complain(self, key: str, text: str, consequence: str = "ignored", reason: str = EVENT_MALFORMED) -> None:
        task, field = self._task, f"metadata.annotations[{key}]"
        uid = task.uid if reason == EVENT_DEVICES_DISAGREE else ""
        self._problems.append(Malformed("Pod", task.namespace, task.name, field, text, consequence, reason, uid=uid))
