"""Remedies for jobs that get no chips: a job gets another family, or the Pods that hold chips would hold fewer."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.kinds import CONFIG_MAP, NODE, POD, POD_GROUP
from scheduler.api.names import (
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    DEVICE_INFO_NAMESPACE,
    NETWORK_UNHEALTHY_SUFFIX,
    RECOVERING_SUFFIX,
    TASK_ANNOTATIONS,
    UNHEALTHY_SUFFIX,
)
from scheduler.api.quantity import parse_quantity
from scheduler.api.task import Task
from scheduler.framework.remedies.adjustments import (
    Adjustment,
    ChangeKind,
    Edit,
    Plan,
    Raw,
    Step,
    indivisible,
    join_names,
)
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.node_amounts import missing_amounts
from scheduler.framework.remedies.nodes import compared_resources, passing_nodes
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.ascend.columns import ChipFilter
from scheduler.plugins.ascend.family import ChipFamily
from scheduler.plugins.ascend.family_choices import ANNOTATION, LABEL, NODE_SELECTOR, Setting
from scheduler.plugins.ascend.masks import first, groups_of, ids_of, lowest
from scheduler.plugins.ascend.npu_requests import MILLI, ChipResource
from scheduler.plugins.ascend.plugin import Ascend

_UNHEALTHY_LISTS: Final = (UNHEALTHY_SUFFIX, RECOVERING_SUFFIX, NETWORK_UNHEALTHY_SUFFIX)
Chip = tuple[int, int]
"""Row of the node, number of the chip."""


# --- another family ---
@remedies(Ascend, ChangeKind.CHIP_FAMILY)
def choose_family(evidence: Evidence, plugin: Ascend) -> Iterator[Plan]:
    """Lets the Pods of the job say what chooses the family of nodes in the cluster."""
    job = evidence.job
    for choice in plugin.family_choices(job):
        setting = choice.setting
        if choice.refusal:
            continue
        edits = [Edit(POD, task.namespace, task.name, partial(_with_setting, setting)) for task in job.tasks()]
        if setting.where == ANNOTATION and setting.key in job.annotations:  # it takes precedence
            edits.append(Edit(POD_GROUP, job.namespace, job.name, partial(_with_setting, setting)))
        text = f"which chooses {choice.family.title}" if choice.certain else f"if the nodes are {choice.family.title}"
        step = Step(f"give its Pods the {setting}, {text}", tuple(edits))
        yield (indivisible(ChangeKind.CHIP_FAMILY, step, str(setting)),)


def _with_setting(setting: Setting, raw: Raw) -> Raw:
    if setting.where == NODE_SELECTOR:
        raw["spec"]["nodeSelector"] = {**(raw["spec"].get("nodeSelector") or {}), setting.key: setting.value}
    else:
        part = "labels" if setting.where == LABEL else "annotations"
        raw["metadata"][part] = {**(raw["metadata"].get(part) or {}), setting.key: setting.value}
    return raw


# --- free chips ---
@remedies(Ascend, ChangeKind.CHIPS)
def free_chips(evidence: Evidence, plugin: Ascend) -> Iterator[Plan]:
    use = plugin.use(evidence.job)
    if use is None:
        return
    session, resource = evidence.session, use.resource
    position = session.dimensions.find(resource.name)
    if position is None:
        return
    with evidence.unplaced_tasks() as left:
        asking = [task for task in left if task.cls.request[position] > 0]
        if not asking or len(asking) < len(left):
            return
        free = [int(mask) for mask in plugin.ledgers.whole[resource].free]
        taken: set[int] = set()
        chips: list[Chip] = []
        for task in asking:
            place = _nearest(evidence, task, use.family, free, taken, position)
            if place is None:
                return
            row, mask = place
            chips += [(row, chip) for chip in ids_of(mask & ~free[row])]
            taken.add(row)  # the next Pod needs another node
        other_adjustments = (
            missing_amounts(evidence, chips[0][0], asking[:1], without=position) if len(asking) == 1 and chips else []
        )
    if chips and other_adjustments is not None:
        whole = int(asking[0].cls.request[position]) // MILLI
        group = use.family.group_name if whole <= use.family.group else ""
        yield (
            Adjustment(ChangeKind.CHIPS, len(chips), len(chips), partial(_freed, evidence, resource, chips, group)),
            *other_adjustments,
        )


def _nearest(
    evidence: Evidence, task: Task, family: ChipFamily, free: Sequence[int], taken: set[int], position: int
) -> tuple[int, int] | None:
    """Returns the node, and the chips on it, where the fewest chips have to be freed for the task."""
    session = evidence.session
    filters = [f for f in session.filters(task.cls, evidence.job) if not isinstance(f, ChipFilter)]
    fits = passing_nodes(session, filters)
    others = [d for d in compared_resources(task.cls) if d != position]
    short = (session.nodes.idle[others] < task.cls.request[others][:, np.newaxis]).sum(axis=0)
    number = int(task.cls.request[position]) // MILLI
    best: tuple[int, int, int, int] | None = None
    for row in np.intersect1d(np.flatnonzero(fits), evidence.rows).tolist():
        if row in taken:
            continue
        there = first(min(int(session.nodes.allocatable[position][row]) // MILLI, family.chips))
        for group in groups_of(there, family.group, family.chips) if number <= family.group else (there,):
            here = free[row] & group
            mask = here | lowest(group & ~here, number - here.bit_count())
            missing = max(number - here.bit_count(), 0)
            if number <= group.bit_count() and (best is None or (short[row], missing) < best[:2]):
                best = (int(short[row]), missing, row, mask)
    return None if best is None else best[2:]


def _freed(evidence: Evidence, resource: ChipResource, chips: list[Chip], group: str, amount: int) -> Step:
    """Returns the step that frees chips.

    ``group``: what the chips of a node have to be in, such as an HCCS ring; "": anywhere on it."""
    names = evidence.session.nodes.names
    by_node: dict[str, list[int]] = {}
    for row, chip in chips[:amount]:
        by_node.setdefault(names[row], []).append(chip)
    edits: list[Edit] = []
    texts = []
    for node, freed_chips in by_node.items():
        holders = _holders(evidence, resource, node)
        edits += _edits(resource, node, freed_chips, holders)
        held = dict.fromkeys(pod for chip, pod in holders.items() if chip in freed_chips)
        number = len(freed_chips)
        more = "1 more free chip" if number == 1 else f"{number} more free chips"
        text = f"{more} in one {group} on node {node}" if group else f"{more} on node {node}"
        if held:
            text += f" (held by {join_names([f'{namespace}/{name}' for namespace, name in held])})"
        texts.append(text)
    return Step(" and ".join(texts), tuple(edits))


def _holders(evidence: Evidence, resource: ChipResource, node: str) -> dict[int, tuple[str, str]]:
    """Returns chip -> namespace and name of the Pod whose annotation lists it."""
    holders = {}
    for task in evidence.session.snapshot.chips.get(node, ()):
        for name in task.annotations.get(resource.name, "").split(","):
            number = name.removeprefix(resource.prefix)
            if number.isdecimal():
                holders[int(number)] = (task.namespace, task.name)
    return holders


def _edits(resource: ChipResource, node: str, chips: list[int], holders: dict[int, tuple[str, str]]) -> Iterator[Edit]:
    for chip in chips:
        if chip in holders:
            yield Edit(POD, *holders[chip], partial(_without_chip, resource, chip))
    freed = partial(_with_free_chips, resource, chips)
    yield Edit(CONFIG_MAP, DEVICE_INFO_NAMESPACE, f"{DEVICE_INFO_CONFIGMAP_PREFIX}{node}", freed)
    yield Edit(NODE, "", node, freed)


def _without_chip(resource: ChipResource, chip: int, pod: Raw) -> Raw:
    """Returns the Pod without one of its chips. Ordinary init containers use the same chips as the others."""
    annotations = pod["metadata"].get("annotations") or {}
    for key in TASK_ANNOTATIONS:
        names = annotations.get(key, "").split(",")
        if f"{resource.prefix}{chip}" in names:
            names.remove(f"{resource.prefix}{chip}")
            annotations = {**annotations, key: ",".join(names)}
    pod["metadata"]["annotations"] = annotations
    started = pod["spec"].get("initContainers") or []
    ending = [container for container in started if container.get("restartPolicy") != "Always"]
    lasting = [*(pod["spec"].get("containers") or []), *(c for c in started if c not in ending)]
    for container in [*ending, *[c for c in lasting if _asks_for(resource, c)][:1]]:
        resources = container.get("resources") or {}
        for part in ("requests", "limits"):
            if _chips(resource, resources.get(part)):
                resources[part] = {**resources[part], resource.name: str(_chips(resource, resources[part]) - 1)}
    return pod


def _asks_for(resource: ChipResource, container: Raw) -> bool:
    resources = container.get("resources") or {}
    return any(_chips(resource, resources.get(part)) for part in ("requests", "limits"))


def _chips(resource: ChipResource, amounts: Raw | None) -> int:
    """Returns the number of chips in resource amounts that the API server has validated."""
    return parse_quantity((amounts or {}).get(resource.name, 0))


def _with_free_chips(resource: ChipResource, chips: list[int], raw: Raw) -> Raw:
    """Adds chips to the lists of free and healthy chips in an object; returns an object without such lists
    unchanged."""
    annotations = raw["metadata"].get("annotations") or {}
    if resource.name in annotations:
        raw["metadata"]["annotations"] = {**annotations, **_with_chips_listed(resource, annotations, chips)}
    text = (raw.get("data") or {}).get(DEVICE_INFO_KEY)
    if text:
        raw["data"] = {**raw["data"], DEVICE_INFO_KEY: _with_document_listed(resource, text, chips)}
    return raw


def _with_document_listed(resource: ChipResource, text: str, chips: list[int]) -> str:
    """Does so in a device plugin's document. A document that cannot be read is ignored elsewhere too: it stays
    unchanged."""
    try:
        root = json.loads(text)
        lists = root.get("DeviceInfo", root)
        lists["DeviceList"] = {**lists["DeviceList"], **_with_chips_listed(resource, lists["DeviceList"], chips)}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return text
    return json.dumps(root)


def _with_chips_listed(resource: ChipResource, lists: dict[str, str], chips: list[int]) -> dict[str, str]:
    names = [f"{resource.prefix}{chip}" for chip in chips]
    free = [name for name in lists.get(resource.name, "").split(",") if name]
    result = {resource.name: ",".join(sorted({*free, *names}))}
    for suffix in _UNHEALTHY_LISTS:
        key = resource.name + suffix
        if key in lists:
            result[key] = ",".join(name for name in lists[key].split(",") if name and name not in names)
    return result
