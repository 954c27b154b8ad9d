"""The free chips of each node at the start of a session, from the best source that can be read.

The best source is the lists of the device plugin (``device_lists``); without them, it is the number of allocatable
chips. Where the Node names its chips (``baseDeviceInfos``) and lists are self-maintained, all of these that are healthy
are free, unless it has virtual devices or shared chips. The chips that the node's Pods hold (``holdings``) are
subtracted, including those of terminating Pods: the chips of a Pod are not free as long as the Pod exists.

Two kinds of nodes are closed: those on which more chips seem free than the Pods leave idle, because a Pod has chips
that no annotation lists; and those that name their chips but have no readable list, because which of the chips are
healthy is unknown. The age of a report does not matter: device plugins may be silent while nothing changes.

A chip is assigned to no Pod while it is uncertain which Pod holds it. A list of free chips that the device plugin
publishes after the Pod has started removes the uncertainty.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler.api.names import BASE_DEVICE_INFOS
from scheduler.api.objects import Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.plugins.ascend.cluster_reports import ClusterReports
from scheduler.plugins.ascend.device_lists import Lists, NodeSources, device_reports, reported_lists
from scheduler.plugins.ascend.holdings import ChipHolding, disagreement, holding
from scheduler.plugins.ascend.masks import ALL, NONE, ChipListError, format_chips, highest, ids_of, lowest, parse_chips
from scheduler.plugins.ascend.npu_requests import MILLI, ChipRequests, ChipResource
from scheduler.plugins.ascend.shares import FULL, Quota, is_shared, share_of
from scheduler.plugins.support.device_info import DeviceInfoError, base_devices

_NOTHING: Final[Mapping[str, int]] = {}
_NO_SHARES: Final[Mapping[str, tuple[int, Quota]]] = {}
_NONE_TERMINATING: Final[frozenset[str]] = frozenset()
"""Shared by the nodes without Pods that hold or share chips, which are many."""
SUPER_POD_ID: Final = "superPodID"
NO_SUPER_POD: Final = -2
"""The id of servers that are in no super pod."""


class NodeChips(NamedTuple):
    """The chips of one node; ``free`` to ``unusable`` are masks."""

    free: int
    releasing: int
    """Held by terminating Pods only: free when these are deleted."""
    freed: Mapping[str, int]
    """uid of a Pod -> mask of the chips that become free when it is deleted."""
    network_faults: int
    """Not usable by jobs of several NPU Pods."""
    unusable: int
    """Unhealthy, recovering, or missing."""
    capacity: int
    """Number of healthy chips, free or not."""
    broken: int
    """Number of chips that are not healthy."""
    contradictory: bool
    """More chips seem free than the Pods on the node leave idle."""
    unreported: bool
    """The Node names its chips, and no source lists which are free."""
    countable: int
    """Number of chips that count as free when jobs are admitted to their queues. Where the list of free chips is
    malformed, this is the number that is idle."""
    super_pod: int
    """Id of the super pod; negative: none."""
    problems: tuple[Malformed, ...]
    present: int
    """Mask of the chips that exist, healthy or not."""
    recovering: int
    held: Mapping[str, int]
    """uid of a Pod -> mask of the chips that it holds."""
    leaving: int
    """Mask of the chips that only terminating Pods hold."""
    sub_healthy: int
    """Mask of the chips with a fault that jobs may ignore."""
    published: float
    """Unix time of the report that counts; 0 if unknown."""
    shares: Mapping[str, tuple[int, Quota]]
    """uid of a Pod -> the chip that it shares, and its quota. ``held`` has these chips too."""
    terminating: frozenset[str]
    """uids of the terminating Pods that share chips."""

    @property
    def occupied(self) -> int:
        """Mask of the chips that Pods hold."""
        mask = NONE
        for chips in self.held.values():
            mask |= chips
        return mask


class ChipRules(NamedTuple):
    """How the chips of one resource are read in a session, on all nodes."""

    resource: ChipResource
    requests: ChipRequests
    since: float
    """Unix time from which on bindings are recorded."""
    self_maintain: bool
    """Whether chips that the Node names are free unless a list says otherwise (``settings``)."""


def read_chips(sources: NodeSources, rules: ChipRules, allocatable: int) -> NodeChips:
    """Returns the chips of one node with ``allocatable`` chips, from all sources."""
    node, tasks, resource, problems = sources.node, sources.tasks, rules.resource, list[Malformed]()
    lists = reported_lists(resource, sources, problems)
    named = named_chips(resource, node, problems)
    pods = [(task, holding(resource, task, rules.requests, rules.since, problems)) for task in tasks]
    held = _held(pods, rules, lists, problems)
    unreported = lists is None and named != NONE
    idle = max(allocatable - sum([rules.requests.whole(task.cls) for task in tasks]), 0)
    shared = is_shared(node)
    if shared:  # the device plugin reports FULL for each chip
        listed = NONE if lists is None else lists.present
        allocatable = min(allocatable, (named | held.chips | listed).bit_count())
    if lists is None:
        found = _assumed(held, allocatable)
    else:
        maintained = rules.self_maintain and named and not lists.annotated and not _is_divided(node)
        found = _listed(lists, named if maintained else lists.free, held, allocatable)
    # A shared chip stays in the list while it is in use.
    contradictory = lists is not None and (lists.free if shared else found.free).bit_count() > idle
    is_open = not (held.closed or contradictory or unreported)
    free, barred = (found.free, found.unusable | held.doubtful) if is_open else (NONE, ALL)
    held_by, shares = _NOTHING, _NO_SHARES
    if held.chips:
        held_by = {task.uid: chips.held for task, chips in pods if chips.held}
        shares = _shares(pods)
    freed = held_by
    if shares or held.chips & (barred | held.contested):
        freed = {uid: chips & ~barred & ~held.contested for uid, chips in held_by.items() if uid not in shares}
    super_pod = _super_pod(node, problems) if lists is None or lists.super_pod is None else lists.super_pod
    countable = idle if lists is not None and lists.malformed and not free else free.bit_count()
    terminating = _NONE_TERMINATING
    if shares:
        leaving = (task for task in tasks if task.status is TaskStatus.RELEASING)
        terminating = frozenset(task.uid for task in leaving if task.uid in shares)
    return NodeChips(
        free=free,
        releasing=held.leaving & ~barred,
        freed=freed,
        network_faults=NONE if lists is None else lists.network_faults,
        unusable=found.unusable,
        capacity=found.capacity,
        broken=found.broken,
        contradictory=contradictory,
        unreported=unreported,
        countable=countable * (FULL if shared else 1),
        super_pod=super_pod,
        problems=tuple(problems),
        present=found.present,
        recovering=NONE if lists is None else lists.recovering,
        held=held_by,
        leaving=held.leaving,
        sub_healthy=NONE if lists is None else lists.sub_healthy,
        published=0.0 if lists is None else lists.published,
        shares=shares,
        terminating=terminating,
    )


class _Held(NamedTuple):
    """The chips that the Pods of a node hold, as masks."""

    chips: int
    leaving: int
    """Chips that only terminating Pods hold."""
    doubtful: int
    """Chips that Pods may hold."""
    contested: int
    """Chips that several Pods hold, and do not share."""
    unnamed: int
    """The number of chips that Pods hold without a name."""
    closed: bool
    """Whether a Pod may hold any chip that no other Pod provably holds."""


def _held(
    pods: Sequence[tuple[Task, ChipHolding]], rules: ChipRules, lists: Lists | None, problems: list[Malformed]
) -> _Held:
    """Returns the chips that the Pods hold. A list that the device plugin published after a Pod has started removes
    doubts about its chips."""
    contested = _contested(rules, pods, problems) if pods else NONE
    held = staying = doubtful = NONE
    unnamed, closed = 0, False
    for task, chips in pods:
        held |= chips.held
        if task.status is not TaskStatus.RELEASING:
            staying |= chips.held
        unnamed += chips.unnamed
        if chips.doubtful or chips.unknown or chips.held & contested:
            settled = lists is not None and lists.includes(task)
            doubtful |= chips.doubtful & ~lists.free if lists is not None and settled else chips.doubtful
            closed = closed or (not settled and (chips.unknown or bool(chips.held & contested)))
    return _Held(held, held & ~staying, doubtful, contested, unnamed, closed)


class _Existing(NamedTuple):
    """The chips of a node, as masks, and their numbers."""

    free: int
    unusable: int
    present: int
    capacity: int
    broken: int


def _assumed(held: _Held, number: int) -> _Existing:
    """Returns the chips of a node without lists. Which of its chips are missing is unknown: those that Pods hold exist,
    and the lowest other ids make up the number."""
    present = held.chips | lowest(ALL & ~held.chips, number - held.chips.bit_count())
    free = present & ~held.chips & ~held.doubtful
    # The device plugin chooses the unnamed chips. This plugin assigns the lowest ids first, so assuming the highest ids
    # collides least.
    free &= ~highest(free, held.unnamed)
    return _Existing(free, ALL & ~present, present, number, 0)


def _listed(lists: Lists, reported: int, held: _Held, number: int) -> _Existing:
    """Returns the chips of a node with lists. ``reported``: the chips that are free unless a Pod holds them;
    ``number``: the allocatable chips."""
    known = reported | held.chips | lists.network_faults | lists.unusable
    missing = number - known.bit_count()
    present = known | lowest(ALL & ~known, missing) if missing > 0 else known
    size = max(number, known.bit_length())
    capacity = min(number, size - lists.unusable.bit_count())
    free = reported & ~held.chips & ~lists.unusable & ~held.doubtful
    return _Existing(free, lists.unusable, present, capacity, size - capacity)


def read_exhausted(
    snapshot: Snapshot, rules: ChipRules, position: int, reports: ClusterReports, requested: Sequence[int] | None
) -> dict[int, NodeChips]:
    """Returns row -> chips of the nodes on which no chip is allocatable, because none is healthy, or because virtual
    NPUs were created on all of them. Their problems are not reported. ``position``: the index of the resource in
    resource vectors; ``requested``: only nodes with Pods that request a resource at one of these positions, which are
    few."""
    nodes = snapshot.nodes
    exhausted = whole_chips(nodes.allocatable[position]) <= 0
    if requested is not None:
        exhausted &= (nodes.used[list(requested)] > 0).any(axis=0)

    def read(row: int) -> NodeChips:
        node, name = nodes.facts.objects[row], nodes.names[row]
        found = device_reports(name, snapshot.config_maps, reports)
        return read_chips(NodeSources(node, found, snapshot.chips.get(name, ())), rules, 0)

    return {row: read(row) for row in np.flatnonzero(exhausted).tolist()}


def _shares(pods: Sequence[tuple[Task, ChipHolding]]) -> Mapping[str, tuple[int, Quota]]:
    """Returns uid of a Pod -> the chip that it shares, and its quota."""
    found = {
        task.uid: (chips.held.bit_length() - 1, quota)
        for task, chips in pods
        if chips.held and (quota := share_of(task)) is not None
    }
    return found or _NO_SHARES


def _contested(rules: ChipRules, pods: Sequence[tuple[Task, ChipHolding]], problems: list[Malformed]) -> int:
    """Returns the chips that more than one Pod with a request for whole chips holds, unless all of these share it. Adds
    a problem for each of these Pods."""
    resource, requests = rules.resource, rules.requests
    once = shared = contested = NONE
    for task, chips in pods:
        if not requests.whole(task.cls):
            continue
        if share_of(task) is not None:
            contested |= once & chips.held
            shared |= chips.held
        else:
            contested |= (once | shared) & chips.held
            once |= chips.held
    for task, chips in pods if contested else ():
        mine = chips.held & contested
        if mine:
            others = sorted(other.key for other, theirs in pods if theirs.held & mine and other is not task)
            what = f"{format_chips(ids_of(mine), resource.prefix)} of node {task.node} count as Pod {others[0]}'s too"
            consequence = "no other Pod is given them while one of the two exists"
            problems.append(disagreement(task, resource.name, what, consequence))
    return contested


def _super_pod(node: Node, problems: list[Malformed]) -> int:
    """Returns the id of the super pod that the Node names."""
    text = (node.metadata.annotations or {}).get(SUPER_POD_ID)
    digits = "" if text is None else text.removeprefix("-")
    if text is not None and digits.isascii() and digits.isdecimal() and len(digits) < 10:
        return int(text)
    if text is not None:
        field = f"metadata.annotations[{SUPER_POD_ID}]"
        problems.append(Malformed("Node", "", node.metadata.name, field, f"{text[:64]!r} is not a whole number"))
    return NO_SUPER_POD


def named_chips(resource: ChipResource, node: Node, problems: list[Malformed]) -> int:
    """Returns the mask of the chips that the Node names; 0 if it names none."""
    text = (node.metadata.annotations or {}).get(BASE_DEVICE_INFOS)
    try:
        devices = {} if text is None else base_devices(text)
    except DeviceInfoError as error:
        field = f"metadata.annotations[{BASE_DEVICE_INFOS}]"
        problems.append(Malformed("Node", "", node.metadata.name, field, str(error)))
        return NONE
    mask = NONE
    for name in devices:
        with suppress(ChipListError):  # virtual devices and chips of other resources
            mask |= parse_chips(name, resource.prefix)
    return mask


def _is_divided(node: Node) -> bool:
    """Whether the Node names virtual devices, or several Pods share its chips."""
    text = (node.metadata.annotations or {}).get(BASE_DEVICE_INFOS)
    if not text:
        return False
    with suppress(DeviceInfoError):
        names = base_devices(text)
        return any(name.count("-") > 1 for name in names) or is_shared(node)
    return False


def whole_chips(amounts: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Converts thousandths to whole chips, without fractions."""
    return (amounts / MILLI).astype(np.int64)
