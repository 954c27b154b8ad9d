"""The state of each chip for tools that show it, the number of chips in each state for metrics, and the chips that fail
under running Pods, whether or not their jobs restart after faults."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from scheduler.api.device_states import IS_UNHEALTHY, Availability, Device, DeviceFault, DeviceState
from scheduler.api.names import ACCELERATOR_TYPE, NPU_CORE
from scheduler.api.objects import Node
from scheduler.api.task import FINISHED_STATUSES, Task, TaskStatus
from scheduler.framework.figures import DeviceCounts
from scheduler.plugins.ascend.families.chip_310p_duo import CARD_TYPE
from scheduler.plugins.ascend.family import DUO, STRATEGY, ChipFamily
from scheduler.plugins.ascend.inventory import NodeChips, whole_chips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import NONE, WIDTH, ids_of, mask_of
from scheduler.plugins.ascend.node_health import HEALTHY, REASONS, HealthColumns
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.npu_session import NpuLedgers, NpuSession
from scheduler.plugins.ascend.resolve import resolve
from scheduler.plugins.ascend.vnpu.devices import parse_devices
from scheduler.plugins.ascend.vnpu.inventory import NodeParts
from scheduler.plugins.ascend.vnpu.selection import PartUse

Getting = list[tuple[str, int, bool]]
"""Tasks that the session placed on one node: key, mask of their chips, and whether they are pipelined."""


PartHolders = Mapping[int, Mapping[str, int]]
"""Row of a node -> uid of a Pod -> mask of the chips that it has parts of."""


def node_devices(npus: NpuSession) -> Iterator[Device]:
    """Yields the chips of all nodes, with what the session decided so far."""
    session = npus.session
    tasks = {task.uid: task for of_node in session.snapshot.chips.values() for task in of_node}
    tasks |= {task.uid: task for job in session.jobs.values() for task in job.tasks()}
    placed = [(tasks[uid], row) for job in session.jobs.values() for uid, row in job.placed.items()]
    for ledger in npus.ledgers.whole.values():
        yield from _chip_states(npus, ledger, tasks, shares_of(ledger.resource, npus.ledgers, placed))


def _chip_states(
    npus: NpuSession, ledger: ChipLedger, tasks: Mapping[str, Task], shares: PartHolders
) -> Iterator[Device]:
    """Yields the chips of one resource. ``tasks``: all of the cluster, by uid."""
    resource, health, nodes = ledger.resource, npus.health.of(ledger.resource), npus.session.nodes.facts.objects
    chips = {**npus.ledgers.chips[resource], **npus.ledgers.exhausted(resource, with_pods=False)}
    getting: dict[int, Getting] = defaultdict(list)
    for uid, row, mask, pipelined in ledger.placed():
        getting[row].append((tasks[uid].key, mask, pipelined))
    for row, node in sorted(chips.items()):
        excluded = health.codes[row] != HEALTHY
        free, parts = NONE if excluded else int(ledger.free[row]), int(ledger.in_parts[row])
        note = _note(row, node, health)
        holders = [*node.held.items(), *shares.get(row, {}).items()]
        held = [(tasks[uid].key if uid in tasks else uid, mask) for uid, mask in holders]
        name = nodes[row].metadata.name
        size, group_name = _groups(resource.name, nodes[row], node.present.bit_length())
        for chip in ids_of(node.present):
            bit = 1 << chip
            state = _state(node, bit, free, parts, getting[row])
            pods = sorted(key for key, mask in held if mask & bit)
            pods += sorted(key for key, mask, _ in getting[row] if mask & bit and key not in pods)
            group = chip // size if size else 0
            chip_name = f"{resource.prefix}{chip}"
            yield Device(name, resource.name, chip_name, state, tuple(pods), group, group_name, note, node.published)


def _note(row: int, node: NodeChips, health: HealthColumns) -> str:
    """Returns what is wrong with the node as a whole."""
    if health.codes[row] != HEALTHY:
        return REASONS[health.codes[row]].removeprefix("node(s) were ")
    if node.unreported:
        return "no list of free chips that can be read"
    if node.contradictory:
        return "more free chips are listed than are idle"
    return "sub-healthy" if health.sub_healthy[row] or node.sub_healthy else ""


def shares_of(resource: ChipResource, ledgers: NpuLedgers, placed: Iterable[tuple[Task, int]]) -> PartHolders:
    """Returns who has parts of the chips of a resource: virtual NPUs that are created on demand or were created
    beforehand, or shares that this session gave. ``placed``: the tasks that the session placed, and the rows of their
    nodes."""
    parts, sharing = ledgers.parts, ledgers.shares.get(resource)
    found: dict[int, dict[str, int]] = defaultdict(dict)
    own = ledgers.devices_on(resource)
    for ledger in own:
        for row, node in ledger.nodes.items():
            held = {uid: parse_devices(",".join(names), ledger.resource)[1] for uid, names in node.held.items()}
            found[row] |= held
    divided = {
        row: node for row, node in ({} if parts is None else parts.columns.by_row).items() if _is_of(resource, node)
    }
    for row, there in divided.items():
        found[row] |= {uid: _chips(holding.uses) for uid, holding in there.holdings.items() if holding.uses}
    for task, row in placed:
        choice = None if parts is None or row not in divided else parts.taken(task)
        if choice is not None:
            found[row][task.uid] = _chips(choice.uses)
        chip = None if sharing is None else sharing.chip(task)
        if chip is not None:
            found[row][task.uid] = 1 << chip
        for ledger in own:
            if ledger.taken(task):
                found[row][task.uid] = parse_devices(ledger.taken(task), ledger.resource)[1]
    return found


def _is_of(resource: ChipResource, node: NodeParts) -> bool:
    return node.model is not None and node.model.resource == resource.name


def _chips(uses: Iterable[PartUse]) -> int:
    return mask_of(use.chip for use in uses)


def _groups(resource: str, node: Node, chips: int) -> tuple[int, str]:
    """Returns the number of chips of a group, and its name, in the family that the labels of the node suggest; 0 and ""
    if the family has no groups, or if the node is larger than its nodes."""
    labels = node.metadata.labels or {}
    traits = {STRATEGY: "card"}
    if ACCELERATOR_TYPE in labels:
        traits[ACCELERATOR_TYPE] = labels[ACCELERATOR_TYPE]
    if all(labels.get(label) in values for label, values in CARD_TYPE.items()):
        traits[DUO] = "true"
    family = resolve(resource, {}, traits)
    if not isinstance(family, ChipFamily) or not family.group or chips > family.chips:
        return 0, ""
    return family.group, family.group_name


def _state(node: NodeChips, bit: int, free: int, parts: int, getting: Getting) -> DeviceState:
    """Returns the state of the chip with the mask ``bit``."""
    placed = {pipelined for _, mask, pipelined in getting if mask & bit}
    held = NONE
    for mask in node.held.values():
        held |= mask
    for state, applies in (
        (DeviceState.RECOVERING, node.recovering & bit),
        (DeviceState.UNHEALTHY, node.unusable & bit),
        (DeviceState.BINDING, False in placed),
        (DeviceState.PIPELINED, True in placed),
        (DeviceState.TERMINATING, node.leaving & bit),
        (DeviceState.USED, held & bit),
        (DeviceState.DIVIDED, parts & bit),
        (DeviceState.UNKNOWN, not free & bit),
        (DeviceState.NETWORK_UNHEALTHY, node.network_faults & bit),
        (DeviceState.SUB_HEALTHY, node.sub_healthy & bit),
    ):
        if applies:
            return state
    return DeviceState.FREE


def chip_counts(npus: NpuSession, ledger: ChipLedger) -> DeviceCounts:
    """Counts the chips of one resource on each node, for metrics. The states are those of ``node_devices``, computed by
    columns.

    On a node without allocatable chips all chips are unhealthy; the Node's capacity says how many there are.
    """
    nodes, position = npus.session.nodes, npus.session.dimensions.index(ledger.resource.name)
    masks = ledger.by_availability(npus.health.of(ledger.resource).codes != HEALTHY)
    bits = np.stack([masks[each] for each in Availability], axis=1)
    exhausted = ledger.allocatable <= 0
    bits[exhausted] = 0
    counts = np.bitwise_count(bits).astype(np.int64)
    capacity = whole_chips(nodes.capacity[position])
    counts[exhausted, list(Availability).index(Availability.UNHEALTHY)] = capacity[exhausted]
    rows = np.flatnonzero(counts.any(axis=1))
    names = [nodes.names[row] for row in rows.tolist()]
    return DeviceCounts(ledger.resource.name, names, counts[rows], bits[rows])


def chip_faults(npus: NpuSession) -> Iterator[DeviceFault]:
    """Yields the chips that do not work, for each Pod on their nodes that uses them. Only nodes with a fault are looked
    at one by one."""
    snapshot, ledgers = npus.session.snapshot, npus.ledgers
    for resource, ledger in ledgers.whole.items():
        exhausted = ledgers.exhausted(resource, with_virtual=True)
        chips = {**ledgers.chips[resource], **exhausted} if exhausted else ledgers.chips[resource]
        unhealthy = {
            row: mask
            for row in sorted({*np.flatnonzero(ledger.faulty).tolist(), *exhausted} & chips.keys())
            if (mask := chips[row].unusable & ~chips[row].recovering & chips[row].present)
        }
        shares = shares_of(resource, ledgers, ()) if unhealthy else {}
        for row, mask in unhealthy.items():
            name, held, shared = snapshot.nodes.names[row], chips[row].held, shares.get(row, {})
            for task in snapshot.chips.get(name, ()):
                if task.status is TaskStatus.RELEASING or task.status in FINISHED_STATUSES:
                    continue
                used = held.get(task.uid, NONE) | shared.get(task.uid, NONE) | core_chips(task)
                for chip in ids_of(used & mask):
                    yield DeviceFault(name, f"{resource.prefix}{chip}", task, IS_UNHEALTHY)


def core_chips(task: Task) -> int:
    """Returns the mask of the chips of which a Pod uses AI cores (``0-vir02``; ``0,1`` for whole chips)."""
    mask = NONE
    text = task.annotations.get(NPU_CORE, "") if task.record is None else task.record.chips.get(NPU_CORE, "")
    for part in text.split(",") if text else ():
        number = part.partition("-")[0]
        if number.isascii() and number.isdecimal() and len(number) < 3 and int(number) < WIDTH:
            mask |= 1 << int(number)
    return mask
