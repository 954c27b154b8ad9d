"""The state of each chip, for tools that show it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from scheduler.api.device_states import Device, DeviceState
from scheduler.api.task import Task
from scheduler.plugins.ascend.inventory import NodeChips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import NONE, ids_of

Getting = list[tuple[str, int, bool]]
"""Tasks that the session placed on one node: key, mask of their chips, and whether they are pipelined."""


def chip_states(
    ledger: ChipLedger, names: list[str], chips: Mapping[int, NodeChips], tasks: Mapping[str, Task]
) -> Iterator[Device]:
    """Yields the chips of one resource. ``names``: of nodes, by row; ``chips``: by row; ``tasks``: all of the cluster,
    by uid."""
    getting: dict[int, Getting] = defaultdict(list)
    for uid, row, mask, pipelined in ledger.placed():
        getting[row].append((tasks[uid].key, mask, pipelined))
    for row, node in chips.items():
        free, parts = int(ledger.free[row]), int(ledger.in_parts[row])
        held = [(tasks[uid].key if uid in tasks else uid, mask) for uid, mask in node.held.items()]
        prefix = ledger.resource.prefix
        for chip in ids_of(node.present):
            bit = 1 << chip
            state = _state(node, bit, free, parts, getting[row])
            pods = {key for key, mask in held if mask & bit}
            pods |= {key for key, mask, _ in getting[row] if mask & bit}
            yield Device(names[row], ledger.resource.name, f"{prefix}{chip}", state, tuple(sorted(pods)))


def _state(node: NodeChips, bit: int, free: int, parts: int, getting: Getting) -> DeviceState:
    """The state of the chip with the mask ``bit``."""
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
    ):
        if applies:
            return state
    return DeviceState.FREE
