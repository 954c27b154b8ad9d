"""The parts of chips that a Pod holds, determined from annotations that may be forged.

The rules are those of whole chips: the signed record of the binding counts, and an annotation that says otherwise makes
the chips that it names unavailable. Without a record, the annotation counts if it matches the request. A Pod with AI
cores whose chips are unknown makes all chips of its node unavailable for new parts.
"""

import re
from contextlib import suppress
from typing import Final, NamedTuple

from scheduler.api.names import ASCEND_REAL, NPU_CORE
from scheduler.api.reasons import Malformed
from scheduler.api.task import MAX_EARLIER, Task
from scheduler.plugins.ascend.holdings import disagreement, malformed_annotation
from scheduler.plugins.ascend.masks import NONE, WIDTH, ChipListError, mask_of, parse_mounted
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.vnpu.models import ChipModel
from scheduler.plugins.ascend.vnpu.selection import WHOLE, PartUse

_NUMBERS: Final = re.compile(r"(?:0|[1-9][0-9]?)(?:,(?:0|[1-9][0-9]?)){0,63}")
_GROUP: Final = re.compile(r".*_([0-9]{1,3})", re.DOTALL)


class CoreHolding(NamedTuple):
    """The AI cores of one Pod on a node, as far as they are known."""

    uses: tuple[PartUse, ...] = ()
    doubtful: int = NONE
    """Mask of other chips that it may use too, or instead."""
    unknown: bool = False
    """Whether the Pod may use any chip of its node."""


def parse(text: str, model: ChipModel, size: int, cores: int) -> tuple[PartUse, ...]:
    """Parses the annotation ``huawei.com/npu-core`` of a Pod that asks for ``cores``. Raises ChipListError."""
    numbers, dash, name = text.partition("-")
    chips = [int(number) for number in numbers.split(",")] if _NUMBERS.fullmatch(numbers) else []
    if not chips or len(set(chips)) < len(chips) or max(chips) >= WIDTH or (bool(dash) and len(chips) > 1):
        raise ChipListError(f"{text[:64]!r} is neither a list of chips, as 0,1 is, nor a part of a chip, as 0-vir01 is")
    if not dash:
        uses = tuple(PartUse(chip, WHOLE, size, model.cpus) for chip in chips)
    else:
        template = model.named(name)
        if template is None:
            raise ChipListError(f"{text[:64]!r}: {model.name} chips have no template {name[:32]!r}")
        uses = (PartUse(chips[0], name, template.cores, template.cpus, template.dvpp),)
    found = sum(use.cores for use in uses)
    if found != cores:
        raise ChipListError(f"{text[:64]!r} means {found} AI cores, the Pod asks for {cores}")
    return uses


def holding(
    model: ChipModel, size: int, task: Task, cores: int, since: float, problems: list[Malformed]
) -> CoreHolding:
    """Returns what a Pod on a node holds, and adds what is wrong to ``problems``. ``cores``: its request; ``since``:
    Unix time from which on bindings are recorded."""
    text = task.annotations.get(NPU_CORE, "")
    if not cores:
        if text:
            what = f"{text[:64]!r}, but the Pod asks for no {NPU_CORE}"
            problems.append(disagreement(task, NPU_CORE, what, "ignored"))
        return CoreHolding()
    annotated = _parsed(task, text, model, size, cores, problems) if text else ()
    recorded = "" if task.record is None else task.record.chips.get(NPU_CORE, "")
    if recorded:
        uses = annotated if recorded == text else _parsed(task, recorded, model, size, cores, problems)
    else:
        uses = () if task.unproven(since) else annotated
    mounted, group = _mounted(model, task, max(cores // size, 1), problems)
    held = mask_of(use.chip for use in uses)
    doubtful = (mask_of(use.chip for use in annotated) | mounted | _earlier(model, size, task, cores)) & ~held
    unknown = len(task.earlier) == MAX_EARLIER or not (uses or mounted)
    if unknown:
        what = f"nothing that can be trusted says which chips of node {task.node} it has"
        consequence = "while it exists, no Pod is given parts of chips there"
    elif doubtful:
        what = f"the binding to node {task.node}, {NPU_CORE} and {ASCEND_REAL} name different chips"
        consequence = "no other Pod is given parts of them while this one exists"
    if unknown or doubtful:
        problems.append(disagreement(task, NPU_CORE, f"asks for {cores} {NPU_CORE}; {what}", consequence))
    confirmed = bool(task.annotations.get(ASCEND_REAL))
    uses = tuple(use._replace(confirmed=confirmed, group=group) for use in uses)
    return CoreHolding(uses, doubtful, unknown)


def _parsed(
    task: Task, text: str, model: ChipModel, size: int, cores: int, problems: list[Malformed]
) -> tuple[PartUse, ...]:
    """Returns what an annotation means; nothing, with a problem, if it does not match the request."""
    try:
        return parse(text, model, size, cores)
    except ChipListError as error:
        problems.append(malformed_annotation(task, NPU_CORE, str(error)))
        return ()


def _earlier(model: ChipModel, size: int, task: Task, cores: int) -> int:
    """Returns the mask of the chips in earlier values of the annotations; a device plugin could have used these
    values."""
    mask = NONE
    for key, value in task.earlier:
        with suppress(ChipListError):
            if key == NPU_CORE:
                mask |= mask_of(use.chip for use in parse(value, model, size, cores))
            elif key == ASCEND_REAL:
                found = parse_mounted(value, ChipResource(model.resource).prefix)
                mask |= found if found.bit_count() <= max(cores // size, 1) else NONE
    return mask


def _mounted(model: ChipModel, task: Task, number: int, problems: list[Malformed]) -> tuple[int, int]:
    """Returns the mask of the chips that the device plugin reports for a Pod, and the group of its virtual NPU, or -1.
    Lists of more than ``number`` chips are ignored."""
    text = task.annotations.get(ASCEND_REAL, "")
    try:
        mask = parse_mounted(text, ChipResource(model.resource).prefix)
    except ChipListError as error:
        problems.append(malformed_annotation(task, ASCEND_REAL, str(error)))
        return NONE, -1
    if mask.bit_count() > number:
        text = f"names {mask.bit_count()} chips, the AI cores of the Pod are on {number}"
        problems.append(disagreement(task, ASCEND_REAL, text, "ignored"))
        return NONE, -1
    group = _GROUP.fullmatch(text)
    return mask, -1 if group is None else int(group.group(1))
